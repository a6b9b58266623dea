/**
 * Batch norm over each channel of [channels, ...]: in training by the statistics of the batch, in evaluation by their running average.
 *
 * With `pass.reduce` the statistics are those of the batch of all ranks (sync batch norm): one sum over ranks of 2 x channels + 1 numbers
 * forward, and one of 2 x channels backward. Gain and shift get the gradient of this rank's samples only: the sum over ranks comes
 * with all other gradients. Sums are in f64, so that sum and sum of squares are enough.
 *
 *   state: [ running mean of each channel | running variance of each channel ]
 */
import { constant } from '../initializers.js';
import { addressOf, Block, KERNEL, run } from '../kernels.js';
import { type Layer, type LayerSpec, type Pass, type Site, sizeOf } from '../layer.js';

export interface BatchNormOptions {
  /** Added to the variance; above 0. Default: 1e-5. */
  epsilon?: number;
  /** Share of the newest batch in the running averages; 0 < momentum <= 1. Default: 0.1. */
  momentum?: number;
}

export function batchNorm(options: BatchNormOptions = {}): LayerSpec {
  const { epsilon = 1e-5, momentum = 0.1 } = options;
  if (!(epsilon > 0)) throw new RangeError(`batchNorm epsilon must be above 0, not ${epsilon}`);
  if (!(momentum > 0 && momentum <= 1)) throw new RangeError(`batchNorm momentum must be in (0, 1], not ${momentum}`);
  return {
    kind: 'batchNorm',
    outputShape(input) {
      if (input.length === 0) throw new RangeError('batchNorm takes [channels, ...]');
      return input;
    },
    parameters: (input) => [
      { name: 'weight', shape: [input[0]], initial: constant(1), decay: false },
      { name: 'bias', shape: [input[0]], initial: constant(0), decay: false },
    ],
    stateSize: (input) => 2 * input[0],
    initializeState: (state) => {
      state.fill(1, state.length / 2);
    },
    create: (site) => new BatchNorm(site, epsilon, momentum),
  };
}

class BatchNorm implements Layer {
  readonly #site: Site;
  readonly #epsilon: number;
  readonly #momentum: number;
  readonly #channels: number;
  readonly #plane: number;
  readonly #output: Block;
  readonly #gradient: Block;
  readonly #mean: Block;
  readonly #inverse: Block;
  /** Two numbers a channel, then how many numbers of a channel they are over. */
  readonly #sums: Float64Array;
  readonly #sumsAddress: number;
  readonly #gradients: Float32Array;
  #input = 0;
  #count = 0;

  constructor(site: Site, epsilon: number, momentum: number) {
    this.#site = site;
    this.#epsilon = epsilon;
    this.#momentum = momentum;
    this.#channels = site.input[0];
    this.#plane = sizeOf(site.input) / this.#channels;
    this.#output = Block.zeros(site.maxBatch * sizeOf(site.input));
    this.#gradient = Block.zeros(site.maxBatch * sizeOf(site.input));
    this.#mean = Block.zeros(this.#channels);
    this.#inverse = Block.zeros(this.#channels);
    this.#sums = new Float64Array(2 * this.#channels + 1);
    this.#sumsAddress = addressOf(this.#sums);
    this.#gradients = new Float32Array(this.#channels * 2);
  }

  /** Mean and deviation of this batch, of all ranks where there are several; the running averages follow. */
  #measure(input: number, pass: Pass): void {
    const sums = this.#sums;
    const { state } = this.#site;
    const channels = this.#channels;
    run(KERNEL.batchNormSums, input, pass.batch, channels, this.#plane, this.#sumsAddress);
    sums[2 * channels] = pass.batch * this.#plane;
    pass.reduce?.(sums);
    this.#count = sums[2 * channels];
    for (let c = 0; c < channels; c++) {
      const mean = sums[2 * c] / this.#count;
      const variance = Math.max(sums[2 * c + 1] / this.#count - mean * mean, 0);
      this.#mean.data[c] = mean;
      this.#inverse.data[c] = 1 / Math.sqrt(variance + this.#epsilon);
      const unbiased = this.#count > 1 ? (variance * this.#count) / (this.#count - 1) : variance;
      state[c] += this.#momentum * (mean - state[c]);
      state[channels + c] += this.#momentum * (unbiased - state[channels + c]);
    }
  }

  forward(input: number, pass: Pass): number {
    const { parameters, state } = this.#site;
    const channels = this.#channels;
    this.#input = input;
    if (pass.training) {
      this.#measure(input, pass);
    } else {
      for (let c = 0; c < channels; c++) {
        this.#mean.data[c] = state[c];
        this.#inverse.data[c] = 1 / Math.sqrt(state[channels + c] + this.#epsilon);
      }
    }
    const to = this.#output.address;
    const { address: mean } = this.#mean;
    const { address: inverse } = this.#inverse;
    run(KERNEL.batchNormForward, input, mean, inverse, parameters[0], parameters[1], to, pass.batch, channels, this.#plane);
    return to;
  }

  /** Only of a training pass: the statistics of an evaluation are constants, and nobody trains through them here. */
  backward(gradient: number, pass: Pass): number {
    if (!pass.training) throw new Error('batchNorm has no backward of an evaluation pass: give training: true to forward');
    const sums = this.#sums;
    const channels = this.#channels;
    const { address: mean } = this.#mean;
    const { address: inverse } = this.#inverse;
    run(KERNEL.batchNormBackwardSums, gradient, this.#input, mean, inverse, pass.batch, channels, this.#plane, this.#sumsAddress);
    this.#writeGradients(pass.accumulate);
    sums[2 * channels] = 0;
    pass.reduce?.(sums);
    const to = this.#gradient.address;
    const gain = this.#site.parameters[0];
    const count = this.#count;
    const plane = this.#plane;
    const sumsAt = this.#sumsAddress;
    run(KERNEL.batchNormBackward, gradient, this.#input, mean, inverse, gain, sumsAt, count, to, pass.batch, channels, plane);
    return to;
  }

  /** The sums before they are reduced are the gradients of shift and gain of this rank's samples. */
  #writeGradients(accumulate: boolean): void {
    const [dGain, dShift] = this.#site.gradients;
    const channels = this.#channels;
    const values = this.#gradients;
    for (let c = 0; c < channels; c++) {
      values[c] = this.#sums[2 * c + 1];
      values[channels + c] = this.#sums[2 * c];
    }
    const from = addressOf(values);
    const add = accumulate ? 1 : 0; // one row of gradients, as of a bias
    run(KERNEL.biasBackward, from, dGain, 1, channels, add);
    run(KERNEL.biasBackward, from + 4 * channels, dShift, 1, channels, add);
  }
}
