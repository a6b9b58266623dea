/**
 * LAMB: Adam's direction with weight decay in it, and for each tensor a step as long as rate x the length of the tensor. Made for very large
 * batches, which data parallelism over many ranks leads to. Tensors without decay (biases, gains) take Adam's step as it is.
 *
 *   state: [ first moments of all parameters | second moments of all parameters ]
 */
import { addressOf, Block, KERNEL, result, run } from '../kernels.js';
import type { AdamOptions } from './adam.js';
import { checkRange, type Optimizer, type Trained } from './optimizer.js';

export class Lamb implements Optimizer {
  readonly kind = 'lamb';
  steps = 0;
  readonly state: Float32Array;
  readonly #model: Trained;
  readonly #moments: Block;
  readonly #direction: Block;
  readonly #beta1: number;
  readonly #beta2: number;
  readonly #epsilon: number;
  readonly #weightDecay: number;
  readonly #parameters: number;
  readonly #gradients: number;

  /** Options as Adam's, with epsilon 1e-6 and weightDecay 0.01 by default. */
  constructor(model: Trained, options: AdamOptions = {}) {
    const { beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weightDecay = 0.01 } = options;
    checkRange('beta1', beta1, 0, 1);
    checkRange('beta2', beta2, 0, 1);
    checkRange('epsilon', epsilon, 0, Number.POSITIVE_INFINITY);
    checkRange('weightDecay', weightDecay, 0, Number.POSITIVE_INFINITY);
    this.#model = model;
    this.#beta1 = beta1;
    this.#beta2 = beta2;
    this.#epsilon = epsilon;
    this.#weightDecay = weightDecay;
    this.#moments = Block.zeros(2 * model.parameters.length);
    this.#direction = Block.zeros(model.ranges.reduce((most, { from, to }) => Math.max(most, to - from), 0));
    this.state = this.#moments.data;
    this.#parameters = addressOf(model.parameters);
    this.#gradients = addressOf(model.gradients);
  }

  step(learningRate: number): void {
    const count = this.#model.parameters.length;
    this.steps++;
    const correction1 = 1 - this.#beta1 ** this.steps;
    const correction2 = 1 - this.#beta2 ** this.steps;
    for (const { from, to, decay } of this.#model.ranges) {
      const at = 4 * from;
      const parameters = this.#parameters + at;
      const direction = this.#direction.address;
      run(
        KERNEL.lambDirection,
        0,
        this.#beta1,
        this.#beta2,
        this.#epsilon,
        0,
        decay ? this.#weightDecay : 0,
        correction1,
        correction2,
        parameters,
        this.#gradients + at,
        this.#moments.address + at,
        this.#moments.address + 4 * count + at,
        direction,
        to - from,
      );
      const length = Math.sqrt(result(0));
      const stepLength = Math.sqrt(result(1));
      const trust = decay && length > 0 && stepLength > 0 ? length / stepLength : 1;
      run(KERNEL.addScaled, parameters, direction, -learningRate * trust, to - from);
    }
  }
}
