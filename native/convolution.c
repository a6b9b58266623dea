/*
 * The direct form. A vector holds neighbours of one output row; the padded image gives, for each of the channels x kernel positions k, the
 * same neighbours shifted by offset[k]:
 *
 *   out[filter][row][column ..] = sum over k of weight[filter][k] * padded[row * stride_of_a_row + column .. + offset[k]]
 *
 * forward         tile of MR filters x 3 vectors, a loop over k: 3 loads, MR broadcasts, 3 MR multiply-adds; no packing of patches.
 * backward to x   the same tile: a convolution of the padded dy with the filters turned by 180 degrees.
 * backward to w   tile of some filters x 5 k, a loop over images and row vectors; dy is copied to rows padded with zeros, so that lanes past the
 *                 end of a row add nothing; lanes are summed once per group of images.
 */
#include "convolution.h"

#include <string.h>

#include "blas.h"
#include "simd.h"

enum { MAX_LANES = 16, GROUP = 8, VECTORS = 3 };

size_t convolution_out_height(const convolution *c) { return (c->height + 2 * c->padding - c->kernel_height) / c->stride + 1; }
size_t convolution_out_width(const convolution *c) { return (c->width + 2 * c->padding - c->kernel_width) / c->stride + 1; }

/* ---- tiles ---- */

/* sums: [MR][VECTORS][LANES]; weights: packed, MR numbers for each k */
typedef void (*forward_tile)(size_t k, const float *weights, const float *const *rows, const size_t *offset, float *sums);
/* sums: [filters][5], added to. dy rows are `dy_filter` apart for the next filter; one image after the other; row vectors by index. */
typedef struct weight_walk {
  size_t images, rows, segments; /* segments of LANES columns in a row */
  size_t x_image, x_row, dy_image, dy_row, dy_filter;
} weight_walk;
typedef void (*weight_tile)(const weight_walk *walk, const float *x, const size_t *offset, const float *dy, float *sums);

#define DEFINE_TILES(SUFFIX, ATTRIBUTES, LANES, MR, FILTERS)                                                                          \
  ATTRIBUTES static void forward_##SUFFIX(size_t k, const float *weights, const float *const *rows, const size_t *offset,   \
                                          float *sums) {                                                                    \
    typedef float vector __attribute__((vector_size((LANES) * 4)));                                                          \
    typedef float loose __attribute__((vector_size((LANES) * 4), aligned(4)));                                               \
    vector sum[MR][VECTORS] = {{{0}}};                                                                                       \
    const float *r0 = rows[0], *r1 = rows[1], *r2 = rows[2];                                                                 \
    for (size_t p = 0; p < k; p++, weights += (MR)) {                                                                        \
      size_t at = offset[p];                                                                                                 \
      vector v0 = *(const loose *)(r0 + at), v1 = *(const loose *)(r1 + at), v2 = *(const loose *)(r2 + at);                 \
      _Pragma("GCC unroll 16") for (int i = 0; i < (MR); i++) {                                                              \
        vector left = weights[i] - (vector){0};                                                                              \
        sum[i][0] += left * v0;                                                                                              \
        sum[i][1] += left * v1;                                                                                              \
        sum[i][2] += left * v2;                                                                                              \
      }                                                                                                                      \
    }                                                                                                                        \
    _Pragma("GCC unroll 16") for (int i = 0; i < (MR); i++)                                                                  \
        _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) ((loose *)sums)[i * VECTORS + v] = sum[i][v];             \
  }                                                                                                                          \
  ATTRIBUTES static void weights_##SUFFIX(const weight_walk *w, const float *x, const size_t *offset, const float *dy,      \
                                          float *sums) {                                                                    \
    typedef float vector __attribute__((vector_size((LANES) * 4)));                                                          \
    typedef float loose __attribute__((vector_size((LANES) * 4), aligned(4)));                                               \
    vector sum[FILTERS][5] = {{{0}}};                                                                                              \
    const size_t o0 = offset[0], o1 = offset[1], o2 = offset[2], o3 = offset[3], o4 = offset[4];                             \
    for (size_t image = 0; image < w->images; image++) {                                                                     \
      for (size_t row = 0; row < w->rows; row++) {                                                                           \
        const float *from = x + image * w->x_image + row * w->x_row;                                                         \
        const float *down = dy + image * w->dy_image + row * w->dy_row;                                                      \
        for (size_t s = 0; s < w->segments; s++, from += (LANES), down += (LANES)) {                                         \
          vector v0 = *(const loose *)(from + o0), v1 = *(const loose *)(from + o1), v2 = *(const loose *)(from + o2);       \
          vector v3 = *(const loose *)(from + o3), v4 = *(const loose *)(from + o4);                                         \
          _Pragma("GCC unroll 4") for (int i = 0; i < (FILTERS); i++) {                                                              \
            vector left = *(const loose *)(down + (size_t)i * w->dy_filter);                                                 \
            sum[i][0] += left * v0;                                                                                          \
            sum[i][1] += left * v1;                                                                                          \
            sum[i][2] += left * v2;                                                                                          \
            sum[i][3] += left * v3;                                                                                          \
            sum[i][4] += left * v4;                                                                                          \
          }                                                                                                                  \
        }                                                                                                                    \
      }                                                                                                                      \
    }                                                                                                                        \
    for (int i = 0; i < (FILTERS); i++)                                                                                      \
      for (int j = 0; j < 5; j++) {                                                                                          \
        float lane[LANES];                                                                                                   \
        *(loose *)lane = sum[i][j];                                                                                          \
        _Pragma("GCC unroll 16") for (int half = (LANES) / 2; half > 0; half /= 2)                                           \
            _Pragma("GCC unroll 16") for (int at = 0; at < half; at++) lane[at] += lane[at + half];                          \
        sums[i * 5 + j] += lane[0];                                                                                          \
      }                                                                                                                      \
  }

