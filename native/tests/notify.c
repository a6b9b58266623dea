/* Waking the owner of a completion queue: arming, moderation, the bitmap, and the thread that watches instead. */
#define _GNU_SOURCE
#include "notify.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "check.h"

enum { HEAD_WORDS = 64, QUEUES = 256, ARMED = CQ_ARMED_ANY | CQ_ARMED_SOLICITED };

static test_bell bell;

static int32_t load(int32_t *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }
static void store(int32_t *word, int32_t value) { __atomic_store_n(word, value, __ATOMIC_SEQ_CST); }

static void fresh(int32_t *cq, int32_t word) {
  memset(cq, 0, HEAD_WORDS * sizeof *cq);
  cq[CQ_MODERATION_COUNT] = 1;
  cq[CQ_WORD] = word;
}

static int notify(int32_t *cq) { return notify_queue(cq, 0, 0, bell.write_fd); }
static int notify_solicited(int32_t *cq) { return notify_queue(cq, 0, 1, bell.write_fd); }

static void an_armed_queue_is_told_once(void) {
  int32_t cq[HEAD_WORDS];
  fresh(cq, 0);
  CHECK(notify(cq) == 0 && bell_drain(bell) == 0);
  cq[CQ_WORD] = CQ_ARMED_ANY;
  CHECK(notify(cq) == 1 && bell_drain(bell) == 1);
  CHECK(cq[CQ_WORD] == 0);
  CHECK(notify(cq) == 0 && bell_drain(bell) == 0);
}

static void a_queue_armed_for_solicited_events_sleeps_through_the_others(void) {
  int32_t cq[HEAD_WORDS];
  fresh(cq, CQ_ARMED_SOLICITED);
  CHECK(notify(cq) == 0 && bell_drain(bell) == 0);
  CHECK(cq[CQ_WORD] == CQ_ARMED_SOLICITED);
  CHECK(notify_solicited(cq) == 1 && bell_drain(bell) == 1);
  CHECK(cq[CQ_WORD] == 0);
  fresh(cq, ARMED);
  CHECK(notify(cq) == 1 && bell_drain(bell) == 1);
  CHECK(cq[CQ_WORD] == 0);
}

static void the_bitmap_shows_the_rings_that_may_hold_something(void) {
  int32_t cq[HEAD_WORDS];
  fresh(cq, CQ_BITMAP);
  const uint32_t rings[] = {0, 31, 32, 500, 1023};
  for (int i = 0; i < 5; i++) {
    cq[CQ_READY] = 0;
    CHECK(notify_queue(cq, rings[i], 0, bell.write_fd) == 0); /* not armed: no system call */
    CHECK(cq[CQ_READY] == 1);
    CHECK((uint32_t)cq[CQ_BITS + rings[i] / 32] & (1u << rings[i] % 32));
  }
  CHECK((uint32_t)cq[CQ_BITS] == 0x80000001u && cq[CQ_BITS + 1] == 1 && (uint32_t)cq[CQ_BITS + 31] == 0x80000000u);
  CHECK(cq[CQ_BITS + 32] == 0);
  cq[CQ_BITS] = 0;
  notify_queue(cq, 1024, 0, bell.write_fd); /* rings beyond 1,024 share bits */
  CHECK(cq[CQ_BITS] == 1 && cq[CQ_BITS + 32] == 0);
  CHECK(bell_drain(bell) == 0);
  cq[CQ_WORD] |= CQ_ARMED_ANY;
  CHECK(notify(cq) == 1 && bell_drain(bell) == 1);
  CHECK(cq[CQ_WORD] == CQ_BITMAP); /* arming ends, the bitmap stays */
}

static void moderation_waits_for_the_count(void) {
  int32_t cq[HEAD_WORDS];
  fresh(cq, CQ_ARMED_ANY);
  cq[CQ_MODERATION_COUNT] = 4;
  for (int i = 1; i <= 3; i++) {
    CHECK(notify(cq) == 0 && bell_drain(bell) == 0);
    CHECK(cq[CQ_PENDING] == i && cq[CQ_WORD] == CQ_ARMED_ANY);
  }
  CHECK(notify(cq) == 1 && bell_drain(bell) == 1);
  CHECK(cq[CQ_WORD] == 0);
}

static void with_a_period_the_first_event_starts_the_clock(void) {
  int32_t cq[HEAD_WORDS];
  fresh(cq, CQ_ARMED_ANY);
  cq[CQ_MODERATION_COUNT] = 3;
  cq[CQ_MODERATION_PERIOD] = 1000;
  CHECK(notify(cq) == 1 && bell_drain(bell) == 1); /* the owner starts its timer */
  CHECK(cq[CQ_WORD] == CQ_ARMED_ANY && cq[CQ_PENDING] == 1);
  CHECK(notify(cq) == 0 && bell_drain(bell) == 0);
  CHECK(notify(cq) == 1 && bell_drain(bell) == 1);
  CHECK(cq[CQ_WORD] == 0);
}

