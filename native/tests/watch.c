/* Peers that die, stop and go on, and handles that are used again. */
#define _GNU_SOURCE
#include "watch.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

static int32_t attention;
static test_bell bell;
static watch *w;

static int32_t load(int32_t *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }

static uint64_t start_of(pid_t pid) {
  uint64_t start;
  char state;
  CHECK(process_stat(pid, &start, &state) == 0);
  return start;
}

static int add(pid_t pid, int32_t *word) {
  *word = WATCH_RUNNING;
  int handle = watch_add(w, pid, start_of(pid), word);
  CHECK(handle >= 0);
  return handle;
}

/* Sleeps on the bell, as an event loop does, until the word has the value. */
static void await(int32_t *word, int32_t value) {
  double deadline = now_s() + PATIENCE_MS / 1000.0;
  while (load(word) != value) {
    CHECK(now_s() < deadline);
    bell_wait(bell, 100);
    bell_drain(bell);
  }
}

/* Once this returned, the watch thread has dealt with everything that happened before. */
static void settle(void) {
  int32_t word;
  pid_t pid = fork_idle();
  int handle = add(pid, &word);
  kill(pid, SIGKILL);
  await(&word, WATCH_DEAD);
  watch_remove(w, handle);
  CHECK(waitpid(pid, NULL, 0) == pid);
}

static void a_process_is_described_by_its_start_time_and_state(void) {
  uint64_t start = 0, again = 0;
  char state = 0;
  CHECK(process_stat(getpid(), &start, &state) == 0);
  CHECK(start > 0 && state == 'R');
  CHECK(process_stat(getpid(), &again, &state) == 0);
  CHECK(again == start);
  CHECK(process_stat(0x3ffffff, &start, &state) == ESRCH);
  int ready[2];
  CHECK(pipe(ready) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    prctl(PR_SET_NAME, "a) R 1 (b");
    CHECK(write(ready[1], "", 1) == 1);
    for (;;) pause();
  }
  char byte;
  CHECK(read(ready[0], &byte, 1) == 1);
  close(ready[0]);
  close(ready[1]);
  kill(pid, SIGSTOP);
  EVENTUALLY(process_stat(pid, &again, &state) == 0 && state == 'T');
  CHECK(again >= start); /* a name full of parentheses does not move the fields */
  kill_and_reap(pid);
  CHECK(process_stat(pid, &again, &state) == ESRCH);
}

/* A process that may open no more files cannot look into /proc: that is not the end of the others. */
static void a_process_that_cannot_be_looked_at_is_not_dead(void) {
  int32_t word, own = WATCH_RUNNING;
  uint64_t start = start_of(getpid()), found;
  char state;
  pid_t pid = fork_idle();
  int handle = add(pid, &word);
  int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  struct rlimit before;
  CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
  struct rlimit none = {.rlim_cur = 3, .rlim_max = before.rlim_max};
  CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  CHECK(process_stat(getpid(), &found, &state) == EMFILE);
  CHECK(!process_is_gone(getpid(), start));
  int second = watch_add(w, getpid(), start, &own); /* looks at once */
  CHECK(load(&own) == WATCH_RUNNING && load(&word) == WATCH_RUNNING);
  kill(pid, SIGKILL);
  if (pidfd >= 0) await(&word, WATCH_DEAD); /* a pidfd needs no other file; valgrind has none, and the watch then looks into /proc */
  CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
  await(&word, WATCH_DEAD);
  if (pidfd >= 0) close(pidfd);
  CHECK(!process_is_gone(getpid(), start) && process_is_gone(getpid(), start + 1));
  CHECK(waitpid(pid, NULL, 0) == pid);
  CHECK(process_is_gone(pid, start));
  watch_remove(w, second);
  watch_remove(w, handle);
}

static void a_killed_process_is_noticed_before_anybody_reaps_it(void) {
  int32_t word, before = load(&attention);
  pid_t pid = fork_idle();
  int handle = add(pid, &word);
  CHECK(load(&word) == WATCH_RUNNING && load(&attention) == before);
  kill(pid, SIGKILL);
  CHECK(bell_wait(bell, PATIENCE_MS));
  await(&word, WATCH_DEAD);
  CHECK(load(&attention) == before + 1);
  CHECK(waitpid(pid, NULL, 0) == pid);
  settle();
  CHECK(load(&attention) == before + 2); /* the death is told once; the other one was of settle */
  watch_remove(w, handle);
}

static void a_stopped_process_is_noticed_and_so_is_its_going_on(void) {
  int32_t word, before = load(&attention);
  pid_t pid = fork_idle();
  int handle = add(pid, &word);
  kill(pid, SIGSTOP);
  await(&word, WATCH_STOPPED);
  kill(pid, SIGCONT);
  await(&word, WATCH_RUNNING);
  kill(pid, SIGSTOP);
  await(&word, WATCH_STOPPED);
  CHECK(load(&attention) == before + 3);
  kill(pid, SIGKILL); /* also while it is stopped */
  await(&word, WATCH_DEAD);
  CHECK(waitpid(pid, NULL, 0) == pid);
  watch_remove(w, handle);
}

static void who_is_dead_when_added_is_dead_at_once(void) {
  int32_t word = WATCH_RUNNING;
  pid_t pid = fork_idle();
  uint64_t start = start_of(pid);
  int handle = watch_add(w, pid, start + 1, &word); /* the pid now belongs to a process that started at another time */
  CHECK(handle >= 0 && word == WATCH_DEAD);
  watch_remove(w, handle);
  kill(pid, SIGKILL);
  siginfo_t info;
  CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0); /* a zombie */
  word = WATCH_RUNNING;
  handle = watch_add(w, pid, start, &word);
  await(&word, WATCH_DEAD);
  watch_remove(w, handle);
  CHECK(waitpid(pid, NULL, 0) == pid); /* gone altogether */
  word = WATCH_RUNNING;
  handle = watch_add(w, pid, start, &word);
  CHECK(handle >= 0 && word == WATCH_DEAD);
  watch_remove(w, handle);
  bell_drain(bell);
}

