/* Waiting, and how a call fails. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collective-parts.h"
#include "watch.h"

enum { SLEEP_MS = 20 };

void co_ring(control *who) {
  __atomic_add_fetch(&who->bell, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &who->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void co_wake(control *who) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (__atomic_load_n(&who->sleeping, __ATOMIC_RELAXED)) co_ring(who);
}

void co_wake_all(collective *c) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  for (int r = 0; r < c->size; r++) {
    control *who = c->peers[r].control;
    if (r != c->rank && who && __atomic_load_n(&who->sleeping, __ATOMIC_RELAXED)) co_ring(who);
  }
}

/* A rank that closed after the call in question: it has done its part of it. */
static int left_in_peace(collective *c, int rank, int32_t call) {
  control *who = c->peers[rank].control;
  return rank != c->rank && who && load(&who->broken) == CALL_CLOSED && who->passed - call >= 0;
}

int co_broken_by(collective *c, int32_t call, int *culprit) {
  int found = CALL_DONE;
  for (int k = 0; k < c->size && found != CALL_PEER_LOST; k++) {
    int r = (c->rank + k) % c->size, broken = load(&c->peers[r].control->broken);
    if (!broken || (found && broken != CALL_PEER_LOST) || left_in_peace(c, r, call)) continue;
    int own_trouble = r != c->rank && (broken == CALL_TIMEOUT || broken == CALL_SYSTEM); /* means nothing to others */
    *culprit = own_trouble ? r : c->peers[r].control->culprit;
    found = own_trouble ? CALL_ABORTED : broken;
  }
  return found;
}

int co_is_dead(collective *c, int rank) {
  if (rank == c->rank || !c->peers[rank].control) return 0;
  struct pollfd process = c->processes[rank];
  if (process.fd >= 0) return poll(&process, 1, 0) == 1;
  uint64_t start_time;
  char letter;
  int error = process_stat(c->peers[rank].pid, &start_time, &letter);
  return error ? error == ESRCH : start_time != c->peers[rank].start_time || letter == 'Z';
}

/* What ends a wait: CALL_DONE while there is nothing. */
static int trouble(collective *c, patience *p) {
  int dead = -1;
  for (int r = 0; r < c->size && dead < 0; r++)
    if (!left_in_peace(c, r, c->sequence) && co_is_dead(c, r)) dead = r;
  /* Whoever heard of a loss before us may have ended meanwhile: what it said counts more than its end. */
  int broken = co_broken_by(c, c->sequence, &p->culprit);
  if (broken) return broken;
  if (dead >= 0 && !left_in_peace(c, dead, c->sequence)) {
    p->culprit = dead;
    return CALL_PEER_LOST;
  }
  return p->deadline > 0 && now_ms() > p->deadline ? CALL_TIMEOUT : CALL_DONE;
}

int co_wait_turn(collective *c, patience *p) {
  if (p->failed) return p->failed;
  if (++p->round < c->spins) {
    relax();
    return 0;
  }
  if (p->round < c->spins + c->yields) {
    sched_yield();
    return 0;
  }
  control *own = c->own;
  if (!p->armed) {
    p->bell = load(&own->bell);
    __atomic_store_n(&own->sleeping, 1, __ATOMIC_SEQ_CST);
    p->armed = 1;
    return 0;
  }
  struct timespec nap = {0, SLEEP_MS * 1000000};
  syscall(SYS_futex, &own->bell, FUTEX_WAIT, p->bell, &nap, NULL, 0);
  p->bell = load(&own->bell);
  p->failed = trouble(c, p);
  return 0;
}

void co_wait_over(collective *c, patience *p) {
  if (p->armed) __atomic_store_n(&c->own->sleeping, 0, __ATOMIC_RELAXED);
  p->armed = p->round = p->failed = 0;
}

int co_give_up(collective *c, collective_call *call, patience *p, int status) {
  co_wait_over(c, p);
  call->status = status;
  call->culprit = p->culprit;
  if (!load(&c->own->broken)) {
    c->own->culprit = status == CALL_TIMEOUT ? c->rank : p->culprit;
    publish(&c->own->broken, status);
    co_wake_all(c);
  }
  return status;
}

int co_await(collective *c, collective_call *call, patience *p, const int32_t *word, int32_t wanted) {
  while (load(word) - wanted < 0) {
    int status = co_wait_turn(c, p);
    if (status) return co_give_up(c, call, p, status);
  }
  co_wait_over(c, p);
  return CALL_DONE;
}

/* The memory of a process that ends is gone before its end is seen, by a moment, or by many where cores are few: then the loss is what happened. */
int co_system_failure(collective *c, collective_call *call, patience *p, int error) {
  int may_be_loss = error == ENOENT || error == ESRCH || error == EACCES || error == ESTALE;
  for (int turn = 0; may_be_loss && turn < 1000; turn++) {
    int status = trouble(c, p);
    if (status) return co_give_up(c, call, p, status);
    poll(NULL, 0, 2);
  }
  p->culprit = error;
  return co_give_up(c, call, p, CALL_SYSTEM);
}
