/** Gradients whose sum is known. */
import { Random } from '../../../src/nn/index.js';

/** Tensors: a matrix, its bias, a filter bank, and one that is too small to factor. */
export const SHAPES = [[40, 30], [30], [8, 4, 3, 3], [3, 5]];

/** Every rank has its own; large and small numbers mixed. */
export function gradientOf(rank: number, floats: number): Float32Array {
  const random = new Random(100 + rank);
  return Float32Array.from({ length: floats }, (_, i) => random.normal() * (i % 10 === 0 ? 0.1 : 0.01));
}
