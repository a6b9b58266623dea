/**
 * Two-dimensional convolution: [channels, height, width] becomes [filters, height', width'], with zeros around the image.
 * The weight is [filters, channels, kernel, kernel].
 *
 * The C kernel computes stride 1 directly from a padded image and other strides by way of patches; see native/convolution.c.
 */
import { constant, heNormal, type Initializer } from '../initializers.js';
import { Block, KERNEL, result, run } from '../kernels.js';
import { checkInteger, type Layer, type LayerSpec, type Pass, type Shape, type Site, sizeOf } from '../layer.js';

export interface Conv2dOptions {
  /** Output channels; at least 1. */
  filters: number;
  /** Height and width of the window; at least 1. */
  kernel: number;
  /** Step of the window; at least 1. Default: 1. */
  stride?: number;
  /** Zeros on each side of the image; at least 0. Default: 0. */
  padding?: number;
  /** Add a bias. Default: true. */
  bias?: boolean;
  /** Start of the weight. Default: heNormal. The bias starts at 0. */
  initial?: Initializer;
}

export function conv2d(options: Conv2dOptions): LayerSpec {
  const { filters, kernel, stride = 1, padding = 0, bias = true, initial = heNormal } = options;
  checkInteger('conv2d filters', filters, 1);
  checkInteger('conv2d kernel', kernel, 1);
  checkInteger('conv2d stride', stride, 1);
  checkInteger('conv2d padding', padding, 0);
  return {
    kind: 'conv2d',
    outputShape(input) {
      if (input.length !== 3) throw new RangeError(`conv2d takes [channels, height, width], not [${input.join(', ')}]`);
      const side = (size: number) => Math.floor((size + 2 * padding - kernel) / stride) + 1;
      const out: Shape = [filters, side(input[1]), side(input[2])];
      if (out[1] < 1 || out[2] < 1)
        throw new RangeError(`a window of ${kernel} does not fit [${input.join(', ')}] with padding ${padding}`);
      return out;
    },
    parameters(input) {
      const weight = { name: 'weight', shape: [filters, input[0], kernel, kernel], initial, decay: true };
      return bias ? [weight, { name: 'bias', shape: [filters], initial: constant(0), decay: false }] : [weight];
    },
    create: (site) => new Conv2d(site, kernel, stride, padding, bias),
  };
}

class Conv2d implements Layer {
  readonly #site: Site;
  readonly #kernel: number;
  readonly #stride: number;
  readonly #padding: number;
  readonly #bias: boolean;
  readonly #output: Block;
  readonly #gradient: Block;
  readonly #scratch: Block;
  #input = 0;

  constructor(site: Site, kernel: number, stride: number, padding: number, bias: boolean) {
    this.#site = site;
    this.#kernel = kernel;
    this.#stride = stride;
    this.#padding = padding;
    this.#bias = bias;
    this.#output = Block.zeros(site.maxBatch * sizeOf(site.output));
    this.#gradient = Block.zeros(site.inputGradient ? site.maxBatch * sizeOf(site.input) : 0);
    this.#run(KERNEL.convolutionScratch, site.maxBatch, 0, 0, 0, 0, 0, 0);
    this.#scratch = Block.zeros(result(0));
  }

  #run(which: number, batch: number, a9: number, a10: number, a11: number, a12: number, a13: number, a14: number): void {
    const [channels, height, width] = this.#site.input;
    const filters = this.#site.output[0];
    const kernel = this.#kernel;
    run(which, batch, channels, height, width, filters, kernel, kernel, this.#stride, this.#padding, a9, a10, a11, a12, a13, a14);
  }

  forward(input: number, pass: Pass): number {
    const { parameters } = this.#site;
    const bias = this.#bias ? parameters[1] : 0;
    this.#input = input;
    this.#run(KERNEL.convolutionForward, pass.batch, input, parameters[0], bias, this.#output.address, this.#scratch.address, 0);
    return this.#output.address;
  }

  backward(gradient: number, pass: Pass): number {
    const { parameters, gradients, inputGradient } = this.#site;
    const bias = this.#bias ? gradients[1] : 0;
    const scratch = this.#scratch.address;
    const add = pass.accumulate ? 1 : 0;
    this.#run(KERNEL.convolutionBackwardWeights, pass.batch, this.#input, gradient, gradients[0], bias, add, scratch);
    if (!inputGradient) return 0;
    this.#run(KERNEL.convolutionBackwardInput, pass.batch, gradient, parameters[0], this.#gradient.address, scratch, 0, 0);
    return this.#gradient.address;
  }
}
