#include "kernels.h"

#include <math.h>
#include <string.h>

#include "simd.h"

enum { LANES = 16 };

/* ---- activations ---- */

WIDEST void relu_forward(const float *x, float *y, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] : 0;
}

WIDEST void relu_backward(const float *y, const float *dy, float *dx, size_t n) {
  for (size_t i = 0; i < n; i++) dx[i] = y[i] > 0 ? dy[i] : 0;
}

void gelu_forward(const float *x, float *y, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));
}

void gelu_backward(const float *x, const float *dy, float *dx, size_t n) {
  for (size_t i = 0; i < n; i++) {
    float below = 0.5f * (1 + erff(x[i] * 0.70710678f)), density = 0.39894228f * expf(-0.5f * x[i] * x[i]);
    dx[i] = dy[i] * (below + x[i] * density);
  }
}

/* ---- bias ---- */

WIDEST void bias_forward(float *y, const float *bias, size_t rows, size_t columns) {
  for (size_t r = 0; r < rows; r++, y += columns)
    for (size_t i = 0; i < columns; i++) y[i] += bias[i];
}

WIDEST void bias_backward(const float *dy, float *gradient, size_t rows, size_t columns, int add) {
  if (!add) memset(gradient, 0, columns * sizeof *gradient);
  for (size_t r = 0; r < rows; r++, dy += columns)
    for (size_t i = 0; i < columns; i++) gradient[i] += dy[i];
}

/* ---- pooling ---- */

/*
 * The usual window, 2 x 2 with stride 2, in blocks of N windows beside each other and without branches: what is compared is as good as random. The last block
 * of a row may repeat some of the one before it.
 *
 *   upper line  a b a b a b ..      EVEN and ODD take a and b out of two vectors, LOW and HIGH put them back in
 *   lower line  c d c d c d ..      `at` is the place of the block's first a in its plane
 */
