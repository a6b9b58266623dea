#include "reduce.h"

#include <string.h>

#include "reduce-table.h"

enum { BLOCK_BYTES = 8192 };

static const reduce_kernels *const *levels(int *count) {
#if defined(__x86_64__)
  static const reduce_kernels *all[] = {&reduce_baseline, &reduce_avx2, &reduce_avx512};
  *count = 1;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) {
    *count = 2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
      *count = 3;
  }
#else
  static const reduce_kernels *all[] = {&reduce_baseline};
  *count = 1;
#endif
  return all;
}

static const reduce_kernels *chosen;

static const reduce_kernel *kernel_of(int type, int op) {
  const reduce_kernels *table = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
  if (!table) {
    int count;
    const reduce_kernels *const *all = levels(&count);
    table = all[count - 1];
    __atomic_store_n(&chosen, table, __ATOMIC_RELAXED);
  }
  return &(*table)[type][op];
}

int reduce_choose(int level) {
  int count;
  const reduce_kernels *const *all = levels(&count);
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
    case TYPE_I8: DIVIDE(int8_t);
    case TYPE_I32: DIVIDE(int32_t);
    case TYPE_I64: DIVIDE(int64_t);
    case TYPE_U8: DIVIDE(uint8_t);
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
