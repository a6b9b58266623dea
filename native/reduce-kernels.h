/*
 * The kernels of reduce.c for one instruction set: a file that includes this says TABLE, the name of its table, TARGET, the attribute of the set, and
 * HALF_INSTRUCTIONS, whether it converts f16. Each set is a file of its own, so that they are compiled side by side.
 *
 * The loops are plain C that compilers turn into vector code; only the f16 conversion of x86 is written out. A block of BLOCK elements is the
 * unit of the 16-bit types: its intermediate sums stay in the first-level cache.
 */
#include <string.h>

#include "reduce-table.h"
#if HALF_INSTRUCTIONS
#include <immintrin.h>
#endif

typedef float f32;
typedef double f64;
typedef int8_t i8;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint32_t __attribute__((may_alias)) bits32;

enum { BLOCK = 512 };

static inline f32 widen_half(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = (half >> 10) & 31, fraction = half & 0x3ff, bits;
  if (exponent == 31) {
    bits = sign | 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0);
  } else if (exponent) {
    bits = sign | (exponent + 112) << 23 | fraction << 13;
  } else { /* subnormal: fraction * 2^-24, exact in f32 */
    f32 value = (f32)fraction * 0x1p-24f;
    memcpy(&bits, &value, 4);
    bits |= sign;
  }
  f32 out;
  memcpy(&out, &bits, 4);
  return out;
}

static inline uint16_t narrow_half(f32 value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  uint32_t sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
  if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* rounds to 65536 or more */
  if (magnitude >= 0x38800000) return (uint16_t)(sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13));
  f32 small;
  memcpy(&small, &magnitude, 4);
  small += 0.5f; /* a unit of the sum's last place is 2^-24: the addition rounds to nearest even */
  memcpy(&magnitude, &small, 4);
  return (uint16_t)(sign | (magnitude - 0x3f000000));
}

#define SUM(a, b) ((a) + (b))
#define PROD(a, b) ((a) * (b))
#define MIN(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define MAX(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define BAND(a, b) ((a) & (b))
#define BOR(a, b) ((a) | (b))

/* Arithmetic happens in `wide`: unsigned for integers, so that they wrap. Only the sum of floats divides here. */
#define KERNELS(type, wide, op, OP)                                                                                             \
  TARGET static void into_##type##_##op(void *own, const void *other, size_t n, int divisor) {                             \
    type *restrict a = own;                                                                                                     \
    const type *restrict b = other;                                                                                             \
    (void)divisor;                                                                                                              \
    for (size_t i = 0; i < n; i++) a[i] = (type)OP((wide)a[i], (wide)b[i]);                                                     \
  }                                                                                                                             \
  TARGET static void pair_##type##_##op(void *first, void *second, size_t n, int divisor) {                                \
    type *restrict a = first, *restrict b = second;                                                                             \
    (void)divisor;                                                                                                              \
    for (size_t i = 0; i < n; i++) a[i] = b[i] = (type)OP((wide)a[i], (wide)b[i]);                                              \
  }
#define SUMS(type, wide)                                                                                                        \
  KERNELS(type, wide, plain, SUM)                                                                                               \
  TARGET static void into_##type##_sum(void *own, const void *other, size_t n, int divisor) {                              \
    type *restrict a = own;                                                                                                     \
    const type *restrict b = other;                                                                                             \
    if (divisor > 1)                                                                                                            \
      for (size_t i = 0; i < n; i++) a[i] = DIVIDE_##type((type)SUM((wide)a[i], (wide)b[i]), divisor);                          \
    else into_##type##_plain(own, other, n, 1);                                                                            \
  }                                                                                                                             \
  TARGET static void pair_##type##_sum(void *first, void *second, size_t n, int divisor) {                                 \
    type *restrict a = first, *restrict b = second;                                                                             \
    if (divisor > 1)                                                                                                            \
      for (size_t i = 0; i < n; i++) a[i] = b[i] = DIVIDE_##type((type)SUM((wide)a[i], (wide)b[i]), divisor);                   \
    else pair_##type##_plain(first, second, n, 1);                                                                         \
  }

/* A power of two is divided by exactly in either way, and a multiplication is faster. */
#define DIVIDE_f32(x, d) ((d) & ((d) - 1) ? (x) / (f32)(d) : (x) * (1.0f / (f32)(d)))
#define DIVIDE_f64(x, d) ((d) & ((d) - 1) ? (x) / (f64)(d) : (x) * (1.0 / (f64)(d)))

