/*
 * Kernels against plain definitions: convolution by its formula (and by patches), pooling, loss, dropout, updates. Buffers have exactly the
 * size that is promised, so the sanitizers see a step past the end.
 */
#define _GNU_SOURCE
#include "kernels.h"

#include <math.h>
#include <string.h>

#include "blas.h"
#include "check.h"
#include "convolution.h"
#include "kernel-table.h"

static uint32_t random_state = 777;

static float random_float(void) {
  random_state = random_state * 1664525u + 1013904223u;
  return (float)(random_state >> 8) / (float)(1 << 23) - 1;
}

static float *numbers(size_t n) {
  float *p = malloc((n ? n : 1) * sizeof *p);
  CHECK(p);
  for (size_t i = 0; i < n; i++) p[i] = random_float();
  return p;
}

static int close_to(const float *a, const float *b, size_t n, float tolerance) {
  for (size_t i = 0; i < n; i++)
    if (!(fabsf(a[i] - b[i]) <= tolerance)) return 0;
  return 1;
}

/* y, dx and dw by the definition of a convolution. */
static void plain_convolution(const convolution *c, const float *x, const float *w, const float *bias, const float *dy, float *y, float *dx,
                              float *dw) {
  size_t oh = convolution_out_height(c), ow = convolution_out_width(c), kh = c->kernel_height, kw = c->kernel_width;
  for (size_t b = 0; b < c->batch; b++)
    for (size_t f = 0; f < c->filters; f++)
      for (size_t oy = 0; oy < oh; oy++)
        for (size_t ox = 0; ox < ow; ox++) {
          size_t out = ((b * c->filters + f) * oh + oy) * ow + ox;
          y[out] = bias[f];
          for (size_t ch = 0; ch < c->channels; ch++)
            for (size_t ky = 0; ky < kh; ky++)
              for (size_t kx = 0; kx < kw; kx++) {
                long iy = (long)(oy * c->stride + ky) - (long)c->padding, ix = (long)(ox * c->stride + kx) - (long)c->padding;
                if (iy < 0 || ix < 0 || iy >= (long)c->height || ix >= (long)c->width) continue;
                size_t in = ((b * c->channels + ch) * c->height + (size_t)iy) * c->width + (size_t)ix;
                size_t at = ((f * c->channels + ch) * kh + ky) * kw + kx;
                y[out] += w[at] * x[in];
                dx[in] += w[at] * dy[out];
                dw[at] += x[in] * dy[out];
              }
        }
}

