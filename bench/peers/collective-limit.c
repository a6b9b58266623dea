/*
 * The limit of an all-reduce on shared memory: P processes, one mapping that holds all P vectors, each process averages its part of all of
 * them in place. Nothing is checked, nothing is found, nobody can die.
 *
 *   collective-limit RANKS BYTES DURATION_MS
 *
 * Prints the microseconds of one call, a line for each batch.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct line {
  int32_t count;
  uint8_t rest[60];
} line;

static line *lines;
static int ranks, rank, phase, spins;
static int64_t count;
static float *vectors;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* One core each where there are enough. */
static void pin(void) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < ranks) return;
  for (int cpu = 0, left = rank; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &allowed) && left-- == 0) {
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      sched_setaffinity(0, sizeof one, &one);
      return;
    }
}

static void meet(void) {
  __atomic_store_n(&lines[rank].count, ++phase, __ATOMIC_RELEASE);
  for (int r = 0; r < ranks; r++)
    for (int i = 0; __atomic_load_n(&lines[r].count, __ATOMIC_ACQUIRE) - phase < 0; i++)
      if (i >= spins) sched_yield();
}

static void average_two(float *restrict a, float *restrict b, int64_t n) {
  for (int64_t i = 0; i < n; i++) a[i] = b[i] = (a[i] + b[i]) * 0.5f;
}

static void average(void) {
  meet();
  int64_t first = count * rank / ranks, end = count * (rank + 1) / ranks;
  if (ranks == 2) average_two(vectors + first, vectors + count + first, end - first);
  else
    for (int64_t i = first; i < end; i++) {
      float sum = 0;
      for (int r = 0; r < ranks; r++) sum += vectors[r * count + i];
      for (int r = 0; r < ranks; r++) vectors[r * count + i] = sum / (float)ranks;
    }
  meet();
}

static double batch(int calls) {
  meet();
  double start = now_us();
  for (int i = 0; i < calls; i++) average();
  return now_us() - start;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: collective-limit RANKS BYTES DURATION_MS\n");
    return 2;
  }
  ranks = atoi(argv[1]);
  count = atol(argv[2]) / 4;
  double duration = atof(argv[3]) * 1e3;
  spins = ranks <= sysconf(_SC_NPROCESSORS_ONLN) ? 1 << 30 : 0;
  size_t bytes = 4096 + 64 * (size_t)ranks + (size_t)ranks * (size_t)count * 4;
  uint8_t *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  volatile int32_t *plan = (int32_t *)shared;
  lines = (line *)(shared + 64);
  vectors = (float *)(shared + 4096 * ((64 + 64 * (size_t)ranks) / 4096 + 1));
  if ((uint8_t *)(vectors + (size_t)ranks * (size_t)count) > shared + bytes) return 1;
  for (int r = 1; r < ranks; r++)
    if (fork() == 0) {
      rank = r;
      break;
    }
  pin();
  double once = 0;
  for (int i = 0; i < 3; i++) once = batch(4) / 4;
  if (rank == 0) {
    plan[0] = (int)(duration / 20 / once) > 1 ? (int)(duration / 20 / once) : 1;
    plan[1] = (int)(duration / (once * plan[0])) > 3 ? (int)(duration / (once * plan[0])) : 3;
  }
  meet();
  for (int i = 0; i < plan[1]; i++) {
    double us = batch(plan[0]) / plan[0];
    if (rank == 0) printf("%.4f\n", us);
  }
  if (rank == 0)
    while (wait(NULL) > 0) {}
  return 0;
}