#define OTHERS(type, wide)                                                                                                   \
  KERNELS(type, wide, prod, PROD)                                                                                                \
  KERNELS(type, type, min, MIN)                                                                                                  \
  KERNELS(type, type, max, MAX)
#define BITWISE(type)                                                                                                            \
  KERNELS(type, type, band, BAND)                                                                                                \
  KERNELS(type, type, bor, BOR)

SUMS(f32, f32) OTHERS(f32, f32)
SUMS(f64, f64) OTHERS(f64, f64)
KERNELS(i8, uint8_t, sum, SUM) OTHERS(i8, uint8_t) BITWISE(i8)
KERNELS(i32, uint32_t, sum, SUM) OTHERS(i32, uint32_t) BITWISE(i32)
KERNELS(i64, uint64_t, sum, SUM) OTHERS(i64, uint64_t) BITWISE(i64)
KERNELS(u8, uint8_t, sum, SUM) OTHERS(u8, uint8_t) BITWISE(u8)

/* ---- 16-bit floats: widen a block, combine as f32, narrow ---- */

TARGET static void widen_bf16(const uint16_t *restrict from, f32 *restrict to, size_t n) {
  bits32 *restrict bits = (bits32 *)to;
  for (size_t i = 0; i < n; i++) bits[i] = (uint32_t)from[i] << 16;
}

TARGET static void narrow_bf16(const f32 *restrict from, uint16_t *restrict to, size_t n) {
  const bits32 *restrict bits = (const bits32 *)from;
  for (size_t i = 0; i < n; i++) {
    uint32_t b = bits[i], nan = (b & 0x7fffffff) > 0x7f800000;
    to[i] = (uint16_t)(nan ? (b >> 16) | 0x40 : (b + 0x7fff + ((b >> 16) & 1)) >> 16);
  }
}

TARGET static void widen_f16(const uint16_t *restrict from, f32 *restrict to, size_t n) {
  size_t i = 0;
#if HALF_INSTRUCTIONS
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
#endif
  for (; i < n; i++) to[i] = widen_half(from[i]);
}

TARGET static void narrow_f16(const f32 *restrict from, uint16_t *restrict to, size_t n) {
  size_t i = 0;
#if HALF_INSTRUCTIONS
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i < n; i++) to[i] = narrow_half(from[i]);
}

#define HALVES(type, op)                                                                                                         \
  TARGET static void into_##type##_##op(void *own, const void *other, size_t n, int divisor) {                              \
    uint16_t *a = own;                                                                                                           \
    const uint16_t *b = other;                                                                                                   \
    f32 x[BLOCK], y[BLOCK];                                                                                                      \
    for (size_t i = 0; i < n; i += BLOCK) {                                                                                      \
      size_t m = n - i < BLOCK ? n - i : BLOCK;                                                                                  \
      widen_##type(a + i, x, m);                                                                                            \
      widen_##type(b + i, y, m);                                                                                            \
      into_f32_##op(x, y, m, divisor);                                                                                      \
      narrow_##type(x, a + i, m);                                                                                           \
    }                                                                                                                            \
  }                                                                                                                              \
  TARGET static void pair_##type##_##op(void *first, void *second, size_t n, int divisor) {                                 \
    into_##type##_##op(first, second, n, divisor);                                                                          \
    memcpy(second, first, n * 2);                                                                                                \
  }
#define HALF_TYPE(type) HALVES(type, sum) HALVES(type, prod) HALVES(type, min) HALVES(type, max)

HALF_TYPE(f16)
HALF_TYPE(bf16)

const reduce_kernels TABLE = {
#define ROW(type, op) {into_##type##_##op, pair_##type##_##op}
#define FLOAT_ROWS(type) {ROW(type, sum), ROW(type, prod), ROW(type, min), ROW(type, max), {0, 0}, {0, 0}}
#define INTEGER_ROWS(type)                                                                                                       \
  {ROW(type, sum), ROW(type, prod), ROW(type, min), ROW(type, max), ROW(type, band), ROW(type, bor)}
    FLOAT_ROWS(f32),  FLOAT_ROWS(f64),   FLOAT_ROWS(f16),   FLOAT_ROWS(bf16),
    INTEGER_ROWS(i8), INTEGER_ROWS(i32), INTEGER_ROWS(i64), INTEGER_ROWS(u8),
};
