/** Stochastic gradient descent with momentum: v = momentum v + g, p -= rate v; Nesterov looks one step ahead: p -= rate (g + momentum v). */
import { addressOf, Block, KERNEL, run } from '../kernels.js';
import { checkRange, type Optimizer, type Trained } from './optimizer.js';

export interface SgdOptions {
  /** Share of the last step that is kept; [0, 1). Default: 0. */
  momentum?: number;
  /** Nesterov's form; needs momentum. Default: false. */
  nesterov?: boolean;
  /** Added to the gradient, times the parameter, where the parameter decays; at least 0. Default: 0. */
  weightDecay?: number;
}

export class Sgd implements Optimizer {
  readonly kind = 'sgd';
  steps = 0;
  readonly state: Float32Array;
  readonly #model: Trained;
  readonly #velocity: Block;
  readonly #momentum: number;
  readonly #nesterov: boolean;
  readonly #weightDecay: number;
  readonly #parameters: number;
  readonly #gradients: number;

  constructor(model: Trained, options: SgdOptions = {}) {
    const { momentum = 0, nesterov = false, weightDecay = 0 } = options;
    checkRange('momentum', momentum, 0, 1);
    checkRange('weightDecay', weightDecay, 0, Number.POSITIVE_INFINITY);
    if (nesterov && momentum === 0) throw new RangeError('nesterov needs momentum above 0');
    this.#model = model;
    this.#momentum = momentum;
    this.#nesterov = nesterov;
    this.#weightDecay = weightDecay;
    this.#velocity = Block.zeros(momentum === 0 ? 0 : model.parameters.length);
    this.state = this.#velocity.data;
    this.#parameters = addressOf(model.parameters);
    this.#gradients = addressOf(model.gradients);
  }

  step(learningRate: number): void {
    const nesterov = this.#nesterov ? 1 : 0;
    const update = this.#model.run ?? run;
    for (const { from, to, decay } of this.#model.ranges) {
      const at = 4 * from;
      const weightDecay = decay ? this.#weightDecay : 0;
      const velocity = this.#velocity.address + at;
      update(
        KERNEL.sgd,
        learningRate,
        this.#momentum,
        weightDecay,
        nesterov,
        this.#parameters + at,
        this.#gradients + at,
        velocity,
        to - from,
      );
    }
    this.steps++;
  }
}
