/*
 * The direct form. A vector holds neighbours of one output row; the padded image gives, for each of the channels x kernel positions k, the
 * same neighbours shifted by offset[k]:
 *
 *   out[filter][row][column ..] = sum over k of weight[filter][k] * padded[row * stride_of_a_row + column .. + offset[k]]
 *
 * forward         tile of MR filters x 3 vectors (or what is left), a loop over k: 3 loads, MR broadcasts, 3 MR multiply-adds; no packing of patches.
 * backward to x   the same tile: a convolution of the padded dy with the filters turned by 180 degrees.
 * backward to w   here a vector holds neighbouring filters, so dy is turned to [position][filter] first; a tile of 5 k x some vectors, or 9 k x 1, a
 *                 loop over the positions of an image: each adds x (one number for all lanes) times a vector of dy.
 */
#include "convolution.h"

#include <string.h>

#include "blas.h"
#include "simd.h"

enum { MAX_LANES = 16, MAX_MR = 8, VECTORS = 3, WIDE_K = 5, NARROW_K = 9, MAX_TILE_FILTERS = 32 };

size_t convolution_out_height(const convolution *c) { return (c->height + 2 * c->padding - c->kernel_height) / c->stride + 1; }
size_t convolution_out_width(const convolution *c) { return (c->width + 2 * c->padding - c->kernel_width) / c->stride + 1; }

/* ---- tiles ---- */

/* Row i of vector v goes to out[v] + i * plane. weights: packed, MR numbers for each k; bias: MR numbers, what the sums start with. */
typedef void (*forward_tile)(size_t k, const float *weights, const float *bias, const float *const *rows, const size_t *offset,
                             float *const *out, size_t plane);
/* sums: a row of the tile's filters for each of its k, each row `step` numbers behind the last; added to. dy: [rows][columns], `step` numbers each. */
typedef void (*weight_tile)(size_t rows, size_t columns, size_t x_row, const float *x, const size_t *offset, const float *dy, size_t step,
                            float *sums);

#define DEFINE_FORWARD(SUFFIX, ATTRIBUTES, LANES, MR, WIDE)                                                                  \
  ATTRIBUTES static void forward_##SUFFIX(size_t k, const float *weights, const float *bias, const float *const *rows,      \
                                          const size_t *offset, float *const *out, size_t plane) {                          \
    typedef float vector __attribute__((vector_size((LANES) * 4)));                                                          \
    typedef float loose __attribute__((vector_size((LANES) * 4), aligned(4)));                                               \
    vector sum[MR][WIDE];                                                                                                    \
    const float *from[WIDE];                                                                                                 \
    _Pragma("GCC unroll 3") for (int v = 0; v < (WIDE); v++) from[v] = rows[v];                                              \
    _Pragma("GCC unroll 8") for (int i = 0; i < (MR); i++)                                                                   \
        _Pragma("GCC unroll 3") for (int v = 0; v < (WIDE); v++) sum[i][v] = bias[i] - (vector){0};                          \
    for (size_t p = 0; p < k; p++, weights += (MR)) {                                                                        \
      vector right[WIDE];                                                                                                    \
      _Pragma("GCC unroll 3") for (int v = 0; v < (WIDE); v++) right[v] = *(const loose *)(from[v] + offset[p]);             \
      _Pragma("GCC unroll 8") for (int i = 0; i < (MR); i++)                                                                 \
          _Pragma("GCC unroll 3") for (int v = 0; v < (WIDE); v++) sum[i][v] += (weights[i] - (vector){0}) * right[v];       \
    }                                                                                                                        \
    _Pragma("GCC unroll 8") for (int i = 0; i < (MR); i++)                                                                   \
        _Pragma("GCC unroll 3") for (int v = 0; v < (WIDE); v++) *(loose *)(out[v] + (size_t)i * plane) = sum[i][v];         \
  }

