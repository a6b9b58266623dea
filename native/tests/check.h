/*
 * What the test programs share: a check that names its place and ends the program, and waiting for a byte in a pipe.
 *
 * A program is a main that runs its tests in order; the first failing check exits with status 1. Children are made with fork and end with _exit.
 */
#ifndef VERBENA_CHECK_H
#define VERBENA_CHECK_H

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);         \
      exit(1);                                                                          \
    }                                                                                   \
  } while (0)

#define RUN(test)               \
  do {                          \
    test();                     \
    printf("  %s\n", #test);    \
    fflush(stdout);             \
  } while (0)

/* Longest wait for something that must happen; a program that waits so long has failed. */
enum { PATIENCE_MS = 20000 };

static inline double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Waits until the condition holds, giving the core away meanwhile. */
#define EVENTUALLY(condition)                                                              \
  do {                                                                                     \
    double deadline_ = now_s() + PATIENCE_MS / 1000.0;                                     \
    while (!(condition)) {                                                                 \
      if (now_s() > deadline_) {                                                           \
        fprintf(stderr, "%s:%d: did not become true: %s\n", __FILE__, __LINE__, #condition); \
        exit(1);                                                                           \
      }                                                                                    \
      poll(NULL, 0, 1);                                                                    \
    }                                                                                      \
  } while (0)

/* A bell: a pipe that never blocks, as the addon makes it. */
typedef struct test_bell {
  int read_fd, write_fd;
} test_bell;

__attribute__((unused)) static test_bell bell_open(void) {
  int fds[2];
  CHECK(pipe2(fds, O_NONBLOCK | O_CLOEXEC) == 0);
  return (test_bell){fds[0], fds[1]};
}

__attribute__((unused)) static void bell_close(test_bell b) {
  close(b.read_fd);
  close(b.write_fd);
}

/* Takes everything out; returns how many times it was rung. */
__attribute__((unused)) static int bell_drain(test_bell b) {
  char bytes[4096];
  int total = 0;
  for (ssize_t n; (n = read(b.read_fd, bytes, sizeof bytes)) > 0;) total += (int)n;
  return total;
}

/* Sleeps until the bell rings; returns whether it did within the time. */
__attribute__((unused)) static int bell_wait(test_bell b, int timeout_ms) {
  struct pollfd p = {.fd = b.read_fd, .events = POLLIN};
  return poll(&p, 1, timeout_ms) == 1;
}

/* A child that only waits to be killed. */
__attribute__((unused)) static pid_t fork_idle(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0)
    for (;;) pause();
  return pid;
}

__attribute__((unused)) static void kill_and_reap(pid_t pid) {
  kill(pid, SIGKILL);
  CHECK(waitpid(pid, NULL, 0) == pid);
}

/* Open descriptors of this process. */
__attribute__((unused)) static int open_files(void) {
  DIR *d = opendir("/proc/self/fd");
  CHECK(d);
  int n = 0;
  while (readdir(d)) n++;
  closedir(d);
  return n;
}

#endif
