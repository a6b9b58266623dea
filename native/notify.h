/*
 * Telling the owner of a completion queue that something is there, and the thread that can watch queues instead.
 *
 * The head of a completion queue in shared memory, 32-bit words; src/verbs/providers/shm/layout.ts draws the same picture:
 *
 *   0 word      bits: 1 armed for any, 2 armed for solicited, 4 keep the bitmap, 8 the owner sleeps often: pass a barrier before looking
 *   1 depth     2 overrun     3 moderation count     4 pending events     5 moderation period, us
 *   6 ready     7 thread armed (a watching thread is to wake the owner)
 *   16..47 bitmap of the receive rings that may hold something (1,024 bits)
 *
 * Producer: publish the entry, then load `word`; 0 means nothing to do, and that is the usual case.
 */
#ifndef VERBENA_NOTIFY_H
#define VERBENA_NOTIFY_H

#include <stdint.h>

enum {
  CQ_ARMED_ANY = 1,
  CQ_ARMED_SOLICITED = 2,
  CQ_BITMAP = 4,
  CQ_WORD = 0,
  CQ_MODERATION_COUNT = 3,
  CQ_PENDING = 4,
  CQ_MODERATION_PERIOD = 5,
  CQ_READY = 6,
  CQ_THREAD_ARMED = 7,
  CQ_BITS = 16,
};

/* Called after publishing when the word was not 0. Returns 1 when a system call was made. */
int notify_queue(int32_t *cq, uint32_t ring, int solicited, int bell);
/* One byte into a bell: a pipe whose reader may sleep. */
void notify_ring(int bell);

typedef struct watcher watcher;

/* A thread that spins over queues while there is traffic. cpu -1: not pinned. */
int watcher_start(int cpu, int bell, watcher **out);
int watcher_add(watcher *w, int32_t *cq);
void watcher_remove(watcher *w, int32_t *cq);
/* 1 while it sleeps: queues are then armed in the ordinary way. */
int watcher_asleep(watcher *w);
void watcher_wake(watcher *w);
void watcher_stop(watcher *w);

#endif
