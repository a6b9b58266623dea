/*
 * One entry for all kernels. JavaScript writes a number and the arguments into a block of doubles and calls; addresses are doubles too (user
 * addresses are below 2^53). Results come back in the same block.
 *
 *   call[0] which kernel      call[1..] arguments in the order of kernel-table.c      results: call[1], call[2]
 *
 * src/nn/kernels.ts is the other side: the order of its names is the order of this enumeration.
 */
#ifndef VERBENA_KERNEL_TABLE_H
#define VERBENA_KERNEL_TABLE_H

enum {
  KERNEL_SELECT_BLAS,
  KERNEL_SGEMM,
  KERNEL_CONVOLUTION_SCRATCH,
  KERNEL_CONVOLUTION_FORWARD,
  KERNEL_CONVOLUTION_BACKWARD_INPUT,
  KERNEL_CONVOLUTION_BACKWARD_WEIGHTS,
  KERNEL_RELU_FORWARD,
  KERNEL_RELU_BACKWARD,
  KERNEL_GELU_FORWARD,
  KERNEL_GELU_BACKWARD,
  KERNEL_BIAS_FORWARD,
  KERNEL_BIAS_BACKWARD,
  KERNEL_MAX_POOL_FORWARD,
  KERNEL_MAX_POOL_BACKWARD,
  KERNEL_AVERAGE_POOL_FORWARD,
  KERNEL_AVERAGE_POOL_BACKWARD,
  KERNEL_LAYER_NORM_FORWARD,
  KERNEL_LAYER_NORM_BACKWARD,
  KERNEL_BATCH_NORM_SUMS,
  KERNEL_BATCH_NORM_FORWARD,
  KERNEL_BATCH_NORM_BACKWARD_SUMS,
  KERNEL_BATCH_NORM_BACKWARD,
  KERNEL_SOFTMAX_CROSS_ENTROPY,
  KERNEL_EMBEDDING_FORWARD,
  KERNEL_EMBEDDING_BACKWARD,
  KERNEL_DROPOUT,
  KERNEL_GATHER_BYTES,
  KERNEL_SUM_OF_SQUARES,
  KERNEL_SCALE,
  KERNEL_ADD_SCALED,
  KERNEL_SGD,
  KERNEL_ADAM,
  KERNEL_LAMB_DIRECTION,
  KERNEL_COUNT
};

/* Numbers of a call: the kernel and its arguments. */
enum { KERNEL_NUMBERS = 16 };

/* Returns 0, or 1 when there is no such kernel. */
int kernel_call(double *call);

#endif
