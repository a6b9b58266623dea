/*
 * Two-dimensional convolution, forward and backward, images as [batch][channel][row][column], filters as
 * [filter][channel][row][column].
 *
 * With stride 1 the convolution is computed directly from a padded copy of each image, without the matrix of patches. Any other stride
 * goes through patches (im2col) and a matrix product.
 */
#ifndef VERBENA_CONVOLUTION_H
#define VERBENA_CONVOLUTION_H

#include <stddef.h>

typedef struct convolution {
  size_t batch, channels, height, width, filters, kernel_height, kernel_width, stride, padding;
} convolution;

size_t convolution_out_height(const convolution *c);
size_t convolution_out_width(const convolution *c);
/* Floats of scratch that the functions below need. */
size_t convolution_scratch(const convolution *c);

/* y = filters * x + bias (bias may be NULL) */
void convolution_forward(const convolution *c, const float *x, const float *weights, const float *bias, float *y, float *scratch);
/* dx from dy */
void convolution_backward_input(const convolution *c, const float *dy, const float *weights, float *dx, float *scratch);
/* dw and db (may be NULL) from x and dy; added to what is there when `add` */
void convolution_backward_weights(const convolution *c, const float *x, const float *dy, float *dw, float *db, int add, float *scratch);

/* Patches of one image: [channel x kernel row x kernel column][output row x output column]; and the sum back. */
void convolution_patches(const convolution *c, const float *image, float *patches);
void convolution_sum_patches(const convolution *c, const float *patches, float *image);

#endif