typedef struct tiles {
  size_t lanes, mr, filters; /* filters in a tile, forward and backward to the weights */
  forward_tile forward;
  weight_tile weights;
} tiles;

#if defined(__x86_64__)
DEFINE_TILES(4, , 4, 4, 2)
DEFINE_TILES(8, __attribute__((target("avx2,fma"))), 8, 4, 2)
DEFINE_TILES(16, __attribute__((target("avx512f"))), 16, 8, 4)
static const tiles all_tiles[] = {{16, 8, 4, forward_16, weights_16}, {8, 4, 2, forward_8, weights_8}, {4, 4, 2, forward_4, weights_4}};
#else
DEFINE_TILES(4, , 4, 8, 4)
static const tiles all_tiles[] = {{4, 8, 4, forward_4, weights_4}};
#endif

static const tiles *best(void) {
  const tiles *t = all_tiles;
  while (t->lanes > (size_t)blas_lanes()) t++;
  return t;
}

/* ---- the direct form ---- */

static size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* An image with a border of zeros; `slack` floats behind it may be read. */
typedef struct padded {
  size_t top, left, height, width; /* of the border and of the whole */
} padded;

static void pad(const float *image, size_t channels, size_t height, size_t width, padded p, float *to) {
  memset(to, 0, channels * p.height * p.width * sizeof *to);
  for (size_t c = 0; c < channels; c++)
    for (size_t y = 0; y < height; y++)
      memcpy(to + (c * p.height + p.top + y) * p.width + p.left, image + (c * height + y) * width, width * sizeof *to);
}

static void offsets(size_t channels, size_t kernel_height, size_t kernel_width, padded p, size_t *to) {
  for (size_t c = 0; c < channels; c++)
    for (size_t y = 0; y < kernel_height; y++)
      for (size_t x = 0; x < kernel_width; x++) *to++ = (c * p.height + y) * p.width + x;
}

