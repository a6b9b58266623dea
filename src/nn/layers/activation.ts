/**
 * Elementwise activations.
 *
 * ReLU works in place: it writes over its input where nobody reads that again, and its backward needs only the sign of its output. GELU is the
 * exact form, x times the normal distribution function, and keeps its input for backward.
 */
import { Block, KERNEL, run } from '../kernels.js';
import { type Layer, type LayerSpec, type Pass, type Site, sizeOf } from '../layer.js';

/** max(x, 0). */
export function relu(): LayerSpec {
  return {
    kind: 'relu',
    outputShape: (input) => input,
    parameters: () => [],
    keepsOutput: true,
    create: (site) => new Relu(site),
  };
}

class Relu implements Layer {
  readonly #size: number;
  readonly #own: Block | undefined;
  readonly #inputGradient: boolean;
  #output = 0;

  constructor(site: Site) {
    this.#size = sizeOf(site.input);
    this.#own = site.overInput ? undefined : Block.zeros(site.maxBatch * this.#size);
    this.#inputGradient = site.inputGradient;
  }

  forward(input: number, pass: Pass): number {
    this.#output = this.#own?.address ?? input;
    run(KERNEL.reluForward, input, this.#output, pass.batch * this.#size);
    return this.#output;
  }

  backward(gradient: number, pass: Pass): number {
    if (!this.#inputGradient) return 0;
    run(KERNEL.reluBackward, this.#output, gradient, gradient, pass.batch * this.#size);
    return gradient;
  }
}

/** x P(X <= x) for a standard normal X. */
export function gelu(): LayerSpec {
  return { kind: 'gelu', outputShape: (input) => input, parameters: () => [], create: (site) => new Gelu(site) };
}

class Gelu implements Layer {
  readonly #size: number;
  readonly #output: Block;
  readonly #inputGradient: boolean;
  #input = 0;

  constructor(site: Site) {
    this.#size = sizeOf(site.input);
    this.#output = Block.zeros(site.maxBatch * this.#size);
    this.#inputGradient = site.inputGradient;
  }

  forward(input: number, pass: Pass): number {
    this.#input = input;
    run(KERNEL.geluForward, input, this.#output.address, pass.batch * this.#size);
    return this.#output.address;
  }

  backward(gradient: number, pass: Pass): number {
    if (!this.#inputGradient) return 0;
    run(KERNEL.geluBackward, this.#input, gradient, gradient, pass.batch * this.#size);
    return gradient;
  }
}
