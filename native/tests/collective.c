/* The executor of collectives: ranks as forked processes that join through /proc, on private and shared memory, and a rank that dies. */
#define _GNU_SOURCE
#include "collective.h"

#include <string.h>
#include <sys/mman.h>

#include "check.h"
#include "memory.h"
#include "reduce.h"

enum { RANKS = 3 };

typedef struct meeting {
  int32_t ready[RANKS], pid[RANKS], fd[RANKS], joined[RANKS];
} meeting;

static meeting *place;

static collective *join(int rank) {
  collective *c;
  int fd;
  CHECK(collective_open(rank, RANKS, &c, &fd) == 0);
  place->pid[rank] = getpid();
  place->fd[rank] = fd;
  __atomic_store_n(&place->ready[rank], 1, __ATOMIC_SEQ_CST);
  for (int r = 0; r < RANKS; r++) {
    EVENTUALLY(__atomic_load_n(&place->ready[r], __ATOMIC_SEQ_CST));
    if (r != rank) CHECK(collective_join(c, r, place->pid[r], place->fd[r]) == 0);
  }
  __atomic_store_n(&place->joined[rank], 1, __ATOMIC_SEQ_CST);
  for (int r = 0; r < RANKS; r++) EVENTUALLY(__atomic_load_n(&place->joined[r], __ATOMIC_SEQ_CST));
  return c;
}

static collective_call sum_of(float *data, uint64_t count, int method, int handle) {
  collective_call call = {.method = method, .collective = COLLECTIVE_ALLREDUCE, .op = REDUCE_SUM, .type = TYPE_F32, .divisor = 1, .count = count};
  call.buffers = 1;
  call.buffer[0] = (collective_buffer){.address = (uint8_t *)data, .bytes = count * 4, .handle = handle, .exposed = 1, .in = 1, .out = 1};
  return call;
}

