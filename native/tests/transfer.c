/* Large copies on a thread of their own: order, sharing with a helper, revoked keys, other processes, completions at the receiver. */
#define _GNU_SOURCE
#include "transfer.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"
#include "notify.h"

enum { MIB = 1 << 20, QUEUE = 256, LARGE = 8 * MIB };

static int32_t done, errors[QUEUE];
static test_bell bell;
static transfer *t;

static int32_t load(int32_t *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }
static uint64_t at(const void *p) { return (uint64_t)(uintptr_t)p; }

static void start(void) {
  done = 0;
  CHECK(transfer_start(&done, errors, bell.write_fd, &t) == 0);
}

static int submit(const transfer_part *parts, int count) {
  transfer_request r = {.parts = parts, .count = count};
  return transfer_submit(t, &r);
}

static uint8_t *memory(size_t length) {
  uint8_t *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  return p;
}

static void fill(uint8_t *p, size_t length, unsigned seed) {
  for (size_t i = 0; i < length; i++) p[i] = (uint8_t)(i * 7 + (i >> 12) + seed);
}

/* A request that keeps the thread busy for long: the same bytes again and again. */
enum { LONG_PARTS = 64 };

static void submit_long(uint8_t *to, const uint8_t *from, transfer_request r) {
  transfer_part parts[LONG_PARTS];
  for (int i = 0; i < LONG_PARTS; i++) parts[i] = (transfer_part){at(to), at(from), LARGE, TRANSFER_COPY};
  r.parts = parts; /* copied by submit: they may go out of scope */
  r.count = LONG_PARTS;
  CHECK(transfer_submit(t, &r) == 0);
}

static void parts_of_any_length_arrive_as_they_are(void) {
  start();
  uint8_t *from = memory(4 * MIB), *to = memory(4 * MIB);
  fill(from, 4 * MIB, 1);
  const transfer_part parts[] = {
      {at(to), at(from), 3, TRANSFER_COPY},
      {at(to) + 3, at(from) + 3, 0, TRANSFER_COPY},
      {at(to) + 3, at(from) + 3, 3 * MIB + 1, TRANSFER_COPY},
      {at(to) + 4 + 3 * MIB, at(from) + 4 + 3 * MIB, 1 * MIB - 5, TRANSFER_COPY},
  };
  CHECK(submit(parts, 4) == 0);
  EVENTUALLY(load(&done) == 1);
  CHECK(errors[0] == 0);
  CHECK(memcmp(from, to, 4 * MIB - 1) == 0);
  CHECK(to[4 * MIB - 1] == 0);
  CHECK(submit(NULL, 0) == 0); /* nothing to copy, but it has its turn */
  EVENTUALLY(load(&done) == 2);
  transfer_stop(t);
  munmap(from, 4 * MIB);
  munmap(to, 4 * MIB);
}

enum { CHAIN = 40 };

static void requests_run_in_order_one_after_the_other(void) {
  start();
  uint8_t *chain = memory((CHAIN + 1) * (size_t)MIB);
  fill(chain, MIB, 5);
  for (int i = 0; i < CHAIN; i++) { /* each copies what the one before it brought */
    const transfer_part part = {at(chain) + (uint64_t)(i + 1) * MIB, at(chain) + (uint64_t)i * MIB, MIB, TRANSFER_COPY};
    CHECK(submit(&part, 1) == 0);
  }
  while (load(&done) != CHAIN) transfer_help(t);
  CHECK(memcmp(chain, chain + (size_t)CHAIN * MIB, MIB) == 0);
  transfer_stop(t);
  munmap(chain, (CHAIN + 1) * (size_t)MIB);
}

static void a_helper_takes_pieces_too(void) {
  start();
  CHECK(transfer_help(t) == 0); /* nothing to do */
  uint8_t *from = memory(LARGE), *to = memory(LARGE);
  fill(from, LARGE, 3);
  int helped = 0;
  for (int32_t round = 1; helped < 3; round++) {
    CHECK(round < 1000);
    memset(to, 0, LARGE);
    const transfer_part part = {at(to), at(from), LARGE, TRANSFER_COPY};
    CHECK(submit(&part, 1) == 0);
    while (load(&done) != round) helped += transfer_help(t);
    CHECK(memcmp(from, to, LARGE) == 0);
  }
  transfer_stop(t);
  munmap(from, LARGE);
  munmap(to, LARGE);
}

