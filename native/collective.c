/* Life of a communicator, and whose thread a call runs on. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collective-parts.h"
#include "memory.h"
#include "notify.h"
#include "reduce.h"
#include "watch.h"

enum { MAGIC = 0x56434f4d };
/* How often a submitted call looks for the others before it is handed to the thread: about as long as that, and being woken, would take. */
enum { HAND_OVER = 400 };
/* How often a waiting thread gives its core away before it sleeps. A caller that has a core of its own does so for some ms: a virtual machine that idles has to be scheduled
 * again by its host, which takes longer than most waits. */
enum { YIELDS = 100, CALLER_YIELDS = 10000 };

static void execute(collective *c, collective_call *call) {
  patience p = {.deadline = call->timeout_ms > 0 ? now_ms() + call->timeout_ms : 0};
  call->status = CALL_DONE;
  call->culprit = -1;
  call->bytes_sent = call->bytes_accessed = call->messages = 0;
  int broken = co_broken_by(c, c->sequence + !call->announced, &p.culprit);
  if (broken) {
    co_give_up(c, call, &p, broken);
    return;
  }
  if (call->method == METHOD_SLOTS) co_run_slots(c, call, &p);
  else if (call->method == METHOD_DIRECT && call->collective == COLLECTIVE_ALL_TO_ALL) co_run_exchange(c, call, &p);
  else if (call->method == METHOD_DIRECT) co_run_direct(c, call, &p);
  else co_run_program(c, call, &p);
  if (call->status == CALL_DONE) c->completed++;
  if (call->status == CALL_DONE || call->status == CALL_MISMATCH) c->passed = c->sequence;
}

static void execute_and_report(collective *c, collective_call *call) {
  if (call->times && !call->announced) call->times[0] = call->times[1] = now_ms();
  execute(c, call);
  if (call->times) call->times[2] = now_ms();
  if (!call->report) return;
  call->report[0] = call->status;
  call->report[1] = call->culprit;
  call->report[2] = (double)call->bytes_sent;
  call->report[3] = (double)call->bytes_accessed;
  call->report[4] = (double)call->messages;
  for (int i = 0; i < COLLECTIVE_WORDS; i++) call->report[5 + i] = call->theirs[i];
}

/* ---- on the caller's thread, or on one of our own ---- */

static void *serve(void *data) {
  collective *c = data;
  pthread_mutex_lock(&c->mutex);
  for (;;) {
    while (!c->closing && (c->busy || c->head == c->tail)) pthread_cond_wait(&c->changed, &c->mutex);
    if (c->head == c->tail) break; /* closing, and nothing left to do */
    if (c->busy) {
      pthread_cond_wait(&c->changed, &c->mutex);
      continue;
    }
    job j = c->queue[c->head++ % QUEUE];
    c->busy = 1;
    c->yields = YIELDS;
    pthread_mutex_unlock(&c->mutex);
    execute_and_report(c, j.call);
    pthread_mutex_lock(&c->mutex);
    c->busy = 0;
    publish(j.done, 1);
    if (j.bell >= 0) notify_ring(j.bell);
    pthread_cond_broadcast(&c->changed);
  }
  pthread_mutex_unlock(&c->mutex);
  return NULL;
}

/* A call that fits into slots, with nothing before it: says so at once, and waits for the others as long as handing it over would take. Returns
 * whether it is over. */
static int over_at_once(collective *c, collective_call *call) {
  if (call->method != METHOD_SLOTS) return 0;
  pthread_mutex_lock(&c->mutex);
  int is_free = !c->busy && c->head == c->tail, culprit;
  if (is_free) c->busy = 1;
  pthread_mutex_unlock(&c->mutex);
  if (!is_free) return 0;
  int over = co_broken_by(c, c->sequence + 1, &culprit) != CALL_DONE; /* then it ends with the reason */
  if (!over) {
    if (call->times) call->times[0] = call->times[1] = now_ms();
    piece said = co_said_in_slot(c, call, reduce_width(call->type));
    co_announce(c, call, call->buffer[0].address + said.offset, said.length);
    call->announced = 1;
    for (int k = 1, turns = c->spins < HAND_OVER ? c->spins : HAND_OVER; k < c->size && turns > 0;) {
      if (load(&slot_of(c, (c->rank + k) % c->size)->sequence) - c->sequence >= 0) k++;
      else {
        turns--;
        relax();
      }
      over = k == c->size;
    }
    over |= c->size == 1;
  }
  if (over) execute_and_report(c, call);
  pthread_mutex_lock(&c->mutex);
  c->busy = 0;
  if (c->thread_runs) pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->mutex);
  return over;
}

int collective_submit(collective *c, collective_call *call, int32_t *done, int bell) {
  if (over_at_once(c, call)) {
    publish(done, 1);
    return SUBMIT_OVER;
  }
  int error = 0;
  pthread_mutex_lock(&c->mutex);
  if (!c->thread_runs) {
    error = pthread_create(&c->thread, NULL, serve, c);
    c->thread_runs = !error;
  }
  if (!error && c->tail - c->head == QUEUE) error = EAGAIN;
  if (!error) {
    c->queue[c->tail++ % QUEUE] = (job){call, done, bell};
    pthread_cond_broadcast(&c->changed);
  }
  pthread_mutex_unlock(&c->mutex);
  return error;
}

