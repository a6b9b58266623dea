/*
 * A bare UDP ping-pong beside Verbena's roce provider: two processes on two CPUs, one system call for each datagram sent and each received.
 *
 *   udp spin|block ADDRESS SIZE BATCH DURATION_MS CPU0 CPU1
 *
 * spin: who waits asks the socket again and again without sleeping; block: it sleeps in the call. Prints the microseconds of each batch of
 * round trips, one a line, after a line "batch N".
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_BATCHES = 100000, MAX_BYTES = 65536 };

static char buffer[MAX_BYTES];
static int size, flags;

static void die(const char *what) {
  perror(what);
  exit(1);
}

static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

static int open_socket(const char *address, struct sockaddr_storage *at, socklen_t *length) {
  struct sockaddr_in *v4 = (struct sockaddr_in *)at;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)at;
  memset(at, 0, sizeof *at);
  if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    *length = sizeof *v4;
  } else if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    *length = sizeof *v6;
  } else {
    fprintf(stderr, "%s is no address\n", address);
    exit(1);
  }
  int fd = socket(at->ss_family, SOCK_DGRAM, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)at, *length) != 0 || getsockname(fd, (struct sockaddr *)at, length) != 0) die("bind");
  return fd;
}

static void hear(int fd) {
  for (;;) {
    ssize_t n = recvfrom(fd, buffer, sizeof buffer, flags, NULL, NULL);
    if (n >= 0) return;
    if (errno != EAGAIN && errno != EINTR) die("recvfrom");
  }
}

static void tell(int fd, struct sockaddr_storage *to, socklen_t length) {
  if (sendto(fd, buffer, (size_t)size, 0, (struct sockaddr *)to, length) != size) die("sendto");
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

int main(int argc, char **argv) {
  if (argc != 8) {
    fprintf(stderr, "usage: udp spin|block ADDRESS SIZE BATCH DURATION_MS CPU0 CPU1\n");
    return 2;
  }
  flags = strcmp(argv[1], "spin") == 0 ? MSG_DONTWAIT : 0;
  size = atoi(argv[3]);
  int batch = atoi(argv[4]);
  double end = now_us() + atof(argv[5]) * 1e3;
  if (size < 1 || size > MAX_BYTES || batch < 1) return 2;
  struct sockaddr_storage ours, theirs;
  socklen_t length;
  int here = open_socket(argv[2], &ours, &length), there = open_socket(argv[2], &theirs, &length);
  pid_t child = fork();
  if (child < 0) die("fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(atoi(argv[6]));
    for (;;) {
      hear(there);
      tell(there, &ours, length);
    }
  }
  pin(atoi(argv[7]));
  printf("batch %d\n", batch);
  for (int b = 0; b < MAX_BATCHES && (b < 2 || now_us() < end); b++) {
    double start = now_us();
    for (int i = 0; i < batch; i++) {
      tell(here, &theirs, length);
      hear(here);
    }
    if (b > 0) printf("%.3f\n", now_us() - start);
  }
  kill(child, SIGKILL);
  return 0;
}