/* One image: `weights` are packed in panels of mr filters. */
static void direct(const tiles *t, size_t k, size_t filters, const float *weights, const float *bias, const float *image, padded p,
                   const size_t *offset, size_t out_height, size_t out_width, float *y) {
  float sums[8 * VECTORS * MAX_LANES] __attribute__((aligned(64)));
  const size_t segments = (out_width + t->lanes - 1) / t->lanes, vectors = out_height * segments;
  for (size_t v = 0; v < vectors; v += VECTORS) {
    const float *rows[VECTORS];
    size_t to[VECTORS], wide[VECTORS], here = vectors - v < VECTORS ? vectors - v : VECTORS;
    for (size_t i = 0; i < VECTORS; i++) {
      size_t at = i < here ? v + i : v, row = at / segments, column = at % segments * t->lanes;
      rows[i] = image + row * p.width + column;
      to[i] = row * out_width + column;
      wide[i] = out_width - column < t->lanes ? out_width - column : t->lanes;
    }
    for (size_t f = 0; f < filters; f += t->mr) {
      t->forward(k, weights + f * k, rows, offset, sums);
      size_t high = filters - f < t->mr ? filters - f : t->mr;
      for (size_t i = 0; i < high; i++) {
        float add = bias ? bias[f + i] : 0;
        for (size_t j = 0; j < here; j++) {
          float *out = y + (f + i) * out_height * out_width + to[j];
          const float *sum = sums + (i * VECTORS + j) * t->lanes;
          for (size_t lane = 0; lane < wide[j]; lane++) out[lane] = sum[lane] + add;
        }
      }
    }
  }
}

/* Filters in panels of mr, [k][mr]; filter_step and k_step are the strides of the source, which is read backwards inside a channel when turned. */
static void pack_filters(const convolution *c, const float *weights, size_t mr, int turned, float *to) {
  const size_t area = c->kernel_height * c->kernel_width;
  const size_t outer = turned ? c->channels : c->filters, inner = turned ? c->filters : c->channels;
  memset(to, 0, up(outer, mr) * inner * area * sizeof *to);
  for (size_t f = 0; f < outer; f++)
    for (size_t i = 0; i < inner; i++)
      for (size_t a = 0; a < area; a++) {
        float w = turned ? weights[(i * c->channels + f) * area + area - 1 - a] : weights[(f * inner + i) * area + a];
        to[f / mr * mr * inner * area + (i * area + a) * mr + f % mr] = w;
      }
}

static padded border_of_input(const convolution *c) {
  return (padded){c->padding, c->padding, c->height + 2 * c->padding, c->width + 2 * c->padding};
}

/* A convolution of dy with the turned filters gives dx when dy has a border of kernel - 1 - padding. */
static padded border_of_gradient(const convolution *c) {
  size_t top = c->kernel_height - 1 - c->padding, left = c->kernel_width - 1 - c->padding;
  return (padded){top, left, convolution_out_height(c) + 2 * top, convolution_out_width(c) + 2 * left};
}

static int is_direct(const convolution *c) {
  return c->stride == 1 && c->padding < c->kernel_height && c->padding < c->kernel_width;
}

static size_t patch_floats(const convolution *c) {
  return c->channels * c->kernel_height * c->kernel_width * convolution_out_height(c) * convolution_out_width(c);
}

size_t convolution_scratch(const convolution *c) {
  if (!is_direct(c)) return patch_floats(c);
  padded in = border_of_input(c), out = border_of_gradient(c);
  size_t area = c->kernel_height * c->kernel_width, mr = 8, channels = up(c->channels, mr), filters = up(c->filters, mr);
  size_t weights = (channels * c->filters > filters * c->channels ? channels * c->filters : filters * c->channels) * area;
  size_t k = (c->channels > c->filters ? c->channels : c->filters) * area;
  size_t images = GROUP * c->channels * in.height * in.width, gradients = c->filters * out.height * out.width;
  size_t rows = GROUP * up(c->filters, 4) * convolution_out_height(c) * up(convolution_out_width(c), MAX_LANES);
  return weights + 2 * (k + 16) + (images > gradients ? images : gradients) + rows + 6 * MAX_LANES;
}

