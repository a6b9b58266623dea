#include "reduce.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef float f32;
typedef double f64;
typedef int8_t i8;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint32_t __attribute__((may_alias)) bits32;

enum { BLOCK = 512, BLOCK_BYTES = 8192 };

typedef struct kernel {
  void (*into)(void *own, const void *other, size_t n, int divisor);
  void (*pair)(void *first, void *second, size_t n, int divisor);
} kernel;
typedef kernel kernels[TYPES][REDUCE_OPS];

static f32 widen_half(uint16_t half) {
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

static uint16_t narrow_half(f32 value) {
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

#define SET(name) name##_baseline
#define TARGET __attribute__((noinline))
#define HALF_INSTRUCTIONS 0
#include "reduce-kernels.h"

#if defined(__x86_64__)
#define SET(name) name##_avx2
#define TARGET __attribute__((noinline, target("avx2,f16c")))
#define HALF_INSTRUCTIONS 1
#include "reduce-kernels.h"

#define SET(name) name##_avx512
#define TARGET __attribute__((noinline, target("avx512f,avx512bw,avx512vl,avx512dq,avx2,f16c,prefer-vector-width=512")))
#define HALF_INSTRUCTIONS 1
#include "reduce-kernels.h"
#endif

static const kernels *const *levels(int *count) {
#if defined(__x86_64__)
  static const kernels *all[] = {&table_baseline, &table_avx2, &table_avx512};
  *count = 1;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) {
    *count = 2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
      *count = 3;
  }
#else
  static const kernels *all[] = {&table_baseline};
  *count = 1;
#endif
  return all;
}

static const kernels *chosen;

static const kernel *kernel_of(int type, int op) {
  const kernels *table = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
  if (!table) {
    int count;
    const kernels *const *all = levels(&count);
    table = all[count - 1];
    __atomic_store_n(&chosen, table, __ATOMIC_RELAXED);
  }
  return &(*table)[type][op];
}

int reduce_choose(int level) {
  int count;
  const kernels *const *all = levels(&count);
  if (level >= count) return 0;
  __atomic_store_n(&chosen, all[level], __ATOMIC_RELAXED);
  return 1;
}

size_t reduce_width(int type) {
  static const size_t widths[TYPES] = {4, 8, 2, 2, 1, 4, 8, 1};
  return widths[type];
}

int reduce_supported(int type, int op) {
  return type >= 0 && type < TYPES && op >= 0 && op < REDUCE_OPS && kernel_of(type, op)->into != NULL;
}

/* The average of integers: a pass of its own, for no instruction set divides them by the vector. */
#define DIVIDE(type)                                            \
  for (size_t i = 0; i < count; i++) ((type *)own)[i] /= divisor; \
  break
static void divide(int type, void *own, size_t count, int divisor) {
  switch (type) {
    case TYPE_I8: DIVIDE(i8);
    case TYPE_I32: DIVIDE(i32);
    case TYPE_I64: DIVIDE(i64);
    case TYPE_U8: DIVIDE(u8);
  }
}

void reduce_into(int type, int op, void *own, const void *other, size_t count, int divisor) {
  kernel_of(type, op)->into(own, other, count, divisor);
  if (divisor > 1 && type >= TYPE_I8) divide(type, own, count, divisor);
}

void reduce_all(int type, int op, void *const *buffers, int n, size_t count, int divisor) {
  if (n == 2 && (divisor == 1 || type < TYPE_I8)) {
    kernel_of(type, op)->pair(buffers[0], buffers[1], count, divisor);
    return;
  }
  size_t width = reduce_width(type), step = BLOCK_BYTES / width;
  uint8_t sums[BLOCK_BYTES] __attribute__((aligned(64)));
  for (size_t i = 0; i < count; i += step) {
    size_t m = count - i < step ? count - i : step;
    memcpy(sums, (uint8_t *)buffers[0] + i * width, m * width);
    for (int b = 1; b < n; b++) reduce_into(type, op, sums, (uint8_t *)buffers[b] + i * width, m, b == n - 1 ? divisor : 1);
    for (int b = 0; b < n; b++) memcpy((uint8_t *)buffers[b] + i * width, sums, m * width);
  }
}
