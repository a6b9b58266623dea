/*
 * Single-precision matrix product, row-major, on one thread: C = alpha * op(A) * op(B) + beta * C.
 *
 * Two implementations behind one function:
 *   - OpenBLAS (or another CBLAS), loaded at run time when the machine has one; never linked, never required;
 *   - our own: packed panels and a register-blocked inner kernel, in the widest vectors this CPU has.
 * Ranks are processes, so one thread each is the rule: a library that starts threads of its own is told to use one.
 */
#ifndef VERBENA_BLAS_H
#define VERBENA_BLAS_H

#include <stddef.h>

enum { BLAS_OWN = 0, BLAS_LIBRARY = 1 };

/* Selects an implementation; returns the one in use afterwards (BLAS_OWN when no library is found). The start is BLAS_OWN. */
int blas_select(int want);
/* Lanes of a vector in the own kernel: 4, 8 or 16. */
int blas_lanes(void);
/* Lets the own kernel use at most this many lanes, for tests; 0: as many as the CPU has. */
void blas_limit_lanes(int lanes);

/* op(A) is m x k, op(B) is k x n, C is m x n; ld* are row lengths in memory; the trans flags mean that the matrix is stored transposed. */
void blas_sgemm(int trans_a, int trans_b, size_t m, size_t n, size_t k, float alpha, const float *a, size_t lda, const float *b,
                size_t ldb, float beta, float *c, size_t ldc);

#endif
