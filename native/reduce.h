/*
 * Reductions of vectors: own op= other, and n sources to all n destinations in one pass.
 *
 * The same kernels are compiled for several instruction sets (reduce-kernels.h) and picked at run time, so one binary runs everywhere.
 *
 * What the operations mean; all instruction sets give the same bits:
 *   sum, prod   integers wrap. f16 and bf16 are combined as f32 and rounded to nearest even after each pass.
 *   avg         sum, and `divisor` > 1 divides in the same pass; integers divide toward zero. Other operations have a divisor of 1.
 *   min, max    a NaN on either side gives NaN. Of -0 and +0 the other's is taken.
 *   band, bor   integers only.
 */
#ifndef VERBENA_REDUCE_H
#define VERBENA_REDUCE_H

#include <stddef.h>
#include <stdint.h>

/* The numbers are shared with src/collectives/element.ts. */
enum { TYPE_F32, TYPE_F64, TYPE_F16, TYPE_BF16, TYPE_I8, TYPE_I32, TYPE_I64, TYPE_U8, TYPES };
enum { REDUCE_SUM, REDUCE_PROD, REDUCE_MIN, REDUCE_MAX, REDUCE_BAND, REDUCE_BOR, REDUCE_OPS };

/* Bytes of an element. */
size_t reduce_width(int type);
/* Whether there is a kernel. */
int reduce_supported(int type, int op);
/* own[i] = own[i] op other[i]; divided by divisor when that is above 1. The vectors do not overlap. */
void reduce_into(int type, int op, void *own, const void *other, size_t count, int divisor);
/* Every buffers[k][i] = buffers[0][i] op ... op buffers[n - 1][i], in that order; divided by divisor when that is above 1. n >= 2. */
void reduce_all(int type, int op, void *const *buffers, int n, size_t count, int divisor);
/* Chooses an instruction set by hand, for tests: 0 baseline, 1 and 2 the better ones. Returns 0 where the machine lacks it. */
int reduce_choose(int level);

#endif