#define DEFINE_WINDOWS(N, EVEN, ODD, LOW, HIGH, COUNT)                                                                       \
  typedef float floats_##N __attribute__((vector_size((N) * 4), aligned(4)));                                               \
  typedef int32_t places_##N __attribute__((vector_size((N) * 4), aligned(4)));                                             \
  static inline __attribute__((always_inline)) void max_##N(const float *x, int32_t width, int32_t at, float *y,            \
                                                            int32_t *index) {                                               \
    const floats_##N *upper = (const floats_##N *)x, *lower = (const floats_##N *)(x + width);                              \
    const floats_##N a = __builtin_shufflevector(upper[0], upper[1], EVEN), b = __builtin_shufflevector(upper[0], upper[1], ODD);\
    const floats_##N c = __builtin_shufflevector(lower[0], lower[1], EVEN), d = __builtin_shufflevector(lower[0], lower[1], ODD);\
    const places_##N over_a = b > a, over_c = d > c;                                                                        \
    const places_##N high = (over_a & (places_##N)b) | (~over_a & (places_##N)a);                                           \
    const places_##N low = (over_c & (places_##N)d) | (~over_c & (places_##N)c);                                            \
    const places_##N below = (floats_##N)low > (floats_##N)high;                                                            \
    *(floats_##N *)y = (floats_##N)((below & low) | (~below & high));                                                       \
    *(places_##N *)index = (places_##N){COUNT} * 2 + at + ((below & (width - over_c)) | (~below & -over_a));                \
  }                                                                                                                         \
  static inline __attribute__((always_inline)) void spread_##N(const float *dy, const int32_t *index, int32_t width,        \
                                                               int32_t at, float *dx) {                                     \
    const places_##N place = *(const places_##N *)index - (places_##N){COUNT} * 2 - at, value = *(const places_##N *)dy;    \
    const places_##N a = value & (place == 0), b = value & (place == 1);                                                    \
    const places_##N c = value & (place == width), d = value & (place == width + 1);                                        \
    places_##N *upper = (places_##N *)dx, *lower = (places_##N *)(dx + width);                                              \
    upper[0] = __builtin_shufflevector(a, b, LOW);                                                                          \
    upper[1] = __builtin_shufflevector(a, b, HIGH);                                                                         \
    lower[0] = __builtin_shufflevector(c, d, LOW);                                                                          \
    lower[1] = __builtin_shufflevector(c, d, HIGH);                                                                         \
  }

#define LIST(...) __VA_ARGS__
DEFINE_WINDOWS(8, LIST(0, 2, 4, 6, 8, 10, 12, 14), LIST(1, 3, 5, 7, 9, 11, 13, 15), LIST(0, 8, 1, 9, 2, 10, 3, 11),
               LIST(4, 12, 5, 13, 6, 14, 7, 15), LIST(0, 1, 2, 3, 4, 5, 6, 7))
DEFINE_WINDOWS(4, LIST(0, 2, 4, 6), LIST(1, 3, 5, 7), LIST(0, 4, 1, 5), LIST(2, 6, 3, 7), LIST(0, 1, 2, 3))

/* Rows of at least 4 windows. */
WIDEST static void max_pool_2x2(const pooling *p, const float *x, float *y, int32_t *index) {
  const size_t columns = p->out_width, block = columns < 8 ? 4 : 8;
  for (size_t plane = 0; plane < p->planes; plane++, x += p->height * p->width)
    for (size_t oy = 0; oy < p->out_height; oy++, y += columns, index += columns)
      for (size_t done = 0; done < columns; done += block) {
        const size_t ox = done + block <= columns ? done : columns - block, at = oy * 2 * p->width + 2 * ox;
        if (block == 8) max_8(x + at, (int32_t)p->width, (int32_t)at, y + ox, index + ox);
        else max_4(x + at, (int32_t)p->width, (int32_t)at, y + ox, index + ox);
      }
}

/* The same, where windows cover the whole plane. */
WIDEST static void max_pool_spread_2x2(const pooling *p, const float *dy, const int32_t *index, float *dx) {
  const size_t columns = p->out_width, block = columns < 8 ? 4 : 8;
  for (size_t plane = 0; plane < p->planes; plane++, dx += p->height * p->width)
    for (size_t oy = 0; oy < p->out_height; oy++, dy += columns, index += columns)
      for (size_t done = 0; done < columns; done += block) {
        const size_t ox = done + block <= columns ? done : columns - block, at = oy * 2 * p->width + 2 * ox;
        if (block == 8) spread_8(dy + ox, index + ox, (int32_t)p->width, (int32_t)at, dx + at);
        else spread_4(dy + ox, index + ox, (int32_t)p->width, (int32_t)at, dx + at);
      }
}

static int in_blocks(const pooling *p) { return p->window == 2 && p->stride == 2 && p->out_width >= 4; }

void max_pool_forward(const pooling *p, const float *x, float *y, int32_t *index) {
  if (in_blocks(p)) {
    max_pool_2x2(p, x, y, index);
    return;
  }
  for (size_t plane = 0; plane < p->planes; plane++, x += p->height * p->width)
    for (size_t oy = 0; oy < p->out_height; oy++)
      for (size_t ox = 0; ox < p->out_width; ox++) {
        size_t best = oy * p->stride * p->width + ox * p->stride;
        for (size_t wy = 0; wy < p->window; wy++)
          for (size_t wx = 0; wx < p->window; wx++) {
            size_t at = (oy * p->stride + wy) * p->width + ox * p->stride + wx;
            if (x[at] > x[best]) best = at;
          }
        *y++ = x[best];
        *index++ = (int32_t)best;
      }
}

void max_pool_backward(const pooling *p, const float *dy, const int32_t *index, float *dx) {
  const size_t in = p->height * p->width, out = p->out_height * p->out_width;
  if (in_blocks(p) && 4 * out == in) {
    max_pool_spread_2x2(p, dy, index, dx);
    return;
  }
  memset(dx, 0, p->planes * in * sizeof *dx);
  for (size_t plane = 0; plane < p->planes; plane++, dx += in, dy += out, index += out)
    for (size_t i = 0; i < out; i++) dx[index[i]] += dy[i];
}

void average_pool_forward(const pooling *p, const float *x, float *y) {
  const float share = 1 / (float)(p->window * p->window);
  for (size_t plane = 0; plane < p->planes; plane++, x += p->height * p->width)
    for (size_t oy = 0; oy < p->out_height; oy++)
      for (size_t ox = 0; ox < p->out_width; ox++) {
        float sum = 0;
        for (size_t wy = 0; wy < p->window; wy++)
          for (size_t wx = 0; wx < p->window; wx++) sum += x[(oy * p->stride + wy) * p->width + ox * p->stride + wx];
        *y++ = sum * share;
      }
}

void average_pool_backward(const pooling *p, const float *dy, float *dx) {
  const float share = 1 / (float)(p->window * p->window);
  memset(dx, 0, p->planes * p->height * p->width * sizeof *dx);
  for (size_t plane = 0; plane < p->planes; plane++, dx += p->height * p->width)
    for (size_t oy = 0; oy < p->out_height; oy++)
      for (size_t ox = 0; ox < p->out_width; ox++, dy++)
        for (size_t wy = 0; wy < p->window; wy++)
          for (size_t wx = 0; wx < p->window; wx++) dx[(oy * p->stride + wy) * p->width + ox * p->stride + wx] += *dy * share;
}

/* ---- normalisation ---- */

WIDEST void layer_norm_forward(const float *x, const float *gain, const float *shift, float *y, float *statistics, size_t rows,
                               size_t columns, float epsilon) {
  for (size_t r = 0; r < rows; r++, x += columns, y += columns, statistics += 2) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < columns; i++) sum += x[i];
    const double mean = sum / (double)columns;
    for (size_t i = 0; i < columns; i++) squares += (x[i] - mean) * (x[i] - mean);
    const float middle = (float)mean, inverse = (float)(1 / sqrt(squares / (double)columns + epsilon));
    for (size_t i = 0; i < columns; i++) y[i] = (x[i] - middle) * inverse * gain[i] + shift[i];
    statistics[0] = middle;
    statistics[1] = inverse;
  }
}