static void the_257th_outstanding_request_is_refused(void) {
  start();
  uint8_t *from = memory(LARGE), *to = memory(LARGE);
  submit_long(to, from, (transfer_request){0});
  const transfer_part part = {at(to), at(from), 8, TRANSFER_COPY};
  for (int i = 1; i < QUEUE; i++) CHECK(submit(&part, 1) == 0);
  CHECK(load(&done) == 0);
  CHECK(submit(&part, 1) == EAGAIN);
  EVENTUALLY(load(&done) == QUEUE);
  CHECK(submit(&part, 1) == 0);
  EVENTUALLY(load(&done) == QUEUE + 1);
  transfer_stop(t);
  munmap(from, LARGE);
  munmap(to, LARGE);
}

static void the_key_is_announced_from_start_to_end(void) {
  start();
  uint8_t *from = memory(LARGE), *to = memory(LARGE);
  int32_t announcement = 0, serial = 77;
  int seen = 0, rounds = 0;
  while (!seen) { /* on a busy machine a transfer may be over before anybody looks: then once more */
    CHECK(rounds < 100);
    submit_long(to, from, (transfer_request){.announcement = &announcement, .announce = 5, .serial = &serial, .expected = 77});
    rounds++;
    EVENTUALLY((seen |= load(&announcement) == 5) || load(&done) == rounds);
    EVENTUALLY(load(&done) == rounds);
    CHECK(load(&announcement) == 0 && errors[(rounds - 1) % QUEUE] == 0);
  }
  transfer_stop(t);
  munmap(from, LARGE);
  munmap(to, LARGE);
}

static void a_revoked_key_moves_no_byte_and_the_next_request_goes_on(void) {
  start();
  uint8_t *from = memory(MIB), *to = memory(MIB);
  fill(from, MIB, 9);
  int32_t announcement = 0, serial = 78, slot[16] = {0}, cq[64] = {[CQ_WORD] = CQ_ARMED_ANY, [CQ_MODERATION_COUNT] = 1};
  const transfer_part part = {at(to), at(from), MIB, TRANSFER_COPY};
  transfer_request r = {
      .parts = &part,
      .count = 1,
      .announcement = &announcement,
      .announce = 5,
      .serial = &serial,
      .expected = 77,
      .slot = slot,
      .entry = {1, 2, 3},
      .cq = cq,
      .cq_bell = bell.write_fd,
  };
  CHECK(transfer_submit(t, &r) == 0);
  EVENTUALLY(load(&done) == 1);
  CHECK(errors[0] == EACCES);
  CHECK(announcement == 0 && slot[0] == 0 && slot[1] == 0 && cq[CQ_WORD] == CQ_ARMED_ANY);
  for (int i = 0; i < MIB; i++) CHECK(to[i] == 0);
  CHECK(bell_drain(bell) == 0);
  r.expected = 78;
  CHECK(transfer_submit(t, &r) == 0);
  EVENTUALLY(load(&done) == 2);
  CHECK(errors[1] == 0 && memcmp(from, to, MIB) == 0);
  transfer_stop(t);
  munmap(from, MIB);
  munmap(to, MIB);
  bell_drain(bell);
}

static void the_receiver_gets_its_completion_after_the_data(void) {
  start();
  uint8_t *from = memory(MIB), *to = memory(MIB);
  int32_t slot[16], cq[64] = {[CQ_WORD] = CQ_BITMAP | CQ_ARMED_SOLICITED, [CQ_MODERATION_COUNT] = 1};
  for (int32_t round = 1; round <= 50; round++) {
    fill(from, MIB, (unsigned)round);
    memset(slot, 0, sizeof slot);
    cq[CQ_WORD] = CQ_BITMAP | CQ_ARMED_SOLICITED;
    const transfer_part part = {at(to), at(from), MIB, TRANSFER_COPY};
    transfer_request r = {.parts = &part, .count = 1, .slot = slot, .cq = cq, .ring = 33, .solicited = 1, .cq_bell = bell.write_fd};
    for (int i = 0; i < 16; i++) r.entry[i] = round * 100 + i;
    CHECK(transfer_submit(t, &r) == 0);
    while (load(&slot[0]) == 0) sched_yield(); /* the sequence word is stored last ... */
    CHECK(slot[0] == round * 100);
    for (int i = 1; i < 16; i++) CHECK(slot[i] == round * 100 + i); /* ... so the entry is whole ... */
    CHECK(to[0] == from[0] && to[MIB - 1] == from[MIB - 1]); /* ... and the data is there */
    CHECK(bell_wait(bell, PATIENCE_MS));
    EVENTUALLY(load(&done) == round);
    CHECK(bell_drain(bell) == 1);
    CHECK(cq[CQ_WORD] == CQ_BITMAP && cq[CQ_READY] == 1 && cq[CQ_BITS + 1] == 2);
  }
  transfer_stop(t);
  munmap(from, MIB);
  munmap(to, MIB);
}

