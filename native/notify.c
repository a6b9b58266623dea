#define _GNU_SOURCE
#include "notify.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"
#include "relax.h"

#define SPIN_NS 300000 /* how long the watcher goes on without seeing anything */
#define MAX_QUEUES 256

void notify_ring(int bell) {
  ssize_t ignored = write(bell, "", 1);
  (void)ignored; /* a full pipe has a wake-up pending already */
}

int notify_queue(int32_t *cq, uint32_t ring, int solicited, int bell) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST); /* the entry may have been published with a plain store */
  int32_t word = __atomic_load_n(&cq[CQ_WORD], __ATOMIC_SEQ_CST);
  if (word & CQ_BITMAP) {
    __atomic_fetch_or(&cq[CQ_BITS + ((ring >> 5) & 31)], (int32_t)(1u << (ring & 31)), __ATOMIC_SEQ_CST);
    __atomic_store_n(&cq[CQ_READY], 1, __ATOMIC_SEQ_CST);
    word = __atomic_load_n(&cq[CQ_WORD], __ATOMIC_SEQ_CST);
  }
  if (!(word & CQ_ARMED_ANY) && !((word & CQ_ARMED_SOLICITED) && solicited)) return 0;
  int32_t count = __atomic_load_n(&cq[CQ_MODERATION_COUNT], __ATOMIC_RELAXED);
  if (count > 1) {
    int32_t n = __atomic_add_fetch(&cq[CQ_PENDING], 1, __ATOMIC_SEQ_CST);
    if (n == 1 && __atomic_load_n(&cq[CQ_MODERATION_PERIOD], __ATOMIC_RELAXED) > 0) {
      notify_ring(bell); /* the owner starts the period */
      return 1;
    }
    if (n < count) return 0;
  }
  int32_t before = __atomic_fetch_and(&cq[CQ_WORD], ~(CQ_ARMED_ANY | CQ_ARMED_SOLICITED), __ATOMIC_SEQ_CST);
  if (!(before & (CQ_ARMED_ANY | CQ_ARMED_SOLICITED))) return 0;
  notify_ring(bell);
  return 1;
}

struct watcher {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  int32_t *queues[MAX_QUEUES];
  int count, bell, stop, asleep;
};

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Wakes the owner of a queue that waits and has something. Returns whether it did. */
static int serve(watcher *w, int32_t *cq) {
  if (!__atomic_load_n(&cq[CQ_READY], __ATOMIC_SEQ_CST) || !__atomic_load_n(&cq[CQ_THREAD_ARMED], __ATOMIC_SEQ_CST)) return 0;
  __atomic_store_n(&cq[CQ_THREAD_ARMED], 0, __ATOMIC_SEQ_CST);
  notify_ring(w->bell);
  return 1;
}

static void *run(void *argument) {
  watcher *w = argument;
  uint64_t idle_since = now_ns();
  pthread_mutex_lock(&w->lock);
  while (!w->stop) {
    for (int i = 0; i < w->count; i++) {
      if (serve(w, w->queues[i])) idle_since = now_ns();
    }
    if (now_ns() - idle_since < SPIN_NS) {
      pthread_mutex_unlock(&w->lock);
      for (int i = 0; i < 32; i++) relax();
      pthread_mutex_lock(&w->lock);
      continue;
    }
    /*
     * Nothing for a while. Say so first, then hand the waiting queues over to ordinary arming and look once more: an owner sets
     * `thread armed` and then asks whether the thread sleeps, so one of the two always sees the other.
     */
    __atomic_store_n(&w->asleep, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < w->count; i++) {
      int32_t *cq = w->queues[i];
      if (!__atomic_load_n(&cq[CQ_THREAD_ARMED], __ATOMIC_SEQ_CST)) continue;
      __atomic_fetch_or(&cq[CQ_WORD], CQ_ARMED_ANY, __ATOMIC_SEQ_CST);
      memory_barrier(); /* producers look at the word with plain loads */
      serve(w, cq);
      __atomic_store_n(&cq[CQ_THREAD_ARMED], 0, __ATOMIC_SEQ_CST);
    }
    while (w->asleep && !w->stop) pthread_cond_wait(&w->wake, &w->lock);
    idle_since = now_ns();
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

int watcher_start(int cpu, int bell, watcher **out) {
  watcher *w = calloc(1, sizeof *w);
  if (!w) return ENOMEM;
  w->bell = bell;
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->wake, NULL);
  int error = pthread_create(&w->thread, NULL, run, w);
  if (!error && cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    error = pthread_setaffinity_np(w->thread, sizeof set, &set);
    if (error) {
      watcher_stop(w);
      return error;
    }
  }
  if (error) {
    free(w);
    return error;
  }
  *out = w;
  return 0;
}

int watcher_add(watcher *w, int32_t *cq) {
  int error = 0;
  pthread_mutex_lock(&w->lock);
  if (w->count == MAX_QUEUES) {
    error = ENOSPC;
  } else {
    w->queues[w->count++] = cq;
  }
  pthread_mutex_unlock(&w->lock);
  return error;
}

void watcher_remove(watcher *w, int32_t *cq) {
  pthread_mutex_lock(&w->lock);
  for (int i = 0; i < w->count; i++) {
    if (w->queues[i] == cq) w->queues[i] = w->queues[--w->count];
  }
  pthread_mutex_unlock(&w->lock);
}

int watcher_asleep(watcher *w) { return __atomic_load_n(&w->asleep, __ATOMIC_SEQ_CST); }

void watcher_wake(watcher *w) {
  pthread_mutex_lock(&w->lock);
  __atomic_store_n(&w->asleep, 0, __ATOMIC_SEQ_CST);
  pthread_cond_signal(&w->wake);
  pthread_mutex_unlock(&w->lock);
}

void watcher_stop(watcher *w) {
  pthread_mutex_lock(&w->lock);
  w->stop = 1;
  pthread_cond_signal(&w->wake);
  pthread_mutex_unlock(&w->lock);
  pthread_join(w->thread, NULL);
  pthread_mutex_destroy(&w->lock);
  pthread_cond_destroy(&w->wake);
  free(w);
}
