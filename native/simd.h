/*
 * Plain loops compiled more than once: the dynamic linker takes the widest version that this CPU runs. For loops that the compiler
 * vectorises by itself; on arm64 every CPU has the vectors that are used, so there one version is enough. So it is for the thread
 * sanitizer, which is not there yet when the linker chooses.
 */
#ifndef VERBENA_SIMD_H
#define VERBENA_SIMD_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST
#endif

#endif