static void other_processes_are_written_and_read(void) {
  start();
  uint8_t *shared = memory(4 * MIB); /* the same addresses in the child, but its own pages */
  uint8_t *local = memory(4 * MIB);
  int ready[2];
  CHECK(pipe(ready) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    fill(shared, 4 * MIB, 11);
    CHECK(write(ready[1], "", 1) == 1);
    for (;;) pause();
  }
  char byte;
  CHECK(read(ready[0], &byte, 1) == 1);
  close(ready[0]);
  close(ready[1]);
  kill(pid, SIGSTOP);
  const transfer_part read_part = {at(local), at(shared), 4 * MIB, TRANSFER_READ_PROCESS};
  transfer_request r = {.parts = &read_part, .count = 1, .pid = pid};
  CHECK(transfer_submit(t, &r) == 0);
  while (load(&done) != 1) transfer_help(t);
  CHECK(errors[0] == 0);
  uint8_t *expected = memory(4 * MIB);
  fill(expected, 4 * MIB, 11);
  CHECK(memcmp(local, expected, 4 * MIB) == 0);
  fill(expected, 4 * MIB, 12);
  const transfer_part mixed[] = {
      {at(shared), at(expected), 4 * MIB, TRANSFER_WRITE_PROCESS},
      {at(local), at(shared), 4 * MIB, TRANSFER_READ_PROCESS}, /* what the first part wrote, or what was there: both in the child */
  };
  r.parts = mixed;
  CHECK(transfer_submit(t, &r) == 0);
  r.parts = &read_part;
  CHECK(transfer_submit(t, &r) == 0);
  EVENTUALLY(load(&done) == 3);
  CHECK(errors[1] == 0 && errors[2] == 0);
  CHECK(memcmp(local, expected, 4 * MIB) == 0);
  CHECK(shared[0] == 0); /* nothing of this went through this process's own pages */
  kill_and_reap(pid);
  int32_t slot[16] = {0}, cq[64] = {0};
  r.slot = slot;
  r.cq = cq;
  r.entry[0] = 1;
  CHECK(transfer_submit(t, &r) == 0);
  EVENTUALLY(load(&done) == 4);
  CHECK(errors[3] == ESRCH && slot[0] == 0);
  transfer_stop(t);
  munmap(shared, 4 * MIB);
  munmap(local, 4 * MIB);
  munmap(expected, 4 * MIB);
}

static void the_bell_rings_at_the_end_while_the_owner_sleeps(void) {
  start();
  uint8_t from[64] = {1}, to[64] = {0};
  const transfer_part part = {at(to), at(from), sizeof to, TRANSFER_COPY};
  CHECK(submit(&part, 1) == 0);
  EVENTUALLY(load(&done) == 1);
  CHECK(bell_drain(bell) == 0);
  transfer_ring_at_end(t, 1);
  CHECK(submit(&part, 1) == 0);
  CHECK(bell_wait(bell, PATIENCE_MS));
  CHECK(load(&done) == 2);
  transfer_ring_at_end(t, 0);
  CHECK(submit(&part, 1) == 0);
  EVENTUALLY(load(&done) == 3);
  CHECK(bell_drain(bell) == 1);
  transfer_stop(t);
}

enum { MANY = 200 }; /* so many that they are not over before anybody looks */

static void stopping_with_requests_outstanding_leaves_nothing(void) {
  start();
  uint8_t *from = memory(LARGE), *to = memory(LARGE);
  int32_t announcement = 0, serial = 1;
  for (int i = 0; i < MANY; i++) {
    submit_long(to, from, (transfer_request){.announcement = &announcement, .announce = 5, .serial = &serial, .expected = 1});
  }
  EVENTUALLY(load(&announcement) == 5);
  transfer_stop(t);
  CHECK(load(&done) < MANY);
  CHECK(load(&announcement) == 0); /* the owner of the memory does not wait for ever */
  munmap(from, LARGE); /* the thread is gone: nobody copies any more */
  munmap(to, LARGE);
}

int main(void) {
  bell = bell_open();
  RUN(parts_of_any_length_arrive_as_they_are);
  RUN(requests_run_in_order_one_after_the_other);
  RUN(a_helper_takes_pieces_too);
  RUN(the_257th_outstanding_request_is_refused);
  RUN(the_key_is_announced_from_start_to_end);
  RUN(a_revoked_key_moves_no_byte_and_the_next_request_goes_on);
  RUN(the_receiver_gets_its_completion_after_the_data);
  RUN(other_processes_are_written_and_read);
  RUN(the_bell_rings_at_the_end_while_the_owner_sleeps);
  RUN(stopping_with_requests_outstanding_leaves_nothing);
  bell_close(bell);
  return 0;
}
