/*
 * The loops of a neural network that are not matrix products: activations, pooling, normalisation, loss, embedding, dropout, and the
 * updates of the optimizers. Everything is f32 on the calling thread; sums that decide a scale are f64.
 *
 * "rows x columns" is a batch of vectors; "planes" are images of one channel each. Where `add` is given, gradients are added to what is
 * there instead of replacing it.
 */
#ifndef VERBENA_KERNELS_H
#define VERBENA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* ---- activations ---- */
void relu_forward(const float *x, float *y, size_t n);               /* x and y may be the same */
void relu_backward(const float *y, const float *dy, float *dx, size_t n); /* dy and dx may be the same */
void gelu_forward(const float *x, float *y, size_t n);
void gelu_backward(const float *x, const float *dy, float *dx, size_t n);

/* ---- bias of a linear layer ---- */
void bias_forward(float *y, const float *bias, size_t rows, size_t columns);
void bias_backward(const float *dy, float *gradient, size_t rows, size_t columns, int add);

/* ---- pooling; windows do not reach over the edge ---- */
typedef struct pooling {
  size_t planes, height, width, window, stride, out_height, out_width;
} pooling;
void max_pool_forward(const pooling *p, const float *x, float *y, int32_t *index); /* index: of the maximum in its plane */
void max_pool_backward(const pooling *p, const float *dy, const int32_t *index, float *dx);
void average_pool_forward(const pooling *p, const float *x, float *y);
void average_pool_backward(const pooling *p, const float *dy, float *dx);

/* ---- normalisation ---- */
/* statistics: mean and 1/deviation of each row */
void layer_norm_forward(const float *x, const float *gain, const float *shift, float *y, float *statistics, size_t rows, size_t columns,
                        float epsilon);
void layer_norm_backward(const float *dy, const float *x, const float *gain, const float *statistics, float *dx, float *dgain,
                         float *dshift, size_t rows, size_t columns, int add);
/* sums: for each channel the sum and the sum of squares; x is [batch][channels][plane] */
void batch_norm_sums(const float *x, size_t batch, size_t channels, size_t plane, double *sums);
void batch_norm_forward(const float *x, const float *mean, const float *inverse, const float *gain, const float *shift, float *y,
                        size_t batch, size_t channels, size_t plane);
/* sums: for each channel the sum of dy and of dy times the normalised x */
void batch_norm_backward_sums(const float *dy, const float *x, const float *mean, const float *inverse, size_t batch, size_t channels,
                              size_t plane, double *sums);
/* count: numbers of a channel that the sums were taken over, on all ranks together */
void batch_norm_backward(const float *dy, const float *x, const float *mean, const float *inverse, const float *gain, const double *sums,
                         double count, float *dx, size_t batch, size_t channels, size_t plane);

/* ---- loss ---- */
/* out: sum of the losses, rows whose largest logit is the label. gradient (may be NULL): scale * (softmax - one-hot).
 * Returns 0, or 1 + the first row whose label is no class. */
size_t softmax_cross_entropy(const float *logits, const int32_t *labels, float *gradient, size_t rows, size_t classes, float scale,
                             double out[2]);

/* ---- embedding; returns 0, or 1 + the first position whose id is outside the table ---- */
size_t embedding_forward(const int32_t *ids, const float *table, float *y, size_t count, size_t columns, size_t vocabulary);
void embedding_backward(const int32_t *ids, const float *dy, float *gradient, size_t count, size_t columns, size_t vocabulary, int add);

/* ---- dropout ---- */
/*
 * Keeps each number with probability 1 - rate, scaled by 1 / (1 - rate). Number i of a row is decided by Philox4x32-10 with the seed as key and
 * {i / 4, stream, sample id, step} as counter: the same sample drops the same numbers on whichever rank and in whichever batch it is.
 * Backward is the same call on the gradient. x and y may be the same.
 */
typedef struct dropout {
  size_t rows, columns;
  uint32_t seed[2], stream, step;
  double rate;
} dropout;
void dropout_apply(const dropout *d, const uint32_t *samples, const float *x, float *y);

/* ---- data ---- */
/* Rows of bytes, chosen by number, as factor * byte + shift */
void gather_bytes(const uint32_t *rows, const uint8_t *bytes, float *y, size_t count, size_t columns, float factor, float shift);

/* ---- vectors and optimizers ---- */
double sum_of_squares(const float *x, size_t n);
void scale_vector(float *x, float factor, size_t n);
void add_scaled(float *y, const float *x, float factor, size_t n); /* y += factor * x */

typedef struct sgd {
  float rate, momentum, decay;
  int nesterov;
} sgd;
void sgd_update(const sgd *o, float *parameters, const float *gradients, float *velocity, size_t n);

typedef struct adam {
  float rate, beta1, beta2, epsilon;
  float coupled_decay;      /* added to the gradient (Adam) */
  float decoupled_decay;    /* taken off the parameter (AdamW); part of the direction in LAMB */
  float correction1, correction2; /* 1 - beta^t */
} adam;
void adam_update(const adam *o, float *parameters, const float *gradients, float *first, float *second, size_t n);
/* Moments, and the direction before its length is set; out: squares of the lengths of parameters and direction. */
void lamb_direction(const adam *o, const float *parameters, const float *gradients, float *first, float *second, float *direction,
                    size_t n, double out[2]);

#endif
