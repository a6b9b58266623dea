/*
 * The kernels of reduce.c, compiled once for each instruction set: SET(name) is the name, TARGET the attribute of that set.
 *
 * The loops are plain C that compilers turn into vector code; only the f16 conversion of x86 is written out. A block of BLOCK elements is the
 * unit of the passes over more than two vectors and of the 16-bit types: its intermediate sums stay in the first-level cache.
 */

#define SUM(a, b) ((a) + (b))
#define PROD(a, b) ((a) * (b))
#define MIN(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define MAX(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define BAND(a, b) ((a) & (b))
#define BOR(a, b) ((a) | (b))

/* Arithmetic happens in `wide`: unsigned for integers, so that they wrap. Only the sum of floats divides here. */
#define KERNELS(type, wide, op, OP)                                                                                             \
  TARGET static void SET(into_##type##_##op)(void *own, const void *other, size_t n, int divisor) {                             \
    type *restrict a = own;                                                                                                     \
    const type *restrict b = other;                                                                                             \
    (void)divisor;                                                                                                              \
    for (size_t i = 0; i < n; i++) a[i] = (type)OP((wide)a[i], (wide)b[i]);                                                     \
  }                                                                                                                             \
  TARGET static void SET(pair_##type##_##op)(void *first, void *second, size_t n, int divisor) {                                \
    type *restrict a = first, *restrict b = second;                                                                             \
    (void)divisor;                                                                                                              \
    for (size_t i = 0; i < n; i++) a[i] = b[i] = (type)OP((wide)a[i], (wide)b[i]);                                              \
  }
#define SUMS(type, wide)                                                                                                        \
  KERNELS(type, wide, plain, SUM)                                                                                               \
  TARGET static void SET(into_##type##_sum)(void *own, const void *other, size_t n, int divisor) {                              \
    type *restrict a = own;                                                                                                     \
    const type *restrict b = other;                                                                                             \
    if (divisor > 1)                                                                                                            \
      for (size_t i = 0; i < n; i++) a[i] = DIVIDE_##type((type)SUM((wide)a[i], (wide)b[i]), divisor);                          \
    else SET(into_##type##_plain)(own, other, n, 1);                                                                            \
  }                                                                                                                             \
  TARGET static void SET(pair_##type##_sum)(void *first, void *second, size_t n, int divisor) {                                 \
    type *restrict a = first, *restrict b = second;                                                                             \
    if (divisor > 1)                                                                                                            \
      for (size_t i = 0; i < n; i++) a[i] = b[i] = DIVIDE_##type((type)SUM((wide)a[i], (wide)b[i]), divisor);                   \
    else SET(pair_##type##_plain)(first, second, n, 1);                                                                         \
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

TARGET static void SET(widen_bf16)(const uint16_t *restrict from, f32 *restrict to, size_t n) {
  bits32 *restrict bits = (bits32 *)to;
  for (size_t i = 0; i < n; i++) bits[i] = (uint32_t)from[i] << 16;
}

TARGET static void SET(narrow_bf16)(const f32 *restrict from, uint16_t *restrict to, size_t n) {
  const bits32 *restrict bits = (const bits32 *)from;
  for (size_t i = 0; i < n; i++) {
    uint32_t b = bits[i], nan = (b & 0x7fffffff) > 0x7f800000;
    to[i] = (uint16_t)(nan ? (b >> 16) | 0x40 : (b + 0x7fff + ((b >> 16) & 1)) >> 16);
  }
}

TARGET static void SET(widen_f16)(const uint16_t *restrict from, f32 *restrict to, size_t n) {
  size_t i = 0;
#if HALF_INSTRUCTIONS
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
#endif
  for (; i < n; i++) to[i] = widen_half(from[i]);
}

TARGET static void SET(narrow_f16)(const f32 *restrict from, uint16_t *restrict to, size_t n) {
  size_t i = 0;
#if HALF_INSTRUCTIONS
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i < n; i++) to[i] = narrow_half(from[i]);
}

#define HALVES(type, op)                                                                                                         \
  TARGET static void SET(into_##type##_##op)(void *own, const void *other, size_t n, int divisor) {                              \
    uint16_t *a = own;                                                                                                           \
    const uint16_t *b = other;                                                                                                   \
    f32 x[BLOCK], y[BLOCK];                                                                                                      \
    for (size_t i = 0; i < n; i += BLOCK) {                                                                                      \
      size_t m = n - i < BLOCK ? n - i : BLOCK;                                                                                  \
      SET(widen_##type)(a + i, x, m);                                                                                            \
      SET(widen_##type)(b + i, y, m);                                                                                            \
      SET(into_f32_##op)(x, y, m, divisor);                                                                                      \
      SET(narrow_##type)(x, a + i, m);                                                                                           \
    }                                                                                                                            \
  }                                                                                                                              \
  TARGET static void SET(pair_##type##_##op)(void *first, void *second, size_t n, int divisor) {                                 \
    SET(into_##type##_##op)(first, second, n, divisor);                                                                          \
    memcpy(second, first, n * 2);                                                                                                \
  }
#define HALF_TYPE(type) HALVES(type, sum) HALVES(type, prod) HALVES(type, min) HALVES(type, max)

HALF_TYPE(f16)
HALF_TYPE(bf16)

static const kernels SET(table) = {
#define ROW(type, op) {SET(into_##type##_##op), SET(pair_##type##_##op)}
#define FLOAT_ROWS(type) {ROW(type, sum), ROW(type, prod), ROW(type, min), ROW(type, max), {0, 0}, {0, 0}}
#define INTEGER_ROWS(type)                                                                                                       \
  {ROW(type, sum), ROW(type, prod), ROW(type, min), ROW(type, max), ROW(type, band), ROW(type, bor)}
    FLOAT_ROWS(f32),  FLOAT_ROWS(f64),   FLOAT_ROWS(f16),   FLOAT_ROWS(bf16),
    INTEGER_ROWS(i8), INTEGER_ROWS(i32), INTEGER_ROWS(i64), INTEGER_ROWS(u8),
};

#undef SUM
#undef PROD
#undef MIN
#undef MAX
#undef BAND
#undef BOR
#undef KERNELS
#undef SUMS
#undef OTHERS
#undef BITWISE
#undef HALVES
#undef HALF_TYPE
#undef ROW
#undef FLOAT_ROWS
#undef INTEGER_ROWS
#undef SET
#undef TARGET
#undef HALF_INSTRUCTIONS
