/* The matrix product against the three plain loops, for every kernel this CPU runs and for the library where there is one. */
#define _GNU_SOURCE
#include "blas.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "check.h"

static uint32_t random_state = 12345;

static float random_float(void) {
  random_state = random_state * 1664525u + 1013904223u;
  return (float)(random_state >> 8) / (float)(1 << 23) - 1;
}

static float *random_matrix(size_t floats) {
  float *p = malloc((floats ? floats : 1) * sizeof *p);
  CHECK(p);
  for (size_t i = 0; i < floats; i++) p[i] = random_float();
  return p;
}

static void compare(int ta, int tb, size_t m, size_t n, size_t k, float alpha, float beta) {
  size_t lda = (ta ? m : k) + 3, ldb = (tb ? k : n) + 1, ldc = n + 2;
  float *a = random_matrix((ta ? k : m) * lda), *b = random_matrix((tb ? n : k) * ldb), *c = random_matrix(m * ldc);
  float *want = malloc((m * ldc + 1) * sizeof *want);
  CHECK(want);
  memcpy(want, c, m * ldc * sizeof *c);
  for (size_t i = 0; i < m; i++)
    for (size_t j = 0; j < n; j++) {
      double sum = 0;
      for (size_t p = 0; p < k; p++) sum += (double)(ta ? a[p * lda + i] : a[i * lda + p]) * (tb ? b[j * ldb + p] : b[p * ldb + j]);
      want[i * ldc + j] = (float)(alpha * sum + (beta == 0 ? 0 : beta * c[i * ldc + j]));
    }
  blas_sgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  for (size_t i = 0; i < m * ldc; i++) CHECK(fabsf(c[i] - want[i]) <= 1e-5f * (float)(k + 10));
  free(a);
  free(b);
  free(c);
  free(want);
}

static void compare_shapes(void) {
  static const size_t shapes[][3] = {{1, 1, 1}, {3, 5, 7}, {8, 48, 16}, {13, 50, 31}, {65, 97, 33}, {6, 16, 400}, {200, 20, 11}, {4, 2100, 3}, {10, 0, 4}, {2, 3, 0}};
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
    for (int trans = 0; trans < 4; trans++) {
      compare(trans & 1, trans >> 1, shapes[s][0], shapes[s][1], shapes[s][2], 1, 0);
      compare(trans & 1, trans >> 1, shapes[s][0], shapes[s][1], shapes[s][2], 1, 1);
      compare(trans & 1, trans >> 1, shapes[s][0], shapes[s][1], shapes[s][2], 0.5f, 0.25f);
    }
}

static void own_product_is_right_with_every_width_of_vectors(void) {
  CHECK(blas_select(BLAS_OWN) == BLAS_OWN);
  for (int lanes = 4; lanes <= 16; lanes *= 2) {
    blas_limit_lanes(lanes);
    CHECK(blas_lanes() <= lanes);
    compare_shapes();
  }
  blas_limit_lanes(0);
}

static void beta_zero_ignores_what_was_there(void) {
  float a = 2, b = 3, c = NAN;
  blas_sgemm(0, 0, 1, 1, 1, 1, &a, 1, &b, 1, 0, &c, 1);
  CHECK(c == 6);
}

static void library_is_right_where_there_is_one(void) {
  if (blas_select(BLAS_LIBRARY) == BLAS_OWN) {
    printf("  skipped: no libopenblas.so.0 and no libblas.so.3 here\n");
    return;
  }
  compare_shapes();
  CHECK(blas_select(BLAS_OWN) == BLAS_OWN);
}

int main(void) {
  RUN(own_product_is_right_with_every_width_of_vectors);
  RUN(beta_zero_ignores_what_was_there);
  RUN(library_is_right_where_there_is_one);
  return 0;
}
