/**
 * Adam and AdamW: the step of each parameter is the running mean of its gradient over the root of the running mean of its square, both
 * corrected for their start at 0. Adam adds weight decay to the gradient; AdamW takes it off the parameter directly.
 *
 *   state: [ first moments of all parameters | second moments of all parameters ]
 */
import { addressOf, Block, KERNEL, run } from '../kernels.js';
import { checkRange, type Optimizer, type Trained } from './optimizer.js';

export interface AdamOptions {
  /** Decay of the mean of the gradient; [0, 1). Default: 0.9. */
  beta1?: number;
  /** Decay of the mean of its square; [0, 1). Default: 0.999. */
  beta2?: number;
  /** Added to the root; at least 0. Default: 1e-8. */
  epsilon?: number;
  /** At least 0. Default: 0 for Adam, 0.01 for AdamW. */
  weightDecay?: number;
}

class Moments implements Optimizer {
  readonly kind: string;
  steps = 0;
  readonly state: Float32Array;
  readonly #model: Trained;
  readonly #moments: Block;
  readonly #beta1: number;
  readonly #beta2: number;
  readonly #epsilon: number;
  readonly #weightDecay: number;
  readonly #decoupled: boolean;
  readonly #parameters: number;
  readonly #gradients: number;

  constructor(kind: string, model: Trained, options: AdamOptions, decoupled: boolean) {
    const { beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = decoupled ? 0.01 : 0 } = options;
    checkRange('beta1', beta1, 0, 1);
    checkRange('beta2', beta2, 0, 1);
    checkRange('epsilon', epsilon, 0, Number.POSITIVE_INFINITY);
    checkRange('weightDecay', weightDecay, 0, Number.POSITIVE_INFINITY);
    this.kind = kind;
    this.#model = model;
    this.#beta1 = beta1;
    this.#beta2 = beta2;
    this.#epsilon = epsilon;
    this.#weightDecay = weightDecay;
    this.#decoupled = decoupled;
    this.#moments = Block.zeros(2 * model.parameters.length);
    this.state = this.#moments.data;
    this.#parameters = addressOf(model.parameters);
    this.#gradients = addressOf(model.gradients);
  }

  step(learningRate: number): void {
    const count = this.#model.parameters.length;
    this.steps++;
    const correction1 = 1 - this.#beta1 ** this.steps;
    const correction2 = 1 - this.#beta2 ** this.steps;
    const update = this.#model.run ?? run;
    for (const { from, to, decay } of this.#model.ranges) {
      const at = 4 * from;
      const weightDecay = decay ? this.#weightDecay : 0;
      update(
        KERNEL.adam,
        learningRate,
        this.#beta1,
        this.#beta2,
        this.#epsilon,
        this.#decoupled ? 0 : weightDecay,
        this.#decoupled ? weightDecay : 0,
        correction1,
        correction2,
        this.#parameters + at,
        this.#gradients + at,
        this.#moments.address + at,
        this.#moments.address + 4 * count + at,
        to - from,
      );
    }
  }
}

export class Adam extends Moments {
  constructor(model: Trained, options: AdamOptions = {}) {
    super('adam', model, options, false);
  }
}

/** Adam whose weight decay is taken from the weights themselves, not added to the gradient. */
export class AdamW extends Moments {
  constructor(model: Trained, options: AdamOptions = {}) {
    super('adamw', model, options, true);
  }
}
