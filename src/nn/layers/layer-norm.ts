/** Layer norm over the last dimension: each vector gets mean 0 and variance 1, then a learnt gain and shift. */
import { constant } from '../initializers.js';
import { Block, KERNEL, run } from '../kernels.js';
import { type Layer, type LayerSpec, type Pass, type Site, sizeOf } from '../layer.js';

export interface LayerNormOptions {
  /** Added to the variance; above 0. Default: 1e-5. */
  epsilon?: number;
}

export function layerNorm(options: LayerNormOptions = {}): LayerSpec {
  const { epsilon = 1e-5 } = options;
  if (!(epsilon > 0)) throw new RangeError(`layerNorm epsilon must be above 0, not ${epsilon}`);
  return {
    kind: 'layerNorm',
    outputShape(input) {
      if (input.length === 0) throw new RangeError('layerNorm needs at least one dimension');
      return input;
    },
    parameters: (input) => [
      { name: 'weight', shape: [input[input.length - 1]], initial: constant(1), decay: false },
      { name: 'bias', shape: [input[input.length - 1]], initial: constant(0), decay: false },
    ],
    create: (site) => new LayerNorm(site, epsilon),
  };
}

class LayerNorm implements Layer {
  readonly #site: Site;
  readonly #epsilon: number;
  readonly #columns: number;
  readonly #rows: number;
  readonly #output: Block;
  readonly #gradient: Block;
  readonly #statistics: Block;
  #input = 0;

  constructor(site: Site, epsilon: number) {
    this.#site = site;
    this.#epsilon = epsilon;
    this.#columns = site.input[site.input.length - 1];
    this.#rows = sizeOf(site.input) / this.#columns;
    this.#output = Block.zeros(site.maxBatch * sizeOf(site.input));
    this.#gradient = Block.zeros(site.maxBatch * sizeOf(site.input));
    this.#statistics = Block.zeros(site.maxBatch * this.#rows * 2);
  }

  forward(input: number, pass: Pass): number {
    const [gain, shift] = this.#site.parameters;
    const to = this.#output.address;
    const rows = pass.batch * this.#rows;
    this.#input = input;
    run(KERNEL.layerNormForward, input, gain, shift, to, this.#statistics.address, rows, this.#columns, this.#epsilon);
    return to;
  }

  backward(gradient: number, pass: Pass): number {
    const [dGain, dShift] = this.#site.gradients;
    const to = this.#gradient.address;
    const gain = this.#site.parameters[0];
    const rows = pass.batch * this.#rows;
    const add = pass.accumulate ? 1 : 0;
    run(
      KERNEL.layerNormBackward,
      gradient,
      this.#input,
      gain,
      this.#statistics.address,
      to,
      dGain,
      dShift,
      rows,
      this.#columns,
      add,
    );
    return to;
  }
}
