/* Segments, mappings, copies between processes, 64-bit atomics. */
#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "check.h"

enum { PAGE = 4096, BYTES = 16 * PAGE };

static int segment(size_t length) {
  int fd = memory_create("verbena-test", 0);
  CHECK(fd >= 0);
  CHECK(ftruncate(fd, (off_t)length) == 0);
  return fd;
}

static off_t blocks_of(int fd) {
  struct stat s;
  CHECK(fstat(fd, &s) == 0);
  return s.st_blocks * 512;
}

/* Asks the kernel, so that a page that is gone is an answer and not a crash. */
static int is_mapped(const void *at) {
  uint8_t byte;
  return memory_read_process(getpid(), (uint64_t)(uintptr_t)at, &byte, 1) == 0;
}

static void two_mappings_of_a_segment_are_the_same_memory(void) {
  int fd = segment(BYTES);
  mapping *a, *b;
  CHECK(memory_map(fd, 0, BYTES, 1, &a) == 0);
  CHECK(memory_map(fd, PAGE, BYTES - PAGE, 1, &b) == 0);
  CHECK(a->base != b->base && a->length == BYTES);
  for (int i = 0; i < BYTES; i++) CHECK(a->base[i] == 0);
  a->base[PAGE + 7] = 42;
  CHECK(b->base[7] == 42);
  close(fd); /* mappings outlive the descriptor */
  b->base[8] = 43;
  CHECK(a->base[PAGE + 8] == 43);
  mapping_release(a);
  mapping_release(b);
}

static void segments_have_no_name_and_do_not_survive_exec(void) {
  int fd = memory_create("verbena-test", 0);
  CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  close(fd);
  fd = memory_create_in("/dev/shm");
  CHECK(fd >= 0);
  struct stat s;
  CHECK(fstat(fd, &s) == 0);
  CHECK(s.st_nlink == 0);
  CHECK((s.st_mode & 0777) == 0600);
  CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  close(fd);
  CHECK(memory_create_in("/nowhere-at-all") == -ENOENT);
}

static void reserved_pages_exist_and_released_ones_read_as_zero(void) {
  int fd = segment(BYTES);
  CHECK(blocks_of(fd) == 0);
  CHECK(memory_reserve(fd, 0, BYTES) == 0);
  CHECK(blocks_of(fd) == BYTES);
  mapping *m;
  CHECK(memory_map(fd, 0, BYTES, 1, &m) == 0);
  memset(m->base, 0xee, BYTES);
  CHECK(memory_release(fd, PAGE, 2 * PAGE) == 0);
  CHECK(blocks_of(fd) == BYTES - 2 * PAGE);
  CHECK(m->base[PAGE - 1] == 0xee && m->base[3 * PAGE] == 0xee);
  for (int i = PAGE; i < 3 * PAGE; i++) CHECK(m->base[i] == 0);
  mapping_release(m);
  close(fd);
}

