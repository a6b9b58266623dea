#include "compress.h"

#include <math.h>
#include <string.h>

#include "apply.h"
#include "simd.h"

/*
 * A product that is rounded before it is added has the same bits on a CPU with fused multiply-add as on one without. Nobody looks at floating-point exceptions: where the
 * compiler may forget them, too, it computes both sides of a choice, and a loop with one becomes vectors.
 */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off", "no-trapping-math")
#else
#pragma STDC FP_CONTRACT OFF
#endif

enum { BLOCK = 4096 };

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* ---- sums ---- */

WIDEST static void first_of_sum(float *restrict y, const float *restrict x, float factor, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] = factor * x[i];
}

WIDEST static void next_of_sum(float *restrict y, const float *restrict x, float factor, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const float product = factor * x[i];
    y[i] += product;
  }
}

void sum_block(float *y, size_t n, const double *sources, const double *factors, size_t count, size_t from) {
  if (count == 0) memset(y, 0, n * sizeof *y);
  for (size_t s = 0; s < count; s++) {
    const float *x = (const float *)(uintptr_t)sources[s] + from;
    if (s == 0) first_of_sum(y, x, (float)factors[s], n);
    else next_of_sum(y, x, (float)factors[s], n);
  }
}

/* Block by block, so that y stays in the cache while all sources pass. */
void weighted_sum(float *y, size_t n, const double *sources, const double *factors, size_t count) {
  for (size_t from = 0; from < n; from += BLOCK) {
    sum_block(y + from, n - from < BLOCK ? n - from : BLOCK, sources, factors, count, from);
  }
}

/* ---- 16 bits ---- */

/* Without branches: subnormal halves by adding a number whose last bit is theirs, the others by adding half a last bit. */
static inline uint16_t half_of(float x) {
  const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  const uint32_t small = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude + 0xc8000fffu + (magnitude >> 13 & 1)) >> 13;
  const uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const uint32_t half = magnitude >= 0x47800000u ? special : magnitude < 0x38800000u ? small : normal;
  return (uint16_t)(sign | half);
}

static inline float float_of_half(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;
  const uint32_t normal = (magnitude << 13) + 0x38000000u + (magnitude >= 0x7c00u ? 0x38000000u : 0);
  const uint32_t small = bits_of((float)magnitude * 0x1p-24f);
  return float_of(sign | (magnitude < 0x0400u ? small : normal));
}

static inline uint16_t bfloat_of(float x) {
  const uint32_t bits = bits_of(x);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}

WIDEST void f16_encode(float *restrict x, uint16_t *restrict out, size_t n) {
  for (size_t i = 0; i < n; i++) {
    out[i] = half_of(x[i]);
    x[i] -= float_of_half(out[i]);
  }
}

WIDEST void f16_decode(const uint16_t *restrict in, float *restrict y, size_t n, int add) {
  if (add) for (size_t i = 0; i < n; i++) y[i] += float_of_half(in[i]);
  else for (size_t i = 0; i < n; i++) y[i] = float_of_half(in[i]);
}

WIDEST void bf16_encode(float *restrict x, uint16_t *restrict out, size_t n) {
  for (size_t i = 0; i < n; i++) {
    out[i] = bfloat_of(x[i]);
    x[i] -= float_of((uint32_t)out[i] << 16);
  }
}

WIDEST void bf16_decode(const uint16_t *restrict in, float *restrict y, size_t n, int add) {
  if (add) for (size_t i = 0; i < n; i++) y[i] += float_of((uint32_t)in[i] << 16);
  else for (size_t i = 0; i < n; i++) y[i] = float_of((uint32_t)in[i] << 16);
}

/* ---- 8 bits ---- */

WIDEST float abs_max(const float *x, size_t n) {
  uint32_t most = 0; /* magnitudes compare as integers, and integers have no order of evaluation */
  for (size_t i = 0; i < n; i++) {
    const uint32_t magnitude = bits_of(x[i]) & 0x7fffffffu;
    most = magnitude > most ? magnitude : most;
  }
  return float_of(most);
}

WIDEST void int8_encode(float *restrict x, int8_t *restrict out, size_t n, float unit, int most) {
  const float limit = (float)most;
  for (size_t i = 0; i < n; i++) {
    float q = unit > 0 ? x[i] / unit : 0;
    q = q > limit ? limit : q < -limit ? -limit : q;
    q = (q + 12582912.0f) - 12582912.0f; /* 1.5 * 2^23: no bits are left behind the point */
    out[i] = (int8_t)q;
    x[i] -= q * unit;
  }
}

