/* Updates by two threads, called from two more at once: the bits of one call for all, in memory that every update writes anew. A race is for the thread sanitizer to find. */
#define _GNU_SOURCE
#include "apply.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "compress.h"
#include "kernel-table.h"
#include "kernels.h"

/* Floats: enough for the helper to be woken (apply.c), and no whole block. */
enum { MOST = 9 * 64 * 256 + 77, ROUNDS = 12, SOURCES = 2, TARGETS = 2, ARRAYS = 3 + SOURCES + TARGETS };

typedef struct {
  unsigned seed;
  float *array[ARRAYS], *expected[3];
} caller;

static double place(const float *p) { return (double)(uintptr_t)p; }

static void fill(float *x, unsigned *seed) {
  for (size_t i = 0; i < MOST; i++) {
    *seed = *seed * 1664525u + 1013904223u;
    x[i] = (float)(*seed >> 8) / (float)(1 << 24) - 0.5f;
  }
}

static void *updates(void *data) {
  caller *c = data;
  float *parameters = c->array[0], *gradient = c->array[1], *velocity = c->array[2], **sources = c->array + 3, **targets = sources + SOURCES;
  for (int round = 0; round < ROUNDS; round++) {
    const size_t n = MOST - (size_t)round * 1000;
    for (int s = 0; s < SOURCES; s++) fill(sources[s], &c->seed);
    const double from[SOURCES] = {place(sources[0]), place(sources[1])}, to[TARGETS] = {place(targets[0]), place(targets[1])};
    const double factors[SOURCES] = {0.25, 0.75}, update[KERNEL_NUMBERS] = {KERNEL_SGD,        0.1, 0.9, 0, 0, place(parameters), place(gradient),
                                                                            place(velocity), (double)n};
    const application a = {.update = update, .first = 4, .pointers = 3, .sources = from, .factors = factors, .count = SOURCES, .targets = to, .delivered = TARGETS};
    CHECK(apply(&a) == 0);
    sum_block(c->expected[1], n, from, factors, SOURCES, 0);
    sgd_update(&(sgd){.rate = 0.1f, .momentum = 0.9f}, c->expected[0], c->expected[1], c->expected[2], n);
    CHECK(memcmp(parameters, c->expected[0], n * sizeof *parameters) == 0);
    CHECK(memcmp(velocity, c->expected[2], n * sizeof *velocity) == 0);
    for (int t = 0; t < TARGETS; t++) CHECK(memcmp(targets[t], parameters, n * sizeof *parameters) == 0);
  }
  return NULL;
}

static void prepare(caller *c, unsigned seed) {
  c->seed = seed;
  for (int i = 0; i < ARRAYS; i++) CHECK((c->array[i] = calloc(MOST, sizeof(float))) != NULL);
  for (int i = 0; i < 3; i++) CHECK((c->expected[i] = calloc(MOST, sizeof(float))) != NULL);
  fill(c->array[0], &c->seed);
  memcpy(c->expected[0], c->array[0], MOST * sizeof(float));
}

static void give_back(caller *c) {
  for (int i = 0; i < ARRAYS; i++) free(c->array[i]);
  for (int i = 0; i < 3; i++) free(c->expected[i]);
}

static void updates_of_two_callers_have_the_bits_of_one_call(void) {
  caller callers[2];
  pthread_t other;
  for (int i = 0; i < 2; i++) prepare(&callers[i], 7u + (unsigned)i);
  CHECK(pthread_create(&other, NULL, updates, &callers[1]) == 0);
  updates(&callers[0]);
  CHECK(pthread_join(other, NULL) == 0);
  for (int i = 0; i < 2; i++) give_back(&callers[i]);
}

int main(void) {
  RUN(updates_of_two_callers_have_the_bits_of_one_call);
  return 0;
}
