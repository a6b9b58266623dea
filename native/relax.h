/* What a loop does between two looks at memory that another core writes: two hardware threads of one core share its execution units. */
#ifndef VERBENA_RELAX_H
#define VERBENA_RELAX_H

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif
