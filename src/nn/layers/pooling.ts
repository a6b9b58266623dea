/**
 * Pooling of [channels, height, width]: the maximum or the average of each window. Windows do not reach over the edge; rows and columns that fill
 * no window are left out. The maximum keeps where it was found, so backward is a scatter.
 */
import { addressOf, Block, KERNEL, run } from '../kernels.js';
import { checkInteger, type Layer, type LayerSpec, type Pass, type Site, sizeOf } from '../layer.js';

export interface PoolingOptions {
  /** Step of the window; at least 1. Default: the window, so that windows do not overlap. */
  stride?: number;
}

/** The maximum of each `window` x `window` numbers. Of equal ones the first in reading order gets the gradient. */
export function maxPool(window: number, options: PoolingOptions = {}): LayerSpec {
  return pool('maxPool', window, options);
}

/** The average of each `window` x `window` numbers. */
export function averagePool(window: number, options: PoolingOptions = {}): LayerSpec {
  return pool('averagePool', window, options);
}

function pool(kind: 'maxPool' | 'averagePool', window: number, options: PoolingOptions): LayerSpec {
  const { stride = window } = options;
  checkInteger(`${kind} window`, window, 1);
  checkInteger(`${kind} stride`, stride, 1);
  return {
    kind,
    outputShape(input) {
      if (input.length !== 3) throw new RangeError(`${kind} takes [channels, height, width], not [${input.join(', ')}]`);
      if (input[1] < window || input[2] < window)
        throw new RangeError(`a window of ${window} does not fit [${input.join(', ')}]`);
      return [input[0], Math.floor((input[1] - window) / stride) + 1, Math.floor((input[2] - window) / stride) + 1];
    },
    parameters: () => [],
    create: (site) => new Pooling(site, kind === 'maxPool', window, stride),
  };
}

class Pooling implements Layer {
  readonly #site: Site;
  readonly #isMax: boolean;
  readonly #window: number;
  readonly #stride: number;
  readonly #output: Block;
  readonly #gradient: Block;
  readonly #index: Int32Array;
  readonly #indexAddress: number;

  constructor(site: Site, isMax: boolean, window: number, stride: number) {
    this.#site = site;
    this.#isMax = isMax;
    this.#window = window;
    this.#stride = stride;
    this.#output = Block.zeros(site.maxBatch * sizeOf(site.output));
    this.#gradient = Block.zeros(site.inputGradient ? site.maxBatch * sizeOf(site.input) : 0);
    this.#index = new Int32Array(isMax ? site.maxBatch * sizeOf(site.output) : 0);
    this.#indexAddress = addressOf(this.#index);
  }

  #run(kernel: number, batch: number, a7: number, a8: number, a9: number): void {
    const [channels, height, width] = this.#site.input;
    const [, outHeight, outWidth] = this.#site.output;
    run(kernel, batch * channels, height, width, this.#window, this.#stride, outHeight, outWidth, a7, a8, a9);
  }

  forward(input: number, pass: Pass): number {
    const to = this.#output.address;
    if (this.#isMax) this.#run(KERNEL.maxPoolForward, pass.batch, input, to, this.#indexAddress);
    else this.#run(KERNEL.averagePoolForward, pass.batch, input, to, 0);
    return to;
  }

  backward(gradient: number, pass: Pass): number {
    if (!this.#site.inputGradient) return 0;
    const to = this.#gradient.address;
    if (this.#isMax) this.#run(KERNEL.maxPoolBackward, pass.batch, gradient, this.#indexAddress, to);
    else this.#run(KERNEL.averagePoolBackward, pass.batch, gradient, to, 0);
    return to;
  }
}