static void a_full_bell_does_not_block_the_producer(void) {
  test_bell full = bell_open();
  char bytes[4096] = {0};
  while (write(full.write_fd, bytes, sizeof bytes) > 0) {
  }
  while (write(full.write_fd, bytes, 1) > 0) {
  }
  notify_ring(full.write_fd);
  int32_t cq[HEAD_WORDS];
  fresh(cq, CQ_ARMED_ANY);
  CHECK(notify_queue(cq, 0, 0, full.write_fd) == 1);
  CHECK(cq[CQ_WORD] == 0);
  bell_close(full);
}

enum { PRODUCERS = 3, ROUNDS = 2000 };

static struct {
  int32_t cq[HEAD_WORDS];
  pthread_barrier_t barrier;
  int32_t calls;
} race;

static void *produce(void *argument) {
  uint32_t ring = (uint32_t)(uintptr_t)argument;
  for (int i = 0; i < ROUNDS; i++) {
    pthread_barrier_wait(&race.barrier);
    if (notify_queue(race.cq, ring, 0, bell.write_fd)) __atomic_add_fetch(&race.calls, 1, __ATOMIC_SEQ_CST);
    pthread_barrier_wait(&race.barrier);
  }
  return NULL;
}

static void producers_that_race_ring_once_and_mark_every_ring(void) {
  pthread_t threads[PRODUCERS];
  pthread_barrier_init(&race.barrier, NULL, PRODUCERS + 1);
  fresh(race.cq, 0);
  for (uintptr_t i = 0; i < PRODUCERS; i++) CHECK(pthread_create(&threads[i], NULL, produce, (void *)(i * 31)) == 0);
  for (int i = 0; i < ROUNDS; i++) {
    store(&race.calls, 0);
    fresh(race.cq, CQ_BITMAP | CQ_ARMED_ANY);
    pthread_barrier_wait(&race.barrier);
    pthread_barrier_wait(&race.barrier);
    CHECK(load(&race.calls) == 1);
    CHECK(bell_drain(bell) == 1);
    CHECK((uint32_t)race.cq[CQ_BITS] == 0x80000001u && race.cq[CQ_BITS + 1] == 1u << 30);
  }
  for (int i = 0; i < PRODUCERS; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&race.barrier);
}

/* ---- the watching thread ---- */

static int32_t heads[QUEUES + 1][HEAD_WORDS];

/* The owner arms as the completion queue does. */
static void arm(watcher *w, int32_t *cq) {
  if (!watcher_asleep(w)) {
    store(&cq[CQ_THREAD_ARMED], 1);
    if (watcher_asleep(w)) __atomic_fetch_or(&cq[CQ_WORD], CQ_ARMED_ANY, __ATOMIC_SEQ_CST);
    return;
  }
  __atomic_fetch_or(&cq[CQ_WORD], CQ_ARMED_ANY, __ATOMIC_SEQ_CST);
}

static void the_watcher_rings_for_a_queue_that_waits_and_has_something(void) {
  watcher *w;
  CHECK(watcher_start(-1, bell.write_fd, &w) == 0);
  int32_t *idle = heads[0], *busy = heads[1];
  fresh(idle, CQ_BITMAP);
  fresh(busy, CQ_BITMAP);
  CHECK(watcher_add(w, idle) == 0);
  CHECK(watcher_add(w, busy) == 0);
  watcher_wake(w);
  arm(w, busy);
  notify(busy);
  CHECK(bell_wait(bell, PATIENCE_MS));
  EVENTUALLY(load(&busy[CQ_THREAD_ARMED]) == 0);
  CHECK(load(&idle[CQ_READY]) == 0 && load(&idle[CQ_WORD]) == CQ_BITMAP);
  watcher_stop(w);
  bell_drain(bell);
}

static void the_watcher_sleeps_when_there_is_nothing_and_hands_its_queues_over(void) {
  watcher *w;
  CHECK(watcher_start(-1, bell.write_fd, &w) == 0);
  int32_t *waiting = heads[0], *polled = heads[1];
  fresh(waiting, CQ_BITMAP);
  fresh(polled, CQ_BITMAP);
  store(&waiting[CQ_THREAD_ARMED], 1);
  CHECK(watcher_add(w, waiting) == 0);
  CHECK(watcher_add(w, polled) == 0);
  watcher_wake(w); /* it may have fallen asleep before it got them */
  EVENTUALLY(watcher_asleep(w));
  EVENTUALLY(load(&waiting[CQ_WORD]) == (CQ_BITMAP | CQ_ARMED_ANY));
  EVENTUALLY(load(&waiting[CQ_THREAD_ARMED]) == 0);
  CHECK(load(&polled[CQ_WORD]) == CQ_BITMAP); /* nobody waits there */
  CHECK(notify(waiting) == 1 && bell_drain(bell) == 1); /* the ordinary way */
  for (int round = 0; round < 5; round++) {
    watcher_wake(w);
    store(&waiting[CQ_READY], 0);
    arm(w, waiting); /* it may be asleep again by now */
    notify(waiting);
    CHECK(bell_wait(bell, PATIENCE_MS));
    EVENTUALLY(watcher_asleep(w));
    bell_drain(bell);
  }
  watcher_stop(w); /* while it sleeps */
}