WIDEST void int8_decode(const int8_t *restrict in, float *restrict y, size_t n, float unit, int add) {
  if (add) for (size_t i = 0; i < n; i++) y[i] += (float)in[i] * unit;
  else for (size_t i = 0; i < n; i++) y[i] = (float)in[i] * unit;
}

/* ---- 1 bit ---- */

void one_bit_encode(float *x, uint32_t *bits, size_t n, float means[2]) {
  double sums[2] = {0, 0};
  size_t counts[2] = {0, 0};
  for (size_t from = 0; from < n; from += 32) {
    const size_t length = n - from < 32 ? n - from : 32;
    uint32_t word = 0;
    for (size_t i = 0; i < length; i++) {
      const uint32_t up = x[from + i] >= 0;
      word |= up << i;
      sums[up] += x[from + i];
      counts[up]++;
    }
    bits[from / 32] = word;
  }
  for (int side = 0; side < 2; side++) means[side] = counts[side] ? (float)(sums[side] / (double)counts[side]) : 0;
  for (size_t i = 0; i < n; i++) x[i] -= means[bits[i / 32] >> (i % 32) & 1];
}

WIDEST void one_bit_decode(const uint32_t *restrict bits, const float means[2], float *restrict y, size_t n, int add) {
  const float below = means[0], above = means[1];
  for (size_t from = 0; from < n; from += 32) {
    const size_t length = n - from < 32 ? n - from : 32;
    const uint32_t word = bits[from / 32];
    for (size_t i = 0; i < length; i++) {
      const float value = word >> i & 1 ? above : below;
      y[from + i] = add ? y[from + i] + value : value;
    }
  }
}

/* ---- few of many ---- */

static inline uint32_t magnitude_of(float x) { return bits_of(x) & 0x7fffffffu; }

/*
 * The k-th greatest magnitude, digit by digit from the top (11, 10 and 10 bits): each pass counts the digits of those that agree with what is known. `above`:
 * how many are greater.
 */
static uint32_t kth_magnitude(const float *x, size_t n, size_t k, size_t *above) {
  static const int SHIFTS[] = {20, 10, 0};
  uint32_t known = 0, mask = 0;
  size_t wanted = k;
  for (int pass = 0; pass < 3; pass++) {
    const int shift = SHIFTS[pass];
    const uint32_t digits = pass == 0 ? 2048 : 1024;
    size_t counts[2048] = {0};
    for (size_t i = 0; i < n; i++) {
      const uint32_t magnitude = magnitude_of(x[i]);
      if ((magnitude & mask) == known) counts[magnitude >> shift & (digits - 1)]++;
    }
    uint32_t digit = digits - 1;
    while (counts[digit] < wanted) wanted -= counts[digit--];
    known |= digit << shift;
    mask |= (digits - 1) << shift;
  }
  *above = k - wanted;
  return known;
}

void top_k(float *x, size_t n, size_t k, uint32_t *index, float *value) {
  if (k == 0) return;
  size_t above;
  const uint32_t limit = kth_magnitude(x, n, k, &above);
  size_t equal = k - above; /* that many of those that are just the limit */
  for (size_t i = 0, at = 0; at < k; i++) {
    const uint32_t magnitude = magnitude_of(x[i]);
    if (magnitude < limit || (magnitude == limit && equal == 0)) continue;
    if (magnitude == limit) equal--;
    index[at] = (uint32_t)i;
    value[at++] = x[i];
    x[i] = 0;
  }
}

size_t threshold_select(float *x, size_t n, float limit, size_t most, uint32_t *index, float *value) {
  size_t count = 0;
  for (size_t i = 0; i < n && count < most; i++) {
    if (!(fabsf(x[i]) >= limit)) continue;
    index[count] = (uint32_t)i;
    value[count++] = x[i];
    x[i] = 0;
  }
  return count;
}

int sparse_add(const uint32_t *index, const float *value, size_t k, float *y, size_t n) {
  for (size_t i = 0; i < k; i++) {
    if (index[i] >= n) return 1;
    y[index[i]] += value[i];
  }
  return 0;
}

static inline uint32_t mixed(uint32_t h) {
  h ^= h >> 16;
  h *= 0x21f0aaadu;
  h ^= h >> 15;
  h *= 0x735a2d97u;
  return h ^ h >> 15;
}

/* Stretch s of k is s n / k up to (s + 1) n / k. */
static inline size_t chosen(size_t n, size_t k, size_t s, uint32_t seed, uint32_t step) {
  const size_t from = (size_t)((uint64_t)s * n / k), to = (size_t)((uint64_t)(s + 1) * n / k);
  const uint32_t draw = mixed(mixed(mixed(seed) ^ step) ^ (uint32_t)s);
  return from + (size_t)((uint64_t)draw * (to - from) >> 32);
}