/* Runs the body as every rank and waits for all of them. */
static void as_ranks(void (*body)(int rank), int killed) {
  memset(place, 0, sizeof *place);
  pid_t children[RANKS];
  for (int r = 0; r < RANKS; r++)
    if ((children[r] = fork()) == 0) {
      body(r);
      _exit(0);
    }
  for (int r = 0; r < RANKS; r++) {
    int status;
    CHECK(waitpid(children[r], &status, 0) == children[r]);
    CHECK(r == killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

static void check_sums(const float *data, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) CHECK(data[i] == (float)(RANKS * (RANKS + 1) / 2) * (float)(i % 5));
}

static void fill(float *data, uint64_t count, int rank) {
  for (uint64_t i = 0; i < count; i++) data[i] = (float)(rank + 1) * (float)(i % 5);
}

static void sum(int rank) {
  enum { COUNT = 400003 }; /* several segments of staging, an odd end */
  collective *c = join(rank);
  float *data = malloc(COUNT * 4);
  fill(data, COUNT, rank); /* nobody knows yet whether all reach the others' private memory: through staging areas */
  collective_call staged = sum_of(data, COUNT, METHOD_DIRECT, -1);
  collective_run(c, &staged);
  CHECK(staged.status == CALL_DONE);
  check_sums(data, COUNT);
  for (int i = 0; i < 50; i++) {
    fill(data, 700, rank);
    collective_call small = sum_of(data, 700, METHOD_SLOTS, -1);
    collective_run(c, &small);
    CHECK(small.status == CALL_DONE);
    check_sums(data, 700);
  }
  fill(data, COUNT, rank); /* where it lies */
  collective_call large = sum_of(data, COUNT, METHOD_DIRECT, -1);
  collective_run(c, &large);
  CHECK(large.status == CALL_DONE);
  check_sums(data, COUNT);
  CHECK(collective_completed(c) == 52);
  free(data);

  /* Memory of a memfd is used where it lies, on a thread. */
  int fd = memory_create("test", 0);
  CHECK(fd >= 0 && ftruncate(fd, COUNT * 4) == 0);
  float *shared = mmap(NULL, COUNT * 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  uint64_t offset;
  int handle = collective_share(c, shared + 3, &offset);
  CHECK(handle >= 0 && offset == 12);
  CHECK(collective_share(c, &offset, &offset) == -1);
  fill(shared, COUNT, rank);
  test_bell bell = bell_open();
  int32_t done = 0;
  collective_call direct = sum_of(shared, COUNT, METHOD_DIRECT, handle);
  CHECK(collective_submit(c, &direct, &done, bell.write_fd) == 0);
  EVENTUALLY(__atomic_load_n(&done, __ATOMIC_ACQUIRE));
  CHECK(direct.status == CALL_DONE && bell_wait(bell, PATIENCE_MS));
  check_sums(shared, COUNT);
  collective_call end = sum_of(shared, 1, METHOD_SLOTS, -1);
  collective_run(c, &end);
  collective_close(c);
  bell_close(bell);
  munmap(shared, COUNT * 4);
  close(fd);
}

static void ranks_add_in_slots_in_segments_and_in_place(void) { as_ranks(sum, -1); }

static void differ(int rank) {
  float data[8] = {0};
  collective *c = join(rank);
  collective_call call = sum_of(data, rank == 1 ? 5 : 4, METHOD_SLOTS, -1);
  collective_run(c, &call);
  CHECK(call.status == CALL_MISMATCH && call.culprit == (rank == 1 ? 0 : 1));
  CHECK(call.theirs[2] == (rank == 1 ? 4 : 5));
  call = sum_of(data, 4, METHOD_SLOTS, -1); /* and they go on */
  collective_run(c, &call);
  CHECK(call.status == CALL_DONE);
  collective_close(c);
}

static void different_calls_are_named_before_a_byte_moves(void) { as_ranks(differ, -1); }

static void die(int rank) {
  float data[8] = {0};
  collective *c = join(rank);
  if (rank == 1) kill(getpid(), SIGKILL);
  collective_call call = sum_of(data, 4, METHOD_SLOTS, -1);
  double start = now_s();
  collective_run(c, &call);
  CHECK(call.status == CALL_PEER_LOST && call.culprit == 1 && now_s() - start < 5);
  CHECK(collective_peer(c, 1) == 1);
  collective_close(c);
}

static void a_dead_rank_ends_the_wait_of_the_others(void) { as_ranks(die, 1); }

static void expire(int rank) {
  float data[8] = {0};
  collective *c = join(rank);
  if (rank == 0) {
    collective_call call = sum_of(data, 4, METHOD_SLOTS, -1);
    call.timeout_ms = 30;
    collective_run(c, &call);
    CHECK(call.status == CALL_TIMEOUT);
    __atomic_store_n(&place->ready[0], 2, __ATOMIC_SEQ_CST);
  } else {
    EVENTUALLY(__atomic_load_n(&place->ready[0], __ATOMIC_SEQ_CST) == 2);
    collective_call call = sum_of(data, 4, METHOD_SLOTS, -1);
    collective_run(c, &call);
    CHECK(call.status == CALL_ABORTED && call.culprit == 0);
  }
  __atomic_store_n(&place->joined[rank], 2, __ATOMIC_SEQ_CST);
  for (int r = 0; r < RANKS; r++) EVENTUALLY(__atomic_load_n(&place->joined[r], __ATOMIC_SEQ_CST) == 2);
  collective_close(c);
}

static void a_rank_that_gives_up_breaks_the_communicator_for_all(void) { as_ranks(expire, -1); }

int main(void) {
  place = mmap(NULL, sizeof *place, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(place != MAP_FAILED);
  RUN(ranks_add_in_slots_in_segments_and_in_place);
  RUN(different_calls_are_named_before_a_byte_moves);
  RUN(a_dead_rank_ends_the_wait_of_the_others);
  RUN(a_rank_that_gives_up_breaks_the_communicator_for_all);
  munmap(place, sizeof *place);
  return 0;
}