#define DEFINE_WEIGHTS(SUFFIX, ATTRIBUTES, LANES, TILE_K, WEIGHT_VECTORS)                                                    \
  ATTRIBUTES static void weights_##SUFFIX(size_t rows, size_t columns, size_t x_row, const float *x, const size_t *offset,   \
                                          const float *dy, size_t step, float *sums) {                                       \
    typedef float vector __attribute__((vector_size((LANES) * 4)));                                                          \
    typedef float loose __attribute__((vector_size((LANES) * 4), aligned(4)));                                               \
    vector sum[TILE_K][WEIGHT_VECTORS] = {{{0}}};                                                                            \
    const float *from[TILE_K];                                                                                               \
    _Pragma("GCC unroll 9") for (int k = 0; k < (TILE_K); k++) from[k] = x + offset[k];                                      \
    for (size_t row = 0; row < rows; row++) {                                                                                \
      for (size_t at = row * x_row, end = at + columns; at < end; at++, dy += step) {                                        \
        _Pragma("GCC unroll 4") for (int v = 0; v < (WEIGHT_VECTORS); v++) {                                                 \
          vector right = ((const loose *)dy)[v];                                                                             \
          _Pragma("GCC unroll 9") for (int k = 0; k < (TILE_K); k++) sum[k][v] += (from[k][at] - (vector){0}) * right;       \
        }                                                                                                                    \
      }                                                                                                                      \
    }                                                                                                                        \
    _Pragma("GCC unroll 9") for (int k = 0; k < (TILE_K); k++)                                                               \
        _Pragma("GCC unroll 4") for (int v = 0; v < (WEIGHT_VECTORS); v++) ((loose *)(sums + (size_t)k * step))[v] += sum[k][v];\
  }

typedef struct tiles {
  size_t lanes, mr; /* mr: filters in a tile forward */
  size_t wide;      /* vectors of filters in a wide tile backward to the weights; a narrow one has one */
  forward_tile forward[VECTORS]; /* by vectors, from 1 */
  weight_tile weights_wide, weights_narrow;
} tiles;

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f")))
DEFINE_FORWARD(4x3, , 4, 4, 3)
DEFINE_FORWARD(4x2, , 4, 4, 2)
DEFINE_FORWARD(4x1, , 4, 4, 1)
DEFINE_WEIGHTS(4x2, , 4, WIDE_K, 2)
DEFINE_WEIGHTS(4x1, , 4, NARROW_K, 1)
DEFINE_FORWARD(8x3, AVX2, 8, 4, 3)
DEFINE_FORWARD(8x2, AVX2, 8, 4, 2)
DEFINE_FORWARD(8x1, AVX2, 8, 4, 1)
DEFINE_WEIGHTS(8x2, AVX2, 8, WIDE_K, 2)
DEFINE_WEIGHTS(8x1, AVX2, 8, NARROW_K, 1)
DEFINE_FORWARD(16x3, AVX512, 16, 8, 3)
DEFINE_FORWARD(16x2, AVX512, 16, 8, 2)
DEFINE_FORWARD(16x1, AVX512, 16, 8, 1)
DEFINE_WEIGHTS(16x2, AVX512, 16, WIDE_K, 2)
DEFINE_WEIGHTS(16x1, AVX512, 16, NARROW_K, 1)
static const tiles all_tiles[] = {{16, 8, 2, {forward_16x1, forward_16x2, forward_16x3}, weights_16x2, weights_16x1},
                                  {8, 4, 2, {forward_8x1, forward_8x2, forward_8x3}, weights_8x2, weights_8x1},
                                  {4, 4, 2, {forward_4x1, forward_4x2, forward_4x3}, weights_4x2, weights_4x1}};
#else
DEFINE_FORWARD(4x3, , 4, 8, 3)
DEFINE_FORWARD(4x2, , 4, 8, 2)
DEFINE_FORWARD(4x1, , 4, 8, 1)
DEFINE_WEIGHTS(4x4, , 4, WIDE_K, 4)
DEFINE_WEIGHTS(4x1, , 4, NARROW_K, 1)
static const tiles all_tiles[] = {{4, 8, 4, {forward_4x1, forward_4x2, forward_4x3}, weights_4x4, weights_4x1}};
#endif