static void a_handle_is_used_again_only_after_it_was_removed(void) {
  int32_t a_word, b_word, c_word;
  pid_t a = fork_idle(), b = fork_idle(), c = fork_idle();
  int a_handle = add(a, &a_word);
  kill(a, SIGKILL);
  await(&a_word, WATCH_DEAD);
  int b_handle = add(b, &b_word);
  CHECK(b_handle != a_handle);
  watch_remove(w, a_handle);
  CHECK(waitpid(a, NULL, 0) == a);
  int c_handle = add(c, &c_word);
  CHECK(c_handle == a_handle);
  settle();
  CHECK(load(&b_word) == WATCH_RUNNING && load(&c_word) == WATCH_RUNNING);
  kill(c, SIGKILL);
  await(&c_word, WATCH_DEAD);
  CHECK(load(&b_word) == WATCH_RUNNING);
  watch_remove(w, b_handle);
  watch_remove(w, c_handle);
  watch_remove(w, c_handle); /* once more does nothing */
  watch_remove(w, 4711);
  kill_and_reap(b);
  CHECK(waitpid(c, NULL, 0) == c);
}

/* The thread may have taken a death out of the kernel that it has not looked at yet, when the handle already means somebody else. */
static void a_death_on_its_way_is_not_blamed_on_the_next_owner_of_the_handle(void) {
  int32_t dying_word, living_word;
  pid_t living = fork_idle();
  for (int round = 0; round < 150; round++) {
    pid_t dying = fork_idle();
    int handle = add(dying, &dying_word);
    kill(dying, SIGKILL);
    if (round % 3 != 0) {
      siginfo_t info;
      CHECK(waitid(P_PID, (id_t)dying, &info, WEXITED | WNOWAIT) == 0);
    }
    if (round % 3 == 2) {
      for (volatile int i = 0; i < round * 20; i++) {
      }
    }
    watch_remove(w, handle);
    int next = add(living, &living_word);
    CHECK(next == handle);
    CHECK(waitpid(dying, NULL, 0) == dying);
    if (round % 10 == 9) settle();
    CHECK(load(&living_word) == WATCH_RUNNING);
    watch_remove(w, next);
  }
  kill_and_reap(living);
}

static void the_word_of_a_removed_process_is_left_alone(void) {
  int32_t word;
  pid_t pid = fork_idle();
  int handle = add(pid, &word);
  watch_remove(w, handle);
  word = 99;
  kill(pid, SIGSTOP);
  kill_and_reap(pid);
  settle();
  CHECK(word == 99);
}

enum { MANY = 40 };

static void many_processes_are_told_apart(void) {
  pid_t pids[MANY];
  int32_t words[MANY];
  int handles[MANY];
  for (int i = 0; i < MANY; i++) {
    pids[i] = fork_idle();
    handles[i] = add(pids[i], &words[i]);
  }
  for (int n = 0; n < MANY; n += 2) {
    int i = n * 7 % MANY; /* every second one, out of order */
    kill(pids[i], SIGKILL);
    await(&words[i], WATCH_DEAD);
  }
  for (int i = 0; i < MANY; i++) CHECK(load(&words[i]) == (i % 2 == 0 ? WATCH_DEAD : WATCH_RUNNING));
  kill(pids[MANY - 1], SIGSTOP);
  await(&words[MANY - 1], WATCH_STOPPED);
  for (int i = 0; i < MANY; i++) {
    if (i % 2 == 0) CHECK(waitpid(pids[i], NULL, 0) == pids[i]);
    else kill_and_reap(pids[i]);
  }
  for (int i = 1; i < MANY; i += 2) await(&words[i], WATCH_DEAD);
  for (int i = 0; i < MANY; i++) watch_remove(w, handles[i]);
}

static void a_watch_that_is_stopped_leaves_nothing(void) {
  int before = open_files();
  for (int round = 0; round < 3; round++) {
    watch *other;
    int32_t word = 0, count = 0;
    CHECK(watch_start(&count, bell.write_fd, &other) == 0);
    pid_t pid = fork_idle();
    CHECK(watch_add(other, pid, start_of(pid), &word) == 0);
    watch_stop(other); /* with somebody still watched */
    kill_and_reap(pid);
    CHECK(word == 0 && count == 0);
  }
  CHECK(open_files() == before);
}

int main(void) {
  bell = bell_open();
  CHECK(watch_start(&attention, bell.write_fd, &w) == 0);
  int files = open_files();
  RUN(a_process_is_described_by_its_start_time_and_state);
  RUN(a_process_that_cannot_be_looked_at_is_not_dead);
  RUN(a_killed_process_is_noticed_before_anybody_reaps_it);
  RUN(a_stopped_process_is_noticed_and_so_is_its_going_on);
  RUN(who_is_dead_when_added_is_dead_at_once);
  RUN(a_handle_is_used_again_only_after_it_was_removed);
  RUN(a_death_on_its_way_is_not_blamed_on_the_next_owner_of_the_handle);
  RUN(the_word_of_a_removed_process_is_left_alone);
  RUN(many_processes_are_told_apart);
  RUN(a_watch_that_is_stopped_leaves_nothing);
  CHECK(open_files() == files); /* every pidfd was closed */
  watch_stop(w);
  bell_close(bell);
  return 0;
}