WIDEST void layer_norm_backward(const float *dy, const float *x, const float *gain, const float *statistics, float *dx, float *dgain,
                                float *dshift, size_t rows, size_t columns, int add) {
  if (!add) {
    memset(dgain, 0, columns * sizeof *dgain);
    memset(dshift, 0, columns * sizeof *dshift);
  }
  for (size_t r = 0; r < rows; r++, dy += columns, x += columns, dx += columns, statistics += 2) {
    const float mean = statistics[0], inverse = statistics[1];
    double sum = 0, along = 0;
    for (size_t i = 0; i < columns; i++) {
      const float normal = (x[i] - mean) * inverse, g = dy[i] * gain[i];
      dgain[i] += dy[i] * normal;
      dshift[i] += dy[i];
      sum += g;
      along += (double)g * normal;
    }
    const float average = (float)(sum / (double)columns), slope = (float)(along / (double)columns);
    for (size_t i = 0; i < columns; i++) dx[i] = inverse * (dy[i] * gain[i] - average - (x[i] - mean) * inverse * slope);
  }
}

WIDEST void batch_norm_sums(const float *x, size_t batch, size_t channels, size_t plane, double *sums) {
  memset(sums, 0, 2 * channels * sizeof *sums);
  for (size_t b = 0; b < batch; b++)
    for (size_t c = 0; c < channels; c++, x += plane) {
      double sum = 0, squares = 0;
      for (size_t i = 0; i < plane; i++) {
        sum += x[i];
        squares += (double)x[i] * x[i];
      }
      sums[2 * c] += sum;
      sums[2 * c + 1] += squares;
    }
}

WIDEST void batch_norm_forward(const float *x, const float *mean, const float *inverse, const float *gain, const float *shift, float *y,
                               size_t batch, size_t channels, size_t plane) {
  for (size_t b = 0; b < batch; b++)
    for (size_t c = 0; c < channels; c++, x += plane, y += plane) {
      const float middle = mean[c], factor = inverse[c] * gain[c], base = shift[c];
      for (size_t i = 0; i < plane; i++) y[i] = (x[i] - middle) * factor + base;
    }
}

WIDEST void batch_norm_backward_sums(const float *dy, const float *x, const float *mean, const float *inverse, size_t batch,
                                     size_t channels, size_t plane, double *sums) {
  memset(sums, 0, 2 * channels * sizeof *sums);
  for (size_t b = 0; b < batch; b++)
    for (size_t c = 0; c < channels; c++, x += plane, dy += plane) {
      double sum = 0, along = 0;
      for (size_t i = 0; i < plane; i++) {
        sum += dy[i];
        along += (double)dy[i] * ((x[i] - mean[c]) * inverse[c]);
      }
      sums[2 * c] += sum;
      sums[2 * c + 1] += along;
    }
}