static void compare_convolution(convolution c) {
  size_t outs = c.batch * c.filters * convolution_out_height(&c) * convolution_out_width(&c);
  size_t ins = c.batch * c.channels * c.height * c.width, ws = c.filters * c.channels * c.kernel_height * c.kernel_width;
  float *x = numbers(ins), *w = numbers(ws), *bias = numbers(c.filters), *dy = numbers(outs), *scratch = numbers(convolution_scratch(&c));
  float *y = numbers(outs), *dx = numbers(ins), *dw = numbers(ws), *db = numbers(c.filters);
  float *want_y = calloc(outs, 4), *want_dx = calloc(ins, 4), *want_dw = calloc(ws, 4);
  CHECK(want_y && want_dx && want_dw);
  plain_convolution(&c, x, w, bias, dy, want_y, want_dx, want_dw);
  convolution_forward(&c, x, w, bias, y, scratch);
  CHECK(close_to(y, want_y, outs, 2e-4f));
  convolution_backward_input(&c, dy, w, dx, scratch);
  CHECK(close_to(dx, want_dx, ins, 2e-4f));
  convolution_backward_weights(&c, x, dy, dw, db, 0, scratch);
  CHECK(close_to(dw, want_dw, ws, 1e-3f));
  for (size_t i = 0; i < ws; i++) want_dw[i] *= 2;
  convolution_backward_weights(&c, x, dy, dw, NULL, 1, scratch);
  CHECK(close_to(dw, want_dw, ws, 2e-3f));
  float *all[] = {x, w, bias, dy, scratch, y, dx, dw, db, want_y, want_dx, want_dw};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

static void convolutions_follow_their_definition(void) {
  for (int lanes = 4; lanes <= 16; lanes *= 2) {
    blas_limit_lanes(lanes);
    compare_convolution((convolution){1, 1, 1, 1, 1, 1, 1, 1, 0});
    compare_convolution((convolution){2, 1, 28, 28, 16, 5, 5, 1, 2});
    compare_convolution((convolution){5, 3, 9, 17, 5, 3, 3, 1, 1});
    compare_convolution((convolution){9, 2, 6, 5, 9, 5, 3, 1, 0});
    compare_convolution((convolution){2, 2, 6, 7, 35, 3, 3, 1, 1});
    compare_convolution((convolution){3, 3, 11, 8, 4, 3, 3, 2, 1});
    compare_convolution((convolution){2, 2, 5, 5, 3, 1, 1, 1, 2}); /* a border wider than the kernel */
  }
  blas_limit_lanes(0);
}

static void pooling_takes_the_first_maximum_and_sends_the_gradient_there(void) {
  pooling p = {1, 5, 5, 2, 2, 2, 2}; /* the last row and column belong to no window */
  float x[25], y[4], dy[4] = {1, 2, 3, 4}, dx[25];
  int32_t index[4];
  for (int i = 0; i < 25; i++) x[i] = (float)((i * 7) % 25);
  x[11] = x[10] = 30;
  max_pool_forward(&p, x, y, index);
  CHECK(y[0] == 17 && index[0] == 6); /* of 0, 7, 10, 17 */
  CHECK(y[2] == 30 && index[2] == 10);
  max_pool_backward(&p, dy, index, dx);
  float sum = 0;
  for (int i = 0; i < 25; i++) sum += dx[i];
  CHECK(sum == 10);
  pooling q = p;
  q.window = 3;
  q.stride = 1;
  q.out_height = q.out_width = 3;
  float wide[9], back[9] = {9, 9, 9, 9, 9, 9, 9, 9, 9};
  average_pool_forward(&q, x, wide);
  average_pool_backward(&q, back, dx);
  CHECK(fabsf(dx[12] - 9) < 1e-5f && fabsf(dx[0] - 1) < 1e-5f);
}

static void pooling_in_blocks_equals_its_definition(void) {
  for (size_t columns = 1; columns <= 20; columns++)
    for (size_t rest = 0; rest < 2; rest++) {
      pooling p = {3, 6 + rest, 2 * columns + rest, 2, 2, 3, columns};
      const size_t in = p.planes * p.height * p.width, out = p.planes * p.out_height * columns;
      float *x = numbers(in), *y = numbers(out), *dy = numbers(out), *dx = numbers(in), *want = calloc(in, sizeof *want);
      int32_t *index = malloc(out * sizeof *index);
      CHECK(want && index);
      for (size_t i = 0; i < in; i++) x[i] = (float)(int)(4 * x[i]); /* equal numbers are frequent */
      max_pool_forward(&p, x, y, index);
      max_pool_backward(&p, dy, index, dx);
      for (size_t o = 0; o < out; o++) {
        const size_t plane = o / (p.out_height * columns), row = o / columns % p.out_height, column = o % columns;
        const size_t first = 2 * row * p.width + 2 * column, places[4] = {first, first + 1, first + p.width, first + p.width + 1};
        const float *image = x + plane * p.height * p.width;
        size_t best = first;
        for (int i = 1; i < 4; i++)
          if (image[places[i]] > image[best]) best = places[i];
        CHECK(y[o] == image[best] && index[o] == (int32_t)best);
        want[plane * p.height * p.width + best] = dy[o];
      }
      CHECK(memcmp(dx, want, in * sizeof *dx) == 0);
      void *all[] = {x, y, dy, dx, want, index};
      for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
    }
}

static void loss_names_a_label_that_is_no_class(void) {
  float logits[6] = {0, 0, 0, 1, 2, 3}, gradient[6];
  int32_t labels[2] = {1, 2};
  double out[2];
  CHECK(softmax_cross_entropy(logits, labels, gradient, 2, 3, 1, out) == 0);
  CHECK(fabs(out[0] - (log(3) + log(exp(-2) + exp(-1) + 1))) < 1e-6 && out[1] == 1);
  CHECK(fabsf(gradient[0] - 1 / 3.0f) < 1e-6f && fabsf(gradient[1] + 2 / 3.0f) < 1e-6f);
  labels[1] = 3;
  CHECK(softmax_cross_entropy(logits, labels, NULL, 2, 3, 1, out) == 2);
}

static void dropout_depends_on_the_sample_and_not_on_its_place(void) {
  enum { COLUMNS = 4001 };
  dropout d = {2, COLUMNS, {1, 2}, 3, 4, 0.25};
  uint32_t samples[2] = {10, 11};
  float *x = malloc(2 * COLUMNS * sizeof *x), *y = malloc(2 * COLUMNS * sizeof *y), *z = malloc(COLUMNS * sizeof *z);
  CHECK(x && y && z);
  for (int i = 0; i < 2 * COLUMNS; i++) x[i] = 3;
  dropout_apply(&d, samples, x, y);
  d.rows = 1;
  dropout_apply(&d, samples + 1, x, z);
  CHECK(memcmp(y + COLUMNS, z, COLUMNS * sizeof *z) == 0);
  CHECK(memcmp(y, z, COLUMNS * sizeof *z) != 0);
  int dropped = 0;
  for (int i = 0; i < COLUMNS; i++) {
    CHECK(z[i] == 0 || z[i] == 4);
    dropped += z[i] == 0;
  }
  CHECK(dropped > 850 && dropped < 1150);
  free(x);
  free(y);
  free(z);
}

static void rows_of_bytes_are_gathered_and_scaled(void) {
  uint8_t bytes[6] = {0, 255, 10, 20, 30, 40};
  uint32_t rows[2] = {2, 0};
  float y[4];
  gather_bytes(rows, bytes, y, 2, 2, 0.5f, 1);
  CHECK(y[0] == 16 && y[1] == 21 && y[2] == 1 && y[3] == 128.5f);
}

static void updates_follow_their_formulas(void) {
  float p[3] = {1, -2, 3}, g[3] = {0.5f, 0.5f, -1}, v[3] = {0, 1, 0};
  sgd_update(&(sgd){.rate = 0.1f, .momentum = 0.9f}, p, g, v, 3);
  CHECK(fabsf(p[0] - 0.95f) < 1e-6f && fabsf(p[1] + 2.14f) < 1e-6f && fabsf(v[1] - 1.4f) < 1e-6f);
  float q[1] = {1}, first[1] = {0}, second[1] = {0}, one[1] = {4};
  adam_update(&(adam){0.1f, 0.9f, 0.999f, 1e-8f, 0, 0, 0.1f, 0.001f}, q, one, first, second, 1);
  CHECK(fabsf(q[0] - 0.9f) < 1e-5f); /* the first step is as long as the rate */
  float *x = numbers(1000);
  double sum = 0;
  for (int i = 0; i < 1000; i++) sum += (double)x[i] * x[i];
  CHECK(fabs(sum_of_squares(x, 1000) - sum) < 1e-9);
  free(x);
}

static void table_reaches_the_kernels_and_refuses_an_unknown_number(void) {
  float x[3] = {-1, 0, 2}, y[3];
  double call[16] = {KERNEL_RELU_FORWARD, (double)(uintptr_t)x, (double)(uintptr_t)y, 3};
  CHECK(kernel_call(call) == 0);
  CHECK(y[0] == 0 && y[1] == 0 && y[2] == 2);
  call[0] = KERNEL_COUNT;
  CHECK(kernel_call(call) == 1);
}

int main(void) {
  RUN(convolutions_follow_their_definition);
  RUN(pooling_takes_the_first_maximum_and_sends_the_gradient_there);
  RUN(pooling_in_blocks_equals_its_definition);
  RUN(loss_names_a_label_that_is_no_class);
  RUN(dropout_depends_on_the_sample_and_not_on_its_place);
  RUN(rows_of_bytes_are_gathered_and_scaled);
  RUN(updates_follow_their_formulas);
  RUN(table_reaches_the_kernels_and_refuses_an_unknown_number);
  return 0;
}
