#define _GNU_SOURCE
#include "apply.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "compress.h"
#include "kernel-table.h"
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

/* Floats: of a line of the cache; of a stretch that passes all stages at once; of a block; of an update that wakes the helper. */
enum { LINE = 16, STRETCH = 16 * LINE, BLOCK = 64 * STRETCH, SHARED = 8 * BLOCK };

/* ---- one block ---- */

/* Whole lines are not read before they are overwritten. The fence is the caller's. */
static void deliver(float *to, const float *from, size_t n) {
#if defined(__x86_64__)
  const size_t before = (-(uintptr_t)to & 63) / sizeof *to, head = before < n ? before : n;
  memcpy(to, from, head * sizeof *to);
  size_t i = head;
  for (; i + LINE <= n; i += LINE) {
    for (size_t j = 0; j < LINE; j += 4) _mm_stream_ps(to + i + j, _mm_loadu_ps(from + i + j));
  }
  to += i;
  from += i;
  n -= i;
#endif
  memcpy(to, from, n * sizeof *to);
}

/* Stretches are whole vectors, so that the bits are those of one call for all. */
static int apply_part(const application *a, size_t from, size_t end) {
  double call[KERNEL_NUMBERS];
  memcpy(call, a->update, sizeof call);
  double *pointer = call + 1 + a->first;
  for (; from < end; from += STRETCH) {
    const size_t length = end - from < STRETCH ? end - from : STRETCH;
    for (size_t p = 0; p < a->pointers; p++) pointer[p] = a->update[1 + a->first + p] + (double)(from * sizeof(float));
    pointer[a->pointers] = (double)length;
    const float *parameters = (const float *)(uintptr_t)pointer[0];
    if (a->count > 0) sum_block((float *)(uintptr_t)pointer[1], length, a->sources, a->factors, a->count, from);
    if (kernel_call(call) != 0) return 1;
    for (size_t t = 0; t < a->delivered; t++) deliver((float *)(uintptr_t)a->targets[t] + from, parameters, length);
  }
#if defined(__x86_64__)
  _mm_sfence();
#endif
  return 0;
}

/* ---- two threads ---- */

typedef struct {
  const application *what;
  size_t length;
  atomic_size_t next;
  atomic_int failed;
} job;

static pthread_mutex_t use = PTHREAD_MUTEX_INITIALIZER;
static int helped; /* under `use`: 0 not tried yet, 1 there is a helper, -1 there is none */
static _Atomic(job *) current;
static atomic_int inside; /* the helper may look at `current` */
static atomic_uint posted;

static void take_blocks(job *j) {
  for (;;) {
    const size_t from = atomic_fetch_add(&j->next, BLOCK);
    if (from >= j->length) return;
    if (apply_part(j->what, from, j->length - from < BLOCK ? j->length : from + BLOCK) != 0) atomic_store(&j->failed, 1);
  }
}

static void *help(void *nothing) {
  (void)nothing;
  unsigned seen = 0;
  for (;;) {
    syscall(SYS_futex, &posted, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    seen = atomic_load(&posted);
    atomic_store(&inside, 1);
    job *j = atomic_load(&current);
    if (j != NULL) take_blocks(j);
    atomic_store(&inside, 0);
  }
  return NULL;
}

static int start_helper(void) {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) < 2) return -1;
  /* Signals are for the program's own threads. */
  sigset_t all, before;
  sigfillset(&all);
  pthread_t thread;
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = pthread_create(&thread, NULL, help, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) return -1;
  pthread_detach(thread);
  return 1;
}

int apply(const application *a) {
  const size_t n = (size_t)a->update[1 + a->first + a->pointers];
  if (n < SHARED || pthread_mutex_trylock(&use) != 0) return apply_part(a, 0, n);
  if (helped == 0) helped = start_helper();
  job own = {.what = a, .length = n};
  if (helped > 0) {
    atomic_store(&current, &own);
    atomic_fetch_add(&posted, 1);
    syscall(SYS_futex, &posted, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  }
  take_blocks(&own);
  /* The helper announces itself before it looks, so one that is not announced by now finds nothing. */
  atomic_store(&current, NULL);
  while (atomic_load(&inside)) sched_yield();
  pthread_mutex_unlock(&use);
  return atomic_load(&own.failed);
}