WIDEST void batch_norm_backward(const float *dy, const float *x, const float *mean, const float *inverse, const float *gain,
                                const double *sums, double count, float *dx, size_t batch, size_t channels, size_t plane) {
  for (size_t b = 0; b < batch; b++)
    for (size_t c = 0; c < channels; c++, x += plane, dy += plane, dx += plane) {
      const float average = (float)(sums[2 * c] / count), slope = (float)(sums[2 * c + 1] / count);
      const float middle = mean[c], spread = inverse[c], factor = gain[c] * spread;
      for (size_t i = 0; i < plane; i++) dx[i] = factor * (dy[i] - average - (x[i] - middle) * spread * slope);
    }
}

/* ---- loss ---- */

size_t softmax_cross_entropy(const float *logits, const int32_t *labels, float *gradient, size_t rows, size_t classes, float scale,
                             double out[2]) {
  double loss = 0, correct = 0;
  for (size_t r = 0; r < rows; r++, logits += classes) {
    if (labels[r] < 0 || (size_t)labels[r] >= classes) return r + 1;
    const size_t label = (size_t)labels[r];
    size_t best = 0;
    for (size_t i = 1; i < classes; i++)
      if (logits[i] > logits[best]) best = i;
    const float top = logits[best];
    double sum = 0;
    for (size_t i = 0; i < classes; i++) {
      const float e = expf(logits[i] - top);
      if (gradient) gradient[i] = e;
      sum += e;
    }
    loss += log(sum) - (logits[label] - top);
    correct += best == label;
    if (!gradient) continue;
    const float factor = (float)(scale / sum);
    for (size_t i = 0; i < classes; i++) gradient[i] *= factor;
    gradient[label] -= scale;
    gradient += classes;
  }
  out[0] = loss;
  out[1] = correct;
  return 0;
}

/* ---- embedding ---- */

size_t embedding_forward(const int32_t *ids, const float *table, float *y, size_t count, size_t columns, size_t vocabulary) {
  for (size_t i = 0; i < count; i++) {
    if (ids[i] < 0 || (size_t)ids[i] >= vocabulary) return i + 1;
    memcpy(y + i * columns, table + (size_t)ids[i] * columns, columns * sizeof *y);
  }
  return 0;
}

void embedding_backward(const int32_t *ids, const float *dy, float *gradient, size_t count, size_t columns, size_t vocabulary, int add) {
  if (!add) memset(gradient, 0, vocabulary * columns * sizeof *gradient);
  for (size_t i = 0; i < count; i++) {
    float *row = gradient + (size_t)ids[i] * columns;
    for (size_t j = 0; j < columns; j++) row[j] += dy[i * columns + j];
  }
}

/* ---- dropout ---- */

/* Philox4x32-10 (Salmon et al., 2011) */
static void philox(const uint32_t key[2], uint32_t c[4]) {
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    const uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
    const uint32_t c1 = c[1], c3 = c[3];
    c[0] = (uint32_t)(b >> 32) ^ c1 ^ k0;
    c[1] = (uint32_t)b;
    c[2] = (uint32_t)(a >> 32) ^ c3 ^ k1;
    c[3] = (uint32_t)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

void dropout_apply(const dropout *d, const uint32_t *samples, const float *x, float *y) {
  const uint64_t dropped_below = (uint64_t)(d->rate * 4294967296.0);
  const float factor = (float)(1 / (1 - d->rate));
  for (size_t r = 0; r < d->rows; r++, x += d->columns, y += d->columns)
    for (size_t i = 0; i < d->columns; i += 4) {
      uint32_t words[4] = {(uint32_t)(i / 4), d->stream, samples[r], d->step};
      philox(d->seed, words);
      for (size_t j = 0; j < 4 && i + j < d->columns; j++) y[i + j] = words[j] < dropped_below ? 0 : x[i + j] * factor;
    }
}

/* ---- data ---- */

WIDEST void gather_bytes(const uint32_t *rows, const uint8_t *bytes, float *restrict y, size_t count, size_t columns, float factor,
                         float shift) {
  for (size_t r = 0; r < count; r++, y += columns) {
    const uint8_t *from = bytes + (size_t)rows[r] * columns;
    for (size_t i = 0; i < columns; i++) y[i] = factor * (float)from[i] + shift;
  }
}

/* ---- vectors and optimizers ---- */

WIDEST double sum_of_squares(const float *x, size_t n) {
  double lanes[LANES] = {0}, total = 0;
  size_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (size_t j = 0; j < LANES; j++) lanes[j] += (double)x[i + j] * x[i + j];
  for (; i < n; i++) total += (double)x[i] * x[i];
  for (size_t j = 0; j < LANES; j++) total += lanes[j];
  return total;
}

WIDEST void scale_vector(float *x, float factor, size_t n) {
  for (size_t i = 0; i < n; i++) x[i] *= factor;
}

WIDEST void add_scaled(float *y, const float *x, float factor, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] += factor * x[i];
}

