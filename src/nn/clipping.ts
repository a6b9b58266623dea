/** Clipping of gradients by their global norm: the direction stays, the length is bounded. */
import { addressOf, KERNEL, result, run } from './kernels.js';

/** Length of the whole vector, summed in f64. */
export function globalNorm(gradients: Float32Array): number {
  run(KERNEL.sumOfSquares, addressOf(gradients), gradients.length);
  return Math.sqrt(result(0));
}

/**
 * Scales the gradients in place so that their norm is at most `maxNorm` (above 0). Returns the norm before.
 * On several ranks: after the gradients are reduced, so that all ranks clip alike.
 */
export function clipByGlobalNorm(gradients: Float32Array, maxNorm: number): number {
  if (!(maxNorm > 0)) throw new RangeError(`maxNorm must be above 0, not ${maxNorm}`);
  const norm = globalNorm(gradients);
  if (norm > maxNorm) run(KERNEL.scale, addressOf(gradients), maxNorm / norm, gradients.length);
  return norm;
}
