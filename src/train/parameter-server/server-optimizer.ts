/** The optimizer of a server, as plain data: it travels to the thread that the server runs on. */
import type { AdamOptions, Optimizer, SgdOptions, Trained } from '../../nn/index.js';
import { Adam, AdamW } from '../../nn/optimizers/adam.js';
import { Lamb } from '../../nn/optimizers/lamb.js';
import { Sgd } from '../../nn/optimizers/sgd.js';

export type ServerOptimizer =
  | ({ readonly kind: 'sgd' } & SgdOptions)
  | ({ readonly kind: 'adam' | 'adamw' | 'lamb' } & AdamOptions);

/** The optimizer over a shard's parameters. Throws a RangeError for an unknown kind or a bad option. */
export function makeOptimizer(description: ServerOptimizer, trained: Trained): Optimizer {
  const { kind, ...options } = description;
  switch (kind) {
    case 'sgd':
      return new Sgd(trained, options);
    case 'adam':
      return new Adam(trained, options);
    case 'adamw':
      return new AdamW(trained, options);
    case 'lamb':
      return new Lamb(trained, options);
    default:
      throw new RangeError(`unknown optimizer '${String(kind)}': use sgd, adam, adamw or lamb`);
  }
}

/** Floats of state that it keeps for so many parameters. */
export function stateFloats(description: ServerOptimizer, parameters: number): number {
  if (description.kind !== 'sgd') return 2 * parameters;
  return (description.momentum ?? 0) === 0 ? 0 : parameters;
}