/*
 * Every product is rounded before it is added: an element has the same bits in the vectors of every CPU and in what remains after them, wherever a server's shard begins.
 */
#if defined(__GNUC__) && !defined(__clang__)
#define EXACT __attribute__((optimize("fp-contract=off")))
#define EXACT_BODY
#else
#define EXACT
#define EXACT_BODY _Pragma("STDC FP_CONTRACT OFF")
#endif

WIDEST EXACT void sgd_update(const sgd *o, float *restrict parameters, const float *restrict gradients, float *restrict velocity, size_t n) {
  EXACT_BODY
  const float rate = o->rate, momentum = o->momentum, decay = o->decay;
  if (momentum == 0) {
    for (size_t i = 0; i < n; i++) parameters[i] -= rate * (gradients[i] + decay * parameters[i]);
    return;
  }
  const float old = o->nesterov ? momentum : 1, fresh = o->nesterov ? 1 : 0;
  for (size_t i = 0; i < n; i++) {
    const float g = gradients[i] + decay * parameters[i], v = momentum * velocity[i] + g;
    velocity[i] = v;
    parameters[i] -= rate * (old * v + fresh * g);
  }
}

/*
 * Square root to f32 rounding, without a call (sqrtf may set errno, and a loop with a call is not vectorised): the known first guess
 * of 1 / root from the bits, and three of Newton's steps. 0 gives 0.
 */
static inline float root_of(float v) {
  union {
    float value;
    uint32_t bits;
  } guess = {v};
  guess.bits = 0x5f375a86u - (guess.bits >> 1);
  float inverse = guess.value;
  for (int step = 0; step < 3; step++) inverse *= 1.5f - 0.5f * v * inverse * inverse;
  return v * inverse;
}

WIDEST EXACT void adam_update(const adam *o, float *restrict parameters, const float *restrict gradients, float *restrict first,
                        float *restrict second, size_t n) {
  EXACT_BODY
  const float b1 = o->beta1, b2 = o->beta2, epsilon = o->epsilon, coupled = o->coupled_decay;
  const float keep = 1 - o->rate * o->decoupled_decay, step = o->rate / o->correction1, root = 1 / sqrtf(o->correction2);
  for (size_t i = 0; i < n; i++) {
    const float g = gradients[i] + coupled * parameters[i];
    const float m = b1 * first[i] + (1 - b1) * g, v = b2 * second[i] + (1 - b2) * g * g;
    first[i] = m;
    second[i] = v;
    parameters[i] = keep * parameters[i] - step * m / (root_of(v) * root + epsilon);
  }
}

WIDEST EXACT static void lamb_moments(const adam *o, const float *restrict parameters, const float *restrict gradients, float *restrict first,
                                float *restrict second, float *restrict direction, size_t n) {
  EXACT_BODY
  const float b1 = o->beta1, b2 = o->beta2, epsilon = o->epsilon, decay = o->decoupled_decay;
  const float step = 1 / o->correction1, root = 1 / sqrtf(o->correction2);
  for (size_t i = 0; i < n; i++) {
    const float g = gradients[i], m = b1 * first[i] + (1 - b1) * g, v = b2 * second[i] + (1 - b2) * g * g;
    first[i] = m;
    second[i] = v;
    direction[i] = step * m / (root_of(v) * root + epsilon) + decay * parameters[i];
  }
}

void lamb_direction(const adam *o, const float *parameters, const float *gradients, float *first, float *second, float *direction,
                    size_t n, double out[2]) {
  lamb_moments(o, parameters, gradients, first, second, direction, n);
  out[0] = sum_of_squares(parameters, n);
  out[1] = sum_of_squares(direction, n);
}