static void what_cannot_be_reserved_is_an_error_there(void) {
  CHECK(memory_reserve(-1, 0, PAGE) == EBADF);
  CHECK(memory_release(-1, 0, PAGE) == EBADF);
  pid_t pid = fork(); /* a limit on file sizes stands for a full file system; it holds for the child only */
  CHECK(pid >= 0);
  if (pid == 0) {
    int fd = segment(PAGE);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {PAGE, PAGE};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(memory_reserve(fd, 0, PAGE) == 0);
    CHECK(memory_reserve(fd, PAGE, BYTES) == EFBIG);
    _exit(0);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_mapping_that_cannot_be_made_is_an_errno(void) {
  mapping *m = NULL;
  int fd = segment(PAGE);
  CHECK(memory_map(fd, 0, 0, 1, &m) == EINVAL);
  CHECK(memory_map(fd, 1, PAGE, 1, &m) == EINVAL);
  CHECK(memory_map(-1, 0, PAGE, 1, &m) == EBADF);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int readable = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(readable >= 0);
  CHECK(memory_map(readable, 0, PAGE, 1, &m) == EACCES);
  CHECK(m == NULL);
  CHECK(memory_map(readable, 0, PAGE, 0, &m) == 0);
  CHECK(m->base[0] == 0);
  mapping_release(m);
  close(readable);
  close(fd);
}

static void the_last_reference_unmaps(void) {
  int fd = segment(BYTES);
  mapping *m;
  CHECK(memory_map(fd, 0, BYTES, 1, &m) == 0);
  close(fd);
  uint8_t *base = m->base;
  mapping_retain(m);
  mapping_retain(m);
  mapping_release(m);
  mapping_release(m);
  CHECK(is_mapped(base));
  base[0] = 1;
  mapping_release(m);
  CHECK(!is_mapped(base));
}

static void *retain_and_release(void *argument) {
  mapping *m = argument;
  for (int i = 0; i < 20000; i++) {
    mapping_retain(m);
    CHECK(m->base[0] == 7);
    mapping_release(m);
  }
  mapping_release(m); /* the reference that the thread was given */
  return NULL;
}

static void references_are_counted_across_threads(void) {
  int fd = segment(PAGE);
  mapping *m;
  CHECK(memory_map(fd, 0, PAGE, 1, &m) == 0);
  close(fd);
  uint8_t *base = m->base;
  base[0] = 7;
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    mapping_retain(m);
    CHECK(pthread_create(&threads[i], NULL, retain_and_release, m) == 0);
  }
  mapping_release(m);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  CHECK(!is_mapped(base));
}

/* A child with memory of its own at the same addresses: 2 pages of `fill`, then a page that nobody may touch. */
static pid_t fork_memory(uint8_t *memory, uint8_t fill) {
  int ready[2];
  CHECK(pipe(ready) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    memset(memory, fill, 2 * PAGE);
    CHECK(mprotect(memory + 2 * PAGE, PAGE, PROT_NONE) == 0);
    CHECK(write(ready[1], "", 1) == 1);
    for (;;) pause();
  }
  char byte;
  CHECK(read(ready[0], &byte, 1) == 1);
  close(ready[0]);
  close(ready[1]);
  return pid;
}

static void another_process_is_read_and_written_while_it_is_stopped(void) {
  uint8_t *memory = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  memset(memory, 1, 2 * PAGE);
  pid_t pid = fork_memory(memory, 9);
  kill(pid, SIGSTOP);
  uint64_t at = (uint64_t)(uintptr_t)memory;
  uint8_t local[2 * PAGE];
  memset(local, 0, sizeof local);
  CHECK(memory_read_process(pid, at, local, sizeof local) == 0);
  for (size_t i = 0; i < sizeof local; i++) CHECK(local[i] == 9);
  memset(local, 5, 100);
  CHECK(memory_write_process(pid, at + 3, local, 100) == 0);
  CHECK(memory_read_process(pid, at, local, 0) == 0);
  memset(local, 0, sizeof local);
  CHECK(memory_read_process(pid, at, local, 200) == 0);
  CHECK(local[2] == 9 && local[3] == 5 && local[102] == 5 && local[103] == 9);
  CHECK(memory[0] == 1); /* this process's own page is another one */
  /* A range that leaves what can be reached ends in EFAULT. */
  CHECK(memory_read_process(pid, at + PAGE, local, 2 * PAGE) == EFAULT);
  CHECK(memory_write_process(pid, at + PAGE, local, 2 * PAGE) == EFAULT);
  kill_and_reap(pid);
  CHECK(memory_read_process(pid, at, local, 8) == ESRCH);
  CHECK(memory_write_process(pid, at, local, 8) == ESRCH);
  munmap(memory, 3 * PAGE);
}

static void a_compare_and_swap_returns_the_old_value_and_swaps_only_when_it_was_expected(void) {
  uint64_t word = 0xffffffffffffffffu;
  CHECK(memory_fetch_add(&word, 2) == 0xffffffffffffffffu);
  CHECK(word == 1); /* wraps */
  CHECK(memory_compare_swap(&word, 2, 77) == 1);
  CHECK(word == 1);
  CHECK(memory_compare_swap(&word, 1, 77) == 1);
  CHECK(word == 77);
}

enum { ADDERS = 3, ADDS = 50000 };

static void atomics_of_several_processes_lose_nothing(void) {
  int fd = segment(PAGE);
  mapping *m;
  CHECK(memory_map(fd, 0, PAGE, 1, &m) == 0);
  uint64_t *words = (uint64_t *)m->base;
  pid_t pids[ADDERS];
  for (int p = 0; p < ADDERS; p++) {
    pids[p] = fork();
    CHECK(pids[p] >= 0);
    if (pids[p] != 0) continue;
    for (int i = 0; i < ADDS; i++) {
      memory_fetch_add(&words[0], 0x100000001u);
      for (uint64_t seen = words[1], now; (now = memory_compare_swap(&words[1], seen, seen + 1)) != seen;) seen = now;
    }
    _exit(0);
  }
  for (int p = 0; p < ADDERS; p++) CHECK(waitpid(pids[p], NULL, 0) == pids[p]);
  CHECK(words[0] == 0x100000001u * (uint64_t)(ADDERS * ADDS));
  CHECK(words[1] == ADDERS * ADDS);
  mapping_release(m);
  close(fd);
}

/*
 * Announce and look, against revoke and look: one of the two must see the other. The side in a hurry has plain accesses only, the
 * other one calls memory_barrier between its store and its load.
 */
enum { MEETINGS = 20000 };

static struct {
  _Alignas(64) volatile int announced;
  _Alignas(64) volatile int revoked;
  _Alignas(64) int round; /* atomic: both start when it is raised */
  _Alignas(64) int arrived;
  int saw_revoked, saw_announced;
} meeting;

static void meet(int round) {
  if (__atomic_add_fetch(&meeting.arrived, 1, __ATOMIC_SEQ_CST) == 2 * round) __atomic_store_n(&meeting.round, round, __ATOMIC_SEQ_CST);
  for (int spins = 0; __atomic_load_n(&meeting.round, __ATOMIC_ACQUIRE) < round; spins++) {
    if (spins % 4096 == 4095) sched_yield(); /* spinning lets both start at the same moment */
  }
}

/* The two never start at the same nanosecond: a delay that differs from meeting to meeting lets them collide now and then. */
static void stagger(int turns) {
  for (volatile int i = 0; i < turns; i++) {
  }
}

static void *announce_and_look(void *argument) {
  for (int i = 1; i <= MEETINGS; i++) {
    meet(2 * i - 1);
    stagger(i % 61);
    meeting.announced = i;
    meeting.saw_revoked = meeting.revoked == i;
    meet(2 * i);
  }
  return argument;
}

static void a_barrier_orders_the_plain_accesses_of_the_other_side(void) {
  int error = memory_register_barrier();
  if (error == 0) error = memory_barrier();
  if (error != 0) {
    CHECK(error == ENOSYS || error == EINVAL);
    printf("  (no membarrier here: errno %d)\n", error);
    return;
  }
#if defined(__x86_64__)
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, announce_and_look, NULL) == 0);
  for (int i = 1; i <= MEETINGS; i++) {
    meet(2 * i - 1);
    stagger(i % 53);
    meeting.revoked = i;
    CHECK(memory_barrier() == 0);
    meeting.saw_announced = meeting.announced == i;
    meet(2 * i);
    CHECK(meeting.saw_announced || meeting.saw_revoked);
  }
  pthread_join(thread, NULL);
#else
  (void)announce_and_look; /* only x86-64 leaves the other side's barrier out */
#endif
}

int main(void) {
  RUN(two_mappings_of_a_segment_are_the_same_memory);
  RUN(segments_have_no_name_and_do_not_survive_exec);
  RUN(reserved_pages_exist_and_released_ones_read_as_zero);
  RUN(what_cannot_be_reserved_is_an_error_there);
  RUN(a_mapping_that_cannot_be_made_is_an_errno);
  RUN(the_last_reference_unmaps);
  RUN(references_are_counted_across_threads);
  RUN(another_process_is_read_and_written_while_it_is_stopped);
  RUN(a_compare_and_swap_returns_the_old_value_and_swaps_only_when_it_was_expected);
  RUN(atomics_of_several_processes_lose_nothing);
  RUN(a_barrier_orders_the_plain_accesses_of_the_other_side);
  return 0;
}