/* scratch: offsets, packed weights, image */
static size_t *take_offsets(float **scratch, size_t count) {
  size_t *out = (size_t *)up((size_t)*scratch, 64);
  *scratch = (float *)(out + up(count, 8));
  return out;
}

void convolution_forward(const convolution *c, const float *x, const float *weights, const float *bias, float *y, float *scratch) {
  const size_t k = c->channels * c->kernel_height * c->kernel_width;
  const size_t out_height = convolution_out_height(c), out_width = convolution_out_width(c), area = out_height * out_width;
  if (!is_direct(c)) {
    for (size_t b = 0; b < c->batch; b++, x += c->channels * c->height * c->width, y += c->filters * area) {
      convolution_patches(c, x, scratch);
      blas_sgemm(0, 0, c->filters, area, k, 1, weights, k, scratch, area, 0, y, area);
      for (size_t f = 0; bias && f < c->filters; f++)
        for (size_t i = 0; i < area; i++) y[f * area + i] += bias[f];
    }
    return;
  }
  const tiles *t = best();
  padded p = border_of_input(c);
  size_t *offset = take_offsets(&scratch, k);
  float *packed = scratch, *image = packed + up(c->filters, t->mr) * k;
  offsets(c->channels, c->kernel_height, c->kernel_width, p, offset);
  pack_filters(c, weights, t->mr, 0, packed);
  for (size_t b = 0; b < c->batch; b++) {
    pad(x + b * c->channels * c->height * c->width, c->channels, c->height, c->width, p, image);
    direct(t, k, c->filters, packed, bias, image, p, offset, out_height, out_width, y + b * c->filters * area);
  }
}

void convolution_backward_input(const convolution *c, const float *dy, const float *weights, float *dx, float *scratch) {
  const size_t out_height = convolution_out_height(c), out_width = convolution_out_width(c), area = out_height * out_width;
  const size_t pixels = c->height * c->width;
  if (!is_direct(c)) {
    const size_t k = c->channels * c->kernel_height * c->kernel_width;
    for (size_t b = 0; b < c->batch; b++) {
      blas_sgemm(1, 0, k, area, c->filters, 1, weights, k, dy + b * c->filters * area, area, 0, scratch, area);
      convolution_sum_patches(c, scratch, dx + b * c->channels * pixels);
    }
    return;
  }
  const tiles *t = best();
  const size_t k = c->filters * c->kernel_height * c->kernel_width;
  padded p = border_of_gradient(c);
  size_t *offset = take_offsets(&scratch, k);
  float *packed = scratch, *image = packed + up(c->channels, t->mr) * k;
  offsets(c->filters, c->kernel_height, c->kernel_width, p, offset);
  pack_filters(c, weights, t->mr, 1, packed);
  for (size_t b = 0; b < c->batch; b++) {
    pad(dy + b * c->filters * area, c->filters, out_height, out_width, p, image);
    direct(t, k, c->channels, packed, NULL, image, p, offset, c->height, c->width, dx + b * c->channels * pixels);
  }
}

WIDEST static void sum_planes(const float *dy, size_t batch, size_t filters, size_t area, float *db, int add) {
  for (size_t f = 0; f < filters; f++) {
    float lanes[16] = {0}, total = 0;
    for (size_t b = 0; b < batch; b++) {
      const float *plane = dy + (b * filters + f) * area;
      size_t i = 0;
      for (; i + 16 <= area; i += 16)
        for (int lane = 0; lane < 16; lane++) lanes[lane] += plane[i + (size_t)lane];
      for (; i < area; i++) total += plane[i];
    }
    for (int lane = 0; lane < 16; lane++) total += lanes[lane];
    db[f] = total + (add ? db[f] : 0);
  }
}

