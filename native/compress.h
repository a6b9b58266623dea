/*
 * What happens to gradients between the ranks: weighted sums, and encodings that are smaller than f32.
 *
 * Every encoder works in place on a vector that holds gradient plus what was left over before, and leaves there what it could not express (error feedback): after
 * it, encoded + x is what x was. Everything is on the calling thread and gives the same bits on every CPU.
 */
#ifndef VERBENA_COMPRESS_H
#define VERBENA_COMPRESS_H

#include <stddef.h>
#include <stdint.h>

/* Kernels of this file begin here; src/train/compression/kernels.ts has the same list. */
enum {
  COMPRESS_WEIGHTED_SUM = 64,
  COMPRESS_F16_ENCODE,
  COMPRESS_F16_DECODE,
  COMPRESS_BF16_ENCODE,
  COMPRESS_BF16_DECODE,
  COMPRESS_ABS_MAX,
  COMPRESS_INT8_ENCODE,
  COMPRESS_INT8_DECODE,
  COMPRESS_ONE_BIT_ENCODE,
  COMPRESS_ONE_BIT_DECODE,
  COMPRESS_TOP_K,
  COMPRESS_THRESHOLD,
  COMPRESS_SPARSE_ADD,
  COMPRESS_RANDOM_K_ENCODE,
  COMPRESS_RANDOM_K_DECODE,
  COMPRESS_ORTHONORMALIZE,
  COMPRESS_APPLY
};

/* Arguments and results as kernel-table.h says. Returns 0, or 1 when there is no such kernel. */
int compress_call(double *call);

/* y = sum of factors[i] * x[i], in the order of i */
void weighted_sum(float *y, size_t n, const double *sources, const double *factors, size_t count);
/* The same from element `from` of the sources on, for few enough numbers to stay in the cache. */
void sum_block(float *y, size_t n, const double *sources, const double *factors, size_t count, size_t from);

/* IEEE binary16 and bfloat16, to nearest, ties to even. Decoding overwrites y, or adds to it. */
void f16_encode(float *x, uint16_t *out, size_t n);
void f16_decode(const uint16_t *in, float *y, size_t n, int add);
void bf16_encode(float *x, uint16_t *out, size_t n);
void bf16_decode(const uint16_t *in, float *y, size_t n, int add);

float abs_max(const float *x, size_t n);
/* out = x / unit to nearest (ties to even), within -most .. most */
void int8_encode(float *x, int8_t *out, size_t n, float unit, int most);
void int8_decode(const int8_t *in, float *y, size_t n, float unit, int add);

/* Bit i: x[i] >= 0. means: of the numbers below 0, of the others; each 0 when there are none. */
void one_bit_encode(float *x, uint32_t *bits, size_t n, float means[2]);
void one_bit_decode(const uint32_t *bits, const float means[2], float *y, size_t n, int add);

/* The k numbers of the greatest magnitude (of equal ones the first), by ascending index. k <= n. */
void top_k(float *x, size_t n, size_t k, uint32_t *index, float *value);
/* The numbers of a magnitude of at least `limit`, the first `most` of them. Returns how many. */
size_t threshold_select(float *x, size_t n, float limit, size_t most, uint32_t *index, float *value);
/* y[index] += value. Returns 0, or 1 when an index is not below n. */
int sparse_add(const uint32_t *index, const float *value, size_t k, float *y, size_t n);

/* One number of each of k equal stretches, chosen by a hash of seed, step and stretch: the same at all ranks. k <= n. */
void random_k_encode(float *x, size_t n, size_t k, uint32_t seed, uint32_t step, float *value);
void random_k_decode(const float *value, size_t k, uint32_t seed, uint32_t step, float *y, size_t n);

/* Makes the columns of a rows x columns matrix (row-major) orthonormal, by Gram and Schmidt; a column that vanishes becomes 0. */
void orthonormalize(float *matrix, size_t rows, size_t columns);

#endif