void collective_run(collective *c, collective_call *call) {
  pthread_mutex_lock(&c->mutex);
  while (c->busy || c->head != c->tail) pthread_cond_wait(&c->changed, &c->mutex);
  c->busy = 1;
  c->yields = c->spins > 1 ? CALLER_YIELDS : YIELDS;
  pthread_mutex_unlock(&c->mutex);
  execute_and_report(c, call);
  pthread_mutex_lock(&c->mutex);
  c->busy = 0;
  if (c->thread_runs) pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->mutex);
}

/* ---- life ---- */

int collective_open(int rank, int size, collective **out, int *fd) {
  collective *c = calloc(1, sizeof *c);
  if (!c) return ENOMEM;
  size_t streams = (size_t)size * COLLECTIVE_CHANNELS;
  *c = (collective){.rank = rank, .size = size, .fd = -1, .staging_handle = -1};
  c->control_bytes = sizeof(control) + 2 * streams * sizeof(line);
  c->peers = calloc((size_t)size, sizeof *c->peers);
  c->processes = calloc((size_t)size, sizeof *c->processes);
  c->posted = calloc(2 * streams, sizeof *c->posted);
  int error = c->peers && c->processes && c->posted ? 0 : ENOMEM;
  if (!error && (c->fd = memory_create("verbena-collective", 0)) < 0) error = -c->fd;
  if (!error && ftruncate(c->fd, (off_t)c->control_bytes) != 0) error = errno;
  if (!error) error = memory_reserve(c->fd, 0, c->control_bytes);
  void *base = error ? MAP_FAILED : mmap(NULL, c->control_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
  if (!error && base == MAP_FAILED) error = errno;
  if (error) {
    if (c->fd >= 0) close(c->fd);
    free(c->peers);
    free(c->processes);
    free(c->posted);
    free(c);
    return error;
  }
  c->taken = c->posted + streams;
  c->own = base;
  c->own->size = size;
  c->own->address = (uint64_t)(uintptr_t)base;
  c->own->magic = MAGIC;
  for (int r = 0; r < size; r++) c->processes[r] = (struct pollfd){.fd = -1, .events = POLLIN};
  c->peers[rank] = (peer){.control = c->own, .pid = getpid()};
  c->spins = size <= sysconf(_SC_NPROCESSORS_ONLN) ? 1000 : 1;
  pthread_mutex_init(&c->mutex, NULL);
  pthread_cond_init(&c->changed, NULL);
  *out = c;
  *fd = c->fd;
  return 0;
}

int collective_join(collective *c, int rank, pid_t pid, int fd) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
  int theirs = open(path, O_RDWR | O_CLOEXEC);
  if (theirs < 0) return errno;
  struct stat st;
  int error = fstat(theirs, &st) != 0 ? errno : (size_t)st.st_size == c->control_bytes ? 0 : EPROTO;
  void *base = error ? MAP_FAILED : mmap(NULL, c->control_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, theirs, 0);
  if (!error && base == MAP_FAILED) error = errno;
  close(theirs);
  if (error) return error;
  control *k = base;
  char letter;
  error = k->magic == MAGIC && k->size == c->size ? process_stat(pid, &c->peers[rank].start_time, &letter) : EPROTO;
  int watched = error ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
  if (!error && watched < 0 && errno == ESRCH) error = errno; /* otherwise the kernel has no such call: we look into /proc */
  if (error) {
    munmap(base, c->control_bytes);
    return error;
  }
  int32_t seen = 0;
  if (co_transfer(pid, (uint8_t *)&seen, k->address, sizeof seen, 0) || seen != MAGIC) c->own->staged = 1; /* a kernel or a container that forbids it */
  c->peers[rank].control = k;
  c->peers[rank].pid = pid;
  c->processes[rank].fd = watched;
  return 0;
}

static void break_off(collective *c, int status) {
  int32_t none = 0;
  if (!load(&c->own->broken)) {
    c->own->culprit = c->rank;
    c->own->passed = c->passed;
    __atomic_compare_exchange_n(&c->own->broken, &none, status, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
  co_ring(c->own);
  co_wake_all(c);
}

void collective_abort(collective *c) { break_off(c, CALL_ABORTED); }

int collective_completed(collective *c) { return __atomic_load_n(&c->completed, __ATOMIC_RELAXED); }

int collective_peer(collective *c, int rank) {
  if (rank == c->rank || !c->peers[rank].control) return 0;
  if (co_is_dead(c, rank)) return 1;
  return load(&c->peers[rank].control->broken) ? 2 : 0;
}

void collective_close(collective *c) {
  break_off(c, CALL_CLOSED);
  if (c->thread_runs) {
    pthread_mutex_lock(&c->mutex);
    c->closing = 1;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    pthread_join(c->thread, NULL);
  }
  for (int r = 0; r < c->size; r++) {
    peer *p = &c->peers[r];
    for (int h = 0; h < REGIONS && r != c->rank; h++)
      if (p->mapped[h]) munmap(p->mapped[h], p->control->regions[h].length);
    if (p->control && r != c->rank) munmap(p->control, c->control_bytes);
    if (c->processes[r].fd >= 0) close(c->processes[r].fd);
  }
  for (int h = 0; h < c->regions; h++) { /* staging areas are ours; what the caller shared is not */
    region *r = &c->own->regions[h];
    if (!c->staged[h]) continue;
    munmap(c->peers[c->rank].mapped[h], r->length);
    close(r->fd);
  }
  munmap(c->own, c->control_bytes);
  close(c->fd);
  pthread_mutex_destroy(&c->mutex);
  pthread_cond_destroy(&c->changed);
  free(c->blocks);
  free(c->peers);
  free(c->processes);
  free(c->posted);
  free(c);
}