/* Arming at the very moment when the thread decides to sleep. Many queues make that moment long. */
static void a_queue_armed_while_the_watcher_falls_asleep_is_not_forgotten(void) {
  watcher *w;
  CHECK(watcher_start(-1, bell.write_fd, &w) == 0);
  for (int i = 0; i < QUEUES; i++) {
    fresh(heads[i], CQ_BITMAP);
    CHECK(watcher_add(w, heads[i]) == 0);
  }
  int32_t *cq = heads[0];
  unsigned seed = getenv("VERBENA_SEED") ? (unsigned)strtoul(getenv("VERBENA_SEED"), NULL, 10) : (unsigned)getpid();
  printf("  (VERBENA_SEED=%u)\n", seed);
  double period = 300e-6;
  for (int round = 0; round < 300; round++) {
    store(&cq[CQ_READY], 0);
    watcher_wake(w);
    double start = now_s(), wait = period + ((double)rand_r(&seed) / RAND_MAX - 0.5) * 20e-6;
    while (now_s() - start < wait && !watcher_asleep(w)) {
    }
    arm(w, cq);
    if (watcher_asleep(w)) period = period * 0.99 + (now_s() - start) * 0.01; /* follow the moment at which it falls asleep */
    else period += 1e-6;
    EVENTUALLY(watcher_asleep(w)); /* the completion comes when the thread does not look any more */
    notify(cq);
    CHECK(bell_wait(bell, PATIENCE_MS / 10));
    bell_drain(bell);
    store(&cq[CQ_THREAD_ARMED], 0);
    __atomic_fetch_and(&cq[CQ_WORD], ~ARMED, __ATOMIC_SEQ_CST);
  }
  watcher_stop(w);
}

static void a_watcher_takes_256_queues_and_forgets_removed_ones(void) {
  watcher *w;
  CHECK(watcher_start(-1, bell.write_fd, &w) == 0);
  for (int i = 0; i < QUEUES; i++) {
    fresh(heads[i], 0);
    CHECK(watcher_add(w, heads[i]) == 0);
  }
  CHECK(watcher_add(w, heads[QUEUES]) == ENOSPC);
  watcher_remove(w, heads[7]);
  store(&heads[7][CQ_THREAD_ARMED], 1);
  store(&heads[7][CQ_READY], 1);
  watcher_wake(w);
  EVENTUALLY(watcher_asleep(w));
  watcher_remove(w, heads[8]); /* takes the lock: it has looked at everything, and at the end once more */
  CHECK(load(&heads[7][CQ_THREAD_ARMED]) == 1 && load(&heads[7][CQ_WORD]) == 0);
  CHECK(bell_drain(bell) == 0);
  fresh(heads[QUEUES], 0);
  CHECK(watcher_add(w, heads[QUEUES]) == 0);
  watcher_stop(w);
}

static void a_watcher_is_pinned_or_refused(void) {
  cpu_set_t set;
  CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &set)) cpu++;
  watcher *w;
  CHECK(watcher_start(cpu, bell.write_fd, &w) == 0);
  watcher_stop(w);
  CHECK(watcher_start(1023, bell.write_fd, &w) == EINVAL);
}

int main(void) {
  bell = bell_open();
  RUN(an_armed_queue_is_told_once);
  RUN(a_queue_armed_for_solicited_events_sleeps_through_the_others);
  RUN(the_bitmap_shows_the_rings_that_may_hold_something);
  RUN(moderation_waits_for_the_count);
  RUN(with_a_period_the_first_event_starts_the_clock);
  RUN(a_full_bell_does_not_block_the_producer);
  RUN(producers_that_race_ring_once_and_mark_every_ring);
  RUN(the_watcher_rings_for_a_queue_that_waits_and_has_something);
  RUN(the_watcher_sleeps_when_there_is_nothing_and_hands_its_queues_over);
  RUN(a_queue_armed_while_the_watcher_falls_asleep_is_not_forgotten);
  RUN(a_watcher_takes_256_queues_and_forgets_removed_ones);
  RUN(a_watcher_is_pinned_or_refused);
  bell_close(bell);
  return 0;
}
