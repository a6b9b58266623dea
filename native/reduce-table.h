/* The table of kernels that each instruction set fills (reduce-kernels.h) and reduce.c picks from. */
#ifndef VERBENA_REDUCE_TABLE_H
#define VERBENA_REDUCE_TABLE_H

#include "reduce.h"

typedef struct reduce_kernel {
  void (*into)(void *own, const void *other, size_t n, int divisor);
  void (*pair)(void *first, void *second, size_t n, int divisor);
} reduce_kernel;
typedef reduce_kernel reduce_kernels[TYPES][REDUCE_OPS];

extern const reduce_kernels reduce_baseline;
#if defined(__x86_64__)
extern const reduce_kernels reduce_avx2, reduce_avx512;
#endif

#endif
