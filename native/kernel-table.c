#include "kernel-table.h"

#include <stdint.h>

#include "blas.h"
#include "compress.h"
#include "convolution.h"
#include "kernels.h"

#define AT(i) ((void *)(uintptr_t)a[i])
#define SIZE(i) ((size_t)a[i])
#define FLOAT(i) ((float)a[i])
#define INT(i) ((int)a[i])
#define CONVOLUTION(i) \
  {SIZE(i), SIZE(i + 1), SIZE(i + 2), SIZE(i + 3), SIZE(i + 4), SIZE(i + 5), SIZE(i + 6), SIZE(i + 7), SIZE(i + 8)}
#define POOLING(i) {SIZE(i), SIZE(i + 1), SIZE(i + 2), SIZE(i + 3), SIZE(i + 4), SIZE(i + 5), SIZE(i + 6)}
#define ADAM(i) {FLOAT(i), FLOAT(i + 1), FLOAT(i + 2), FLOAT(i + 3), FLOAT(i + 4), FLOAT(i + 5), FLOAT(i + 6), FLOAT(i + 7)}

int kernel_call(double *call) {
  double *a = call + 1;
  switch (SIZE(-1)) {
    case KERNEL_SELECT_BLAS:
      a[0] = blas_select(INT(0));
      a[1] = blas_lanes();
      return 0;
    case KERNEL_SGEMM:
      blas_sgemm(INT(0), INT(1), SIZE(2), SIZE(3), SIZE(4), FLOAT(5), AT(6), SIZE(7), AT(8), SIZE(9), FLOAT(10), AT(11), SIZE(12));
      return 0;
    case KERNEL_CONVOLUTION_SCRATCH: {
      convolution c = CONVOLUTION(0);
      a[0] = (double)convolution_scratch(&c);
      return 0;
    }
    case KERNEL_CONVOLUTION_FORWARD: {
      convolution c = CONVOLUTION(0);
      convolution_forward(&c, AT(9), AT(10), AT(11), AT(12), AT(13));
      return 0;
    }
    case KERNEL_CONVOLUTION_BACKWARD_INPUT: {
      convolution c = CONVOLUTION(0);
      convolution_backward_input(&c, AT(9), AT(10), AT(11), AT(12));
      return 0;
    }
    case KERNEL_CONVOLUTION_BACKWARD_WEIGHTS: {
      convolution c = CONVOLUTION(0);
      convolution_backward_weights(&c, AT(9), AT(10), AT(11), AT(12), INT(13), AT(14));
      return 0;
    }
    case KERNEL_RELU_FORWARD:
      relu_forward(AT(0), AT(1), SIZE(2));
      return 0;
    case KERNEL_RELU_BACKWARD:
      relu_backward(AT(0), AT(1), AT(2), SIZE(3));
      return 0;
    case KERNEL_GELU_FORWARD:
      gelu_forward(AT(0), AT(1), SIZE(2));
      return 0;
    case KERNEL_GELU_BACKWARD:
      gelu_backward(AT(0), AT(1), AT(2), SIZE(3));
      return 0;
    case KERNEL_BIAS_FORWARD:
      bias_forward(AT(0), AT(1), SIZE(2), SIZE(3));
      return 0;
    case KERNEL_BIAS_BACKWARD:
      bias_backward(AT(0), AT(1), SIZE(2), SIZE(3), INT(4));
      return 0;
    case KERNEL_MAX_POOL_FORWARD: {
      pooling p = POOLING(0);
      max_pool_forward(&p, AT(7), AT(8), AT(9));
      return 0;
    }
    case KERNEL_MAX_POOL_BACKWARD: {
      pooling p = POOLING(0);
      max_pool_backward(&p, AT(7), AT(8), AT(9));
      return 0;
    }
    case KERNEL_AVERAGE_POOL_FORWARD: {
      pooling p = POOLING(0);
      average_pool_forward(&p, AT(7), AT(8));
      return 0;
    }
    case KERNEL_AVERAGE_POOL_BACKWARD: {
      pooling p = POOLING(0);
      average_pool_backward(&p, AT(7), AT(8));
      return 0;
    }
    case KERNEL_LAYER_NORM_FORWARD:
      layer_norm_forward(AT(0), AT(1), AT(2), AT(3), AT(4), SIZE(5), SIZE(6), FLOAT(7));
      return 0;
    case KERNEL_LAYER_NORM_BACKWARD:
      layer_norm_backward(AT(0), AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), SIZE(7), SIZE(8), INT(9));
      return 0;
    case KERNEL_BATCH_NORM_SUMS:
      batch_norm_sums(AT(0), SIZE(1), SIZE(2), SIZE(3), AT(4));
      return 0;
    case KERNEL_BATCH_NORM_FORWARD:
      batch_norm_forward(AT(0), AT(1), AT(2), AT(3), AT(4), AT(5), SIZE(6), SIZE(7), SIZE(8));
      return 0;
    case KERNEL_BATCH_NORM_BACKWARD_SUMS:
      batch_norm_backward_sums(AT(0), AT(1), AT(2), AT(3), SIZE(4), SIZE(5), SIZE(6), AT(7));
      return 0;
    case KERNEL_BATCH_NORM_BACKWARD:
      batch_norm_backward(AT(0), AT(1), AT(2), AT(3), AT(4), AT(5), a[6], AT(7), SIZE(8), SIZE(9), SIZE(10));
      return 0;
    case KERNEL_SOFTMAX_CROSS_ENTROPY:
      a[2] = (double)softmax_cross_entropy(AT(0), AT(1), AT(2), SIZE(3), SIZE(4), FLOAT(5), a);
      return 0;
    case KERNEL_EMBEDDING_FORWARD:
      a[0] = (double)embedding_forward(AT(0), AT(1), AT(2), SIZE(3), SIZE(4), SIZE(5));
      return 0;
    case KERNEL_EMBEDDING_BACKWARD:
      embedding_backward(AT(0), AT(1), AT(2), SIZE(3), SIZE(4), SIZE(5), INT(6));
      return 0;
    case KERNEL_DROPOUT: {
      dropout d = {SIZE(0), SIZE(1), {(uint32_t)a[2], (uint32_t)a[3]}, (uint32_t)a[4], (uint32_t)a[5], a[6]};
      dropout_apply(&d, AT(7), AT(8), AT(9));
      return 0;
    }
    case KERNEL_GATHER_BYTES:
      gather_bytes(AT(0), AT(1), AT(2), SIZE(3), SIZE(4), FLOAT(5), FLOAT(6));
      return 0;
    case KERNEL_SUM_OF_SQUARES:
      a[0] = sum_of_squares(AT(0), SIZE(1));
      return 0;
    case KERNEL_SCALE:
      scale_vector(AT(0), FLOAT(1), SIZE(2));
      return 0;
    case KERNEL_ADD_SCALED:
      add_scaled(AT(0), AT(1), FLOAT(2), SIZE(3));
      return 0;
    case KERNEL_SGD: {
      sgd o = {FLOAT(0), FLOAT(1), FLOAT(2), INT(3)};
      sgd_update(&o, AT(4), AT(5), AT(6), SIZE(7));
      return 0;
    }
    case KERNEL_ADAM: {
      adam o = ADAM(0);
      adam_update(&o, AT(8), AT(9), AT(10), AT(11), SIZE(12));
      return 0;
    }
    case KERNEL_LAMB_DIRECTION: {
      adam o = ADAM(0);
      lamb_direction(&o, AT(8), AT(9), AT(10), AT(11), AT(12), SIZE(13), a);
      return 0;
    }
    default:
      return compress_call(call);
  }
}
