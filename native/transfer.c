#define _GNU_SOURCE
#include "transfer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "notify.h"

#define QUEUE 256
#define PIECE (1u << 19) /* 512 KiB: long enough to amortise the hand-over, short enough to share */

typedef struct request {
  transfer_request want;
  transfer_part *parts;
  int part;        /* next piece: index of the part ... */
  uint64_t offset; /* ... and where in it */
  int running;     /* pieces being copied right now */
  int started;
  int error;
} request;

struct transfer {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t work;
  request queue[QUEUE];
  uint32_t head, tail;
  int32_t *done, *error;
  int bell, ring_at_end, stop;
};

static void finish(transfer *t, request *r) {
  transfer_request *w = &r->want;
  if (w->announcement) __atomic_store_n(w->announcement, 0, __ATOMIC_SEQ_CST);
  if (w->slot && !r->error) {
    memcpy(w->slot + 1, w->entry + 1, 60);
    __atomic_store_n(w->slot, w->entry[0], __ATOMIC_SEQ_CST);
    if (__atomic_load_n(w->cq, __ATOMIC_SEQ_CST) != 0) notify_queue(w->cq, w->ring, w->solicited, w->cq_bell);
  }
  free(r->parts);
  r->parts = NULL;
  t->error[t->head % QUEUE] = r->error;
  t->head++;
  __atomic_store_n(t->done, (int32_t)t->head, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&t->ring_at_end, __ATOMIC_SEQ_CST)) notify_ring(t->bell);
}

/* With the lock held: takes a piece of the first request, copies it without the lock, finishes the request if it was the last. */
static int step(transfer *t) {
  if (t->head == t->tail) return 0;
  request *r = &t->queue[t->head % QUEUE];
  if (!r->started) {
    r->started = 1;
    if (r->want.announcement) {
      __atomic_store_n(r->want.announcement, r->want.announce, __ATOMIC_SEQ_CST);
      if (__atomic_load_n(r->want.serial, __ATOMIC_SEQ_CST) != r->want.expected) r->error = EACCES;
    }
  }
  if (r->part == r->want.count || r->error) {
    if (r->running > 0) return 0; /* somebody else copies the last piece */
    finish(t, r);
    return 1;
  }
  transfer_part p = r->parts[r->part];
  uint64_t offset = r->offset;
  uint64_t length = p.length - offset < PIECE ? p.length - offset : PIECE;
  r->offset += length;
  if (r->offset == p.length) {
    r->part++;
    r->offset = 0;
  }
  r->running++;
  pthread_mutex_unlock(&t->lock);
  int error = 0;
  if (p.kind == TRANSFER_COPY) {
    memcpy((void *)(uintptr_t)(p.to + offset), (const void *)(uintptr_t)(p.from + offset), length);
  } else if (p.kind == TRANSFER_WRITE_PROCESS) {
    error = memory_write_process(r->want.pid, p.to + offset, (const void *)(uintptr_t)(p.from + offset), length);
  } else {
    error = memory_read_process(r->want.pid, p.from + offset, (void *)(uintptr_t)(p.to + offset), length);
  }
  pthread_mutex_lock(&t->lock);
  r->running--;
  if (error) r->error = error;
  if (r->running == 0 && (r->part == r->want.count || r->error)) finish(t, r);
  return 1;
}

static void *run(void *argument) {
  transfer *t = argument;
  pthread_mutex_lock(&t->lock);
  while (!t->stop) {
    if (!step(t)) pthread_cond_wait(&t->work, &t->lock);
  }
  pthread_mutex_unlock(&t->lock);
  return NULL;
}

int transfer_start(int32_t *done, int32_t *error, int bell, transfer **out) {
  transfer *t = calloc(1, sizeof *t);
  if (!t) return ENOMEM;
  t->done = done;
  t->error = error;
  t->bell = bell;
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->work, NULL);
  int failed = pthread_create(&t->thread, NULL, run, t);
  if (failed) {
    free(t);
    return failed;
  }
  *out = t;
  return 0;
}

int transfer_submit(transfer *t, const transfer_request *want) {
  transfer_part *parts = malloc((size_t)(want->count > 0 ? want->count : 1) * sizeof *parts);
  if (!parts) return ENOMEM;
  if (want->count > 0) memcpy(parts, want->parts, (size_t)want->count * sizeof *parts);
  pthread_mutex_lock(&t->lock);
  if (t->tail - t->head == QUEUE) {
    pthread_mutex_unlock(&t->lock);
    free(parts);
    return EAGAIN;
  }
  request *r = &t->queue[t->tail % QUEUE];
  memset(r, 0, sizeof *r);
  r->want = *want;
  r->parts = parts;
  t->tail++;
  pthread_cond_signal(&t->work);
  pthread_mutex_unlock(&t->lock);
  return 0;
}

int transfer_help(transfer *t) {
  pthread_mutex_lock(&t->lock);
  int did = step(t);
  if (did) pthread_cond_signal(&t->work); /* the next request may be free to start now */
  pthread_mutex_unlock(&t->lock);
  return did;
}

void transfer_ring_at_end(transfer *t, int on) { __atomic_store_n(&t->ring_at_end, on, __ATOMIC_SEQ_CST); }

void transfer_stop(transfer *t) {
  pthread_mutex_lock(&t->lock);
  t->stop = 1;
  pthread_cond_signal(&t->work);
  pthread_mutex_unlock(&t->lock);
  pthread_join(t->thread, NULL);
  for (; t->head != t->tail; t->head++) {
    request *r = &t->queue[t->head % QUEUE];
    /* It copies no more: whoever deregisters need not wait for it. */
    if (r->started && r->want.announcement) __atomic_store_n(r->want.announcement, 0, __ATOMIC_SEQ_CST);
    free(r->parts);
  }
  pthread_mutex_destroy(&t->lock);
  pthread_cond_destroy(&t->work);
  free(t);
}