static const tiles *best(void) {
  const tiles *t = all_tiles;
  while (t->lanes > (size_t)blas_lanes()) t++;
  return t;
}

/* ---- the direct form ---- */

static size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* An image with a border of zeros; some floats behind it may be read. */
typedef struct padded {
  size_t top, left, height, width; /* of the border and of the whole */
} padded;

/* Into memory whose border is zero already. */
static void pad(const float *image, size_t channels, size_t height, size_t width, padded p, float *to) {
  for (size_t c = 0; c < channels; c++)
    for (size_t y = 0; y < height; y++)
      memcpy(to + (c * p.height + p.top + y) * p.width + p.left, image + (c * height + y) * width, width * sizeof *to);
}

static void offsets(size_t channels, size_t kernel_height, size_t kernel_width, padded p, size_t *to) {
  for (size_t c = 0; c < channels; c++)
    for (size_t y = 0; y < kernel_height; y++)
      for (size_t x = 0; x < kernel_width; x++) *to++ = (c * p.height + y) * p.width + x;
}

/*
 * One image: `weights` are packed in panels of mr filters, `bias` is padded to as many. A whole tile goes straight to y: a vector that is wider than its row
 * writes into the next one, which comes later. At the end of a plane, and where filters end, tiles take a detour.
 */