void random_k_encode(float *x, size_t n, size_t k, uint32_t seed, uint32_t step, float *value) {
  for (size_t s = 0; s < k; s++) {
    const size_t i = chosen(n, k, s, seed, step);
    value[s] = x[i];
    x[i] = 0;
  }
}

void random_k_decode(const float *value, size_t k, uint32_t seed, uint32_t step, float *y, size_t n) {
  memset(y, 0, n * sizeof *y);
  for (size_t s = 0; s < k; s++) y[chosen(n, k, s, seed, step)] = value[s];
}

/* ---- low rank ---- */

void orthonormalize(float *matrix, size_t rows, size_t columns) {
  for (size_t c = 0; c < columns; c++) {
    double before = 0, after = 0;
    for (size_t r = 0; r < rows; r++) before += (double)matrix[r * columns + c] * matrix[r * columns + c];
    for (size_t other = 0; other < c; other++) {
      double dot = 0;
      for (size_t r = 0; r < rows; r++) dot += (double)matrix[r * columns + c] * matrix[r * columns + other];
      for (size_t r = 0; r < rows; r++) matrix[r * columns + c] -= (float)dot * matrix[r * columns + other];
    }
    for (size_t r = 0; r < rows; r++) after += (double)matrix[r * columns + c] * matrix[r * columns + c];
    /* What is left of a column that lay in the others is rounding. */
    const float scale = after > 1e-10 * before && after > 0 ? (float)(1 / sqrt(after)) : 0;
    for (size_t r = 0; r < rows; r++) matrix[r * columns + c] *= scale;
  }
}

/* ---- calls ---- */

#define AT(i) ((void *)(uintptr_t)a[i])
#define SIZE(i) ((size_t)a[i])
#define FLOAT(i) ((float)a[i])
#define WORD(i) ((uint32_t)a[i])

int compress_call(double *call) {
  double *a = call + 1;
  switch ((int)call[0]) {
    case COMPRESS_WEIGHTED_SUM:
      weighted_sum(AT(0), SIZE(1), AT(2), AT(3), SIZE(4));
      return 0;
    case COMPRESS_F16_ENCODE:
      f16_encode(AT(0), AT(1), SIZE(2));
      return 0;
    case COMPRESS_F16_DECODE:
      f16_decode(AT(0), AT(1), SIZE(2), (int)a[3]);
      return 0;
    case COMPRESS_BF16_ENCODE:
      bf16_encode(AT(0), AT(1), SIZE(2));
      return 0;
    case COMPRESS_BF16_DECODE:
      bf16_decode(AT(0), AT(1), SIZE(2), (int)a[3]);
      return 0;
    case COMPRESS_ABS_MAX:
      a[0] = abs_max(AT(0), SIZE(1));
      return 0;
    case COMPRESS_INT8_ENCODE:
      int8_encode(AT(0), AT(1), SIZE(2), FLOAT(3), (int)a[4]);
      return 0;
    case COMPRESS_INT8_DECODE:
      int8_decode(AT(0), AT(1), SIZE(2), FLOAT(3), (int)a[4]);
      return 0;
    case COMPRESS_ONE_BIT_ENCODE:
      one_bit_encode(AT(0), AT(1), SIZE(2), AT(3));
      return 0;
    case COMPRESS_ONE_BIT_DECODE:
      one_bit_decode(AT(0), AT(1), AT(2), SIZE(3), (int)a[4]);
      return 0;
    case COMPRESS_TOP_K:
      top_k(AT(0), SIZE(1), SIZE(2), AT(3), AT(4));
      return 0;
    case COMPRESS_THRESHOLD:
      a[0] = (double)threshold_select(AT(0), SIZE(1), FLOAT(2), SIZE(3), AT(4), AT(5));
      return 0;
    case COMPRESS_SPARSE_ADD:
      a[0] = sparse_add(AT(0), AT(1), SIZE(2), AT(3), SIZE(4));
      return 0;
    case COMPRESS_RANDOM_K_ENCODE:
      random_k_encode(AT(0), SIZE(1), SIZE(2), WORD(3), WORD(4), AT(5));
      return 0;
    case COMPRESS_RANDOM_K_DECODE:
      random_k_decode(AT(0), SIZE(1), WORD(2), WORD(3), AT(4), SIZE(5));
      return 0;
    case COMPRESS_ORTHONORMALIZE:
      orthonormalize(AT(0), SIZE(1), SIZE(2));
      return 0;
    case COMPRESS_APPLY: {
      const application it = {AT(0), SIZE(1), SIZE(2), AT(3), AT(4), SIZE(5), AT(6), SIZE(7)};
      return apply(&it);
    }
    default:
      return 1;
  }
}
