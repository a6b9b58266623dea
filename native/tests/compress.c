/* Encodings of gradients, at every length around the vector widths: an encoding and what it leaves out add up to what was encoded, and nothing is touched beside. */
#define _GNU_SOURCE
#include "compress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apply.h"
#include "check.h"
#include "kernel-table.h"

enum { MOST = 300 };

/* Memory of exactly this size, so that a sanitizer sees one step beyond. */
static void *exactly(size_t bytes) {
  void *p = malloc(bytes > 0 ? bytes : 1);
  CHECK(p != NULL);
  memset(p, 0, bytes > 0 ? bytes : 1);
  return p;
}

static float draw(unsigned *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return ((float)(*seed >> 8) / (float)(1 << 24) - 0.5f) * ((*seed & 7) == 0 ? 100.0f : 1.0f);
}

static void adds_up(const float *said, const float *rest, const float *was, size_t n, float within) {
  for (size_t i = 0; i < n; i++) CHECK(fabsf(said[i] + rest[i] - was[i]) <= within * fabsf(was[i]) + 1e-6f);
}

static void lengths(size_t n) {
  unsigned seed = (unsigned)n + 1;
  float *was = exactly(4 * n), *x = exactly(4 * n), *y = exactly(4 * n);
  for (size_t i = 0; i < n; i++) was[i] = draw(&seed);

  uint16_t *halves = exactly(2 * n);
  memcpy(x, was, 4 * n);
  f16_encode(x, halves, n);
  f16_decode(halves, y, n, 0);
  adds_up(y, x, was, n, 1e-6f);
  memcpy(x, was, 4 * n);
  bf16_encode(x, halves, n);
  bf16_decode(halves, y, n, 0);
  adds_up(y, x, was, n, 1e-6f);
  free(halves);

  int8_t *bytes = exactly(n);
  memcpy(x, was, 4 * n);
  const float unit = abs_max(x, n) / 127;
  int8_encode(x, bytes, n, unit, 127);
  int8_decode(bytes, y, n, unit, 0);
  adds_up(y, x, was, n, 1e-5f);
  for (size_t i = 0; i < n; i++) CHECK(fabsf(x[i]) <= unit * 0.51f);
  free(bytes);

  uint32_t *bits = exactly(4 * ((n + 31) / 32));
  float means[2];
  memcpy(x, was, 4 * n);
  one_bit_encode(x, bits, n, means);
  one_bit_decode(bits, means, y, n, 0);
  adds_up(y, x, was, n, 1e-5f);
  one_bit_decode(bits, means, y, n, 1);
  free(bits);

  for (size_t k = 1; k <= n; k += 1 + n / 3) {
    uint32_t *index = exactly(4 * k);
    float *value = exactly(4 * k);
    memcpy(x, was, 4 * n);
    top_k(x, n, k, index, value);
    float least = INFINITY;
    for (size_t i = 0; i < k; i++) {
      CHECK(index[i] < n && (i == 0 || index[i - 1] < index[i]));
      least = fminf(least, fabsf(value[i]));
    }
    for (size_t i = 0; i < n; i++) CHECK(fabsf(x[i]) <= least);
    CHECK(sparse_add(index, value, k, x, n) == 0);
    CHECK(memcmp(x, was, 4 * n) == 0);
    const size_t count = threshold_select(x, n, 0.25f, k, index, value);
    CHECK(count <= k);
    memcpy(x, was, 4 * n);
    random_k_encode(x, n, k, 3, 4, value);
    random_k_decode(value, k, 3, 4, y, n);
    adds_up(y, x, was, n, 0);
    index[0] = (uint32_t)n;
    CHECK(sparse_add(index, value, 1, x, n) == 1);
    free(index);
    free(value);
  }
  const double sources[2] = {(double)(uintptr_t)was, (double)(uintptr_t)y};
  const double factors[2] = {0.5, 0.25};
  weighted_sum(x, n, sources, factors, 2);
  for (size_t i = 0; i < n; i++) CHECK(fabsf(x[i] - (0.5f * was[i] + 0.25f * y[i])) <= 1e-4f);
  free(was);
  free(x);
  free(y);
}

/* A step of plain SGD from two gradients to two workers, whose parameters begin anywhere in a line: what the parts do one after the other. */
static void applies(size_t n, size_t offset) {
  unsigned seed = (unsigned)n + 7;
  float *memory[6];
  for (int i = 0; i < 6; i++) memory[i] = exactly(4 * (n + offset));
  float *parameters = memory[0] + offset, *gradient = memory[1] + offset, *expected = exactly(4 * n);
  for (size_t i = 0; i < n; i++) {
    expected[i] = parameters[i] = draw(&seed);
    memory[2][offset + i] = draw(&seed);
    memory[3][offset + i] = draw(&seed);
  }
  double places[6];
  for (int i = 0; i < 6; i++) places[i] = (double)(uintptr_t)(memory[i] + offset);
  const double factors[2] = {0.25, 0.75};
  const double update[KERNEL_NUMBERS] = {KERNEL_SGD, 0.5, 0, 0, 0, places[0], places[1], 0, (double)n};
  const application it = {update, 4, 3, places + 2, factors, 2, places + 4, 2};
  CHECK(apply(&it) == 0);
  weighted_sum(gradient, n, places + 2, factors, 2);
  double step[KERNEL_NUMBERS];
  memcpy(step, update, sizeof step);
  step[5] = (double)(uintptr_t)expected;
  CHECK(kernel_call(step) == 0);
  for (int i = 0; i < 6; i += i == 0 ? 4 : 1) CHECK(memcmp(memory[i] + offset, expected, 4 * n) == 0);
  for (int i = 0; i < 6; i++) {
    for (size_t k = 0; k < offset; k++) CHECK(memory[i][k] == 0);
    free(memory[i]);
  }
  free(expected);
}

int main(void) {
  const size_t lots[] = {0, 1, 17, 255, 256, 257, 1000, 20011, 300001};
  for (size_t i = 0; i < sizeof lots / sizeof *lots; i++) {
    for (size_t offset = 0; offset < 20; offset += 3) applies(lots[i], offset);
  }
  for (size_t n = 0; n <= MOST; n++) lengths(n);
  lengths(5000);
  float matrix[6] = {3, 6, 4, 8, 0, 0}; /* the second column lies in the first */
  orthonormalize(matrix, 3, 2);
  CHECK(fabsf(matrix[0] - 0.6f) < 1e-6f && fabsf(matrix[2] - 0.8f) < 1e-6f && matrix[1] == 0 && matrix[3] == 0);
  double unknown[20] = {63};
  CHECK(compress_call(unknown) == 1);
  return 0;
}
