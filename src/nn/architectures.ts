/** The models that the examples and measurements train, as lists of layers for 28 x 28 images and 10 classes. */
import type { LayerSpec } from './layer.js';
import { relu } from './layers/activation.js';
import { conv2d } from './layers/conv2d.js';
import { flatten } from './layers/flatten.js';
import { linear } from './layers/linear.js';
import { maxPool } from './layers/pooling.js';

/** 784-512-256-10 with ReLU. */
export function digitMlp(): LayerSpec[] {
  return [flatten(), linear(512), relu(), linear(256), relu(), linear(10)];
}

/**
 * 5x5x16, pool, 5x5x32, pool, dense. ReLU stands behind the pooling: the maximum of ReLUs is the ReLU of the maximum, on a quarter of
 * the numbers.
 */
export function digitCnn(): LayerSpec[] {
  return [
    conv2d({ filters: 16, kernel: 5, padding: 2 }),
    maxPool(2),
    relu(),
    conv2d({ filters: 32, kernel: 5, padding: 2 }),
    maxPool(2),
    relu(),
    flatten(),
    linear(10),
  ];
}
