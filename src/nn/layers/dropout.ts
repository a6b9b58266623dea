/**
 * Dropout that does not depend on how samples are spread over ranks.
 *
 * Which numbers of a sample are dropped follows from the model's seed, the layer, the step, the sample's id and the position (a counter-based
 * generator, Philox4x32-10). So the same sample loses the same numbers in any batch on any rank, and backward draws the mask again instead of
 * keeping it. In evaluation nothing is dropped; kept numbers are scaled in training, so evaluation needs no factor.
 */
import { Block, KERNEL, run } from '../kernels.js';
import { type Layer, type LayerSpec, type Pass, type Site, sizeOf } from '../layer.js';

/** Drops each number with probability `rate`: 0 <= rate < 1. */
export function dropout(rate: number): LayerSpec {
  if (!(rate >= 0 && rate < 1)) throw new RangeError(`dropout rate must be in [0, 1), not ${rate}`);
  return {
    kind: 'dropout',
    outputShape: (input) => input,
    parameters: () => [],
    keepsOutput: true, // in evaluation its output is its input, which somebody else may keep
    create: (site) => new Dropout(site, rate),
  };
}

class Dropout implements Layer {
  readonly #site: Site;
  readonly #rate: number;
  readonly #size: number;
  readonly #output: Block;

  constructor(site: Site, rate: number) {
    this.#site = site;
    this.#rate = rate;
    this.#size = sizeOf(site.input);
    this.#output = Block.zeros(site.maxBatch * this.#size);
  }

  #apply(from: number, to: number, pass: Pass): void {
    const { seed, index } = this.#site;
    const high = Math.floor(seed / 2 ** 32) >>> 0;
    run(KERNEL.dropout, pass.batch, this.#size, seed >>> 0, high, index, pass.step >>> 0, this.#rate, pass.samples, from, to);
  }

  forward(input: number, pass: Pass): number {
    if (!pass.training || this.#rate === 0) return input;
    this.#apply(input, this.#output.address, pass);
    return this.#output.address;
  }

  backward(gradient: number, pass: Pass): number {
    if (!this.#site.inputGradient) return 0;
    if (pass.training && this.#rate > 0) this.#apply(gradient, gradient, pass);
    return gradient;
  }
}