static void direct(const tiles *t, size_t k, size_t filters, const float *weights, const float *bias, const float *image, padded p,
                   const size_t *offset, size_t out_height, size_t out_width, float *y) {
  float sums[MAX_MR * VECTORS * MAX_LANES] __attribute__((aligned(64)));
  const size_t segments = (out_width + t->lanes - 1) / t->lanes, vectors = out_height * segments, area = out_height * out_width;
  for (size_t v = 0; v < vectors; v += VECTORS) {
    const float *rows[VECTORS];
    size_t to[VECTORS], wide[VECTORS], here = vectors - v < VECTORS ? vectors - v : VECTORS;
    for (size_t i = 0; i < here; i++) {
      size_t at = v + i, row = at / segments, column = at % segments * t->lanes;
      rows[i] = image + row * p.width + column;
      to[i] = row * out_width + column;
      wide[i] = out_width - column < t->lanes ? out_width - column : t->lanes;
    }
    for (size_t f = 0; f < filters; f += t->mr) {
      const size_t high = filters - f < t->mr ? filters - f : t->mr;
      const int is_whole = high == t->mr && to[here - 1] + t->lanes <= area;
      float *out[VECTORS];
      for (size_t j = 0; j < here; j++) out[j] = is_whole ? y + f * area + to[j] : sums + j * t->lanes;
      t->forward[here - 1](k, weights + f * k, bias + f, rows, offset, out, is_whole ? area : VECTORS * t->lanes);
      for (size_t i = 0; i < high && !is_whole; i++)
        for (size_t j = 0; j < here; j++)
          memcpy(y + (f + i) * area + to[j], sums + (i * VECTORS + j) * t->lanes, wide[j] * sizeof *sums);
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
  size_t area = c->kernel_height * c->kernel_width, filters = up(c->filters, MAX_TILE_FILTERS);
  size_t forward = up(c->filters, MAX_MR) * (c->channels * area + 1) + c->channels * in.height * in.width;
  size_t to_input = up(c->channels, MAX_MR) * (c->filters * area + 1) + c->filters * out.height * out.width;
  size_t to_weights = filters * (c->channels * area + NARROW_K + convolution_out_height(c) * convolution_out_width(c)) +
                      c->channels * in.height * in.width;
  size_t most = forward > to_input ? forward : to_input;
  size_t k = (c->channels > c->filters ? c->channels : c->filters) * area;
  return 2 * (k + 16) + (most > to_weights ? most : to_weights) + 8 * MAX_LANES;
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
  const size_t panels = up(c->filters, t->mr);
  float *packed = scratch, *start = packed + panels * k, *image = start + panels;
  offsets(c->channels, c->kernel_height, c->kernel_width, p, offset);
  pack_filters(c, weights, t->mr, 0, packed);
  for (size_t f = 0; f < panels; f++) start[f] = bias && f < c->filters ? bias[f] : 0;
  memset(image, 0, c->channels * p.height * p.width * sizeof *image);
  for (size_t b = 0; b < c->batch; b++) {
    pad(x + b * c->channels * c->height * c->width, c->channels, c->height, c->width, p, image);
    direct(t, k, c->filters, packed, start, image, p, offset, out_height, out_width, y + b * c->filters * area);
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
  const size_t panels = up(c->channels, t->mr);
  float *packed = scratch, *start = packed + panels * k, *image = start + panels;
  offsets(c->filters, c->kernel_height, c->kernel_width, p, offset);
  pack_filters(c, weights, t->mr, 1, packed);
  memset(start, 0, panels * sizeof *start);
  memset(image, 0, c->filters * p.height * p.width * sizeof *image);
  for (size_t b = 0; b < c->batch; b++) {
    pad(dy + b * c->filters * area, c->filters, out_height, out_width, p, image);
    direct(t, k, c->channels, packed, start, image, p, offset, c->height, c->width, dx + b * c->channels * pixels);
  }
}

/* to[column][row] = from[row][column]; a row of `to` has `step` numbers. In blocks of 4 x 4 that stay in registers. */
static void turn(const float *from, size_t rows, size_t columns, float *to, size_t step) {
  typedef float four __attribute__((vector_size(16), aligned(4)));
  size_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    size_t column = 0;
    for (; column + 4 <= columns; column += 4) {
      const float *block = from + row * columns + column;
      const four a = *(const four *)block, b = *(const four *)(block + columns);
      const four c = *(const four *)(block + 2 * columns), d = *(const four *)(block + 3 * columns);
      const four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
      const four AB = __builtin_shufflevector(a, b, 2, 6, 3, 7), CD = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      float *out = to + column * step + row;
      *(four *)out = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
      *(four *)(out + step) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
      *(four *)(out + 2 * step) = __builtin_shufflevector(AB, CD, 0, 1, 4, 5);
      *(four *)(out + 3 * step) = __builtin_shufflevector(AB, CD, 2, 3, 6, 7);
    }
    for (; column < columns; column++)
      for (size_t i = 0; i < 4; i++) to[column * step + row + i] = from[(row + i) * columns + column];
  }
  for (; row < rows; row++)
    for (size_t column = 0; column < columns; column++) to[column * step + row] = from[row * columns + column];
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
  const padded p = border_of_input(c);
  const int is_narrow = c->filters <= t->lanes;
  const size_t at_once = is_narrow ? t->lanes : t->wide * t->lanes, filters = up(c->filters, at_once);
  const size_t tile_k = is_narrow ? NARROW_K : WIDE_K, tiled_k = up(k, tile_k);
  const weight_tile tile = is_narrow ? t->weights_narrow : t->weights_wide;
  size_t *offset = take_offsets(&scratch, tiled_k);
  float *sums = scratch, *turned = sums + tiled_k * filters, *image = turned + area * filters;
  offsets(c->channels, c->kernel_height, c->kernel_width, p, offset);
  for (size_t i = k; i < tiled_k; i++) offset[i] = 0;
  memset(sums, 0, tiled_k * filters * sizeof *sums);
  memset(turned, 0, area * filters * sizeof *turned);
  memset(image, 0, c->channels * p.height * p.width * sizeof *image);
  for (size_t b = 0; b < c->batch; b++) {
    pad(x + b * pixels, c->channels, c->height, c->width, p, image);
    turn(dy + b * c->filters * area, c->filters, area, turned, filters);
    for (size_t f = 0; f < filters; f += at_once)
      for (size_t j = 0; j < tiled_k; j += tile_k)
        tile(out_height, out_width, p.width, image, offset + j, turned + f, filters, sums + j * filters + f);
  }
  for (size_t f = 0; f < c->filters; f++)
    for (size_t j = 0; j < k; j++) dw[f * k + j] = sums[j * filters + f] + (add ? dw[f * k + j] : 0);
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