void convolution_backward_weights(const convolution *c, const float *x, const float *dy, float *dw, float *db, int add, float *scratch) {
  const size_t k = c->channels * c->kernel_height * c->kernel_width, pixels = c->channels * c->height * c->width;
  const size_t out_height = convolution_out_height(c), out_width = convolution_out_width(c), area = out_height * out_width;
  if (db) sum_planes(dy, c->batch, c->filters, area, db, add);
  if (!is_direct(c)) {
    for (size_t b = 0; b < c->batch; b++) {
      convolution_patches(c, x + b * pixels, scratch);
      blas_sgemm(0, 1, c->filters, k, area, 1, dy + b * c->filters * area, area, scratch, area, add || b > 0 ? 1 : 0, dw, k);
    }
    return;
  }
  const tiles *t = best();
  padded p = border_of_input(c);
  size_t *offset = take_offsets(&scratch, k + 4);
  const size_t filters = up(c->filters, 4), wide = up(out_width, t->lanes);
  float *images = scratch, *rows = images + up(GROUP * c->channels * p.height * p.width + MAX_LANES, MAX_LANES);
  offsets(c->channels, c->kernel_height, c->kernel_width, p, offset);
  for (size_t i = k; i < k + 4; i++) offset[i] = 0;
  weight_walk walk = {.rows = out_height,
                      .segments = wide / t->lanes,
                      .x_image = c->channels * p.height * p.width,
                      .x_row = p.width,
                      .dy_image = filters * out_height * wide,
                      .dy_row = wide,
                      .dy_filter = out_height * wide};
  if (!add) memset(dw, 0, c->filters * k * sizeof *dw);
  memset(images + GROUP * walk.x_image, 0, MAX_LANES * sizeof *images);
  memset(rows, 0, GROUP * walk.dy_image * sizeof *rows);
  for (size_t b0 = 0; b0 < c->batch; b0 += GROUP) {
    walk.images = c->batch - b0 < GROUP ? c->batch - b0 : GROUP;
    for (size_t b = 0; b < walk.images; b++) {
      pad(x + (b0 + b) * pixels, c->channels, c->height, c->width, p, images + b * walk.x_image);
      for (size_t r = 0; r < c->filters * out_height; r++)
        memcpy(rows + b * walk.dy_image + r * wide, dy + (b0 + b) * c->filters * area + r * out_width, out_width * sizeof *rows);
    }
    for (size_t f = 0; f < c->filters; f += t->filters) {
      for (size_t j = 0; j < k; j += 5) {
        float sums[20] = {0};
        t->weights(&walk, images, offset + j, rows + f * walk.dy_filter, sums);
        for (size_t i = 0; i < t->filters && f + i < c->filters; i++)
          for (size_t at = 0; at < 5 && j + at < k; at++) dw[(f + i) * k + j + at] += sums[i * 5 + at];
      }
    }
  }
}

/* ---- patches ---- */

void convolution_patches(const convolution *c, const float *image, float *patches) {
  const size_t out_height = convolution_out_height(c), out_width = convolution_out_width(c);
  for (size_t channel = 0; channel < c->channels; channel++)
    for (size_t ky = 0; ky < c->kernel_height; ky++)
      for (size_t kx = 0; kx < c->kernel_width; kx++)
        for (size_t oy = 0; oy < out_height; oy++)
          for (size_t ox = 0; ox < out_width; ox++) {
            size_t y = oy * c->stride + ky - c->padding, x = ox * c->stride + kx - c->padding; /* below 0 wraps to above every size */
            *patches++ = y < c->height && x < c->width ? image[(channel * c->height + y) * c->width + x] : 0;
          }
}

void convolution_sum_patches(const convolution *c, const float *patches, float *image) {
  const size_t out_height = convolution_out_height(c), out_width = convolution_out_width(c);
  memset(image, 0, c->channels * c->height * c->width * sizeof *image);
  for (size_t channel = 0; channel < c->channels; channel++)
    for (size_t ky = 0; ky < c->kernel_height; ky++)
      for (size_t kx = 0; kx < c->kernel_width; kx++)
        for (size_t oy = 0; oy < out_height; oy++)
          for (size_t ox = 0; ox < out_width; ox++, patches++) {
            size_t y = oy * c->stride + ky - c->padding, x = ox * c->stride + kx - c->padding;
            if (y < c->height && x < c->width) image[(channel * c->height + y) * c->width + x] += *patches;
          }
}
