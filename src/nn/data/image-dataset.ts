/**
 * Images of bytes and their labels, in memory; a batch is made by normalising the chosen ones into a Float32Array.
 * Bytes stay bytes: 60,000 images of 28 x 28 are 47 MB instead of 188 MB.
 */
import { addressOf, KERNEL, run } from '../kernels.js';
import type { IdxArray } from './idx.js';

/** What images are normalised by. */
export interface Normalization {
  /** Mean of the data, bytes read as 0 .. 1. */
  mean: number;
  /** Standard deviation of the data. */
  deviation: number;
}

export class ImageDataset {
  readonly count: number;
  /** [channels, height, width] */
  readonly shape: readonly [number, number, number];
  readonly images: Uint8Array;
  readonly labels: Uint8Array;
  readonly #normalization: Normalization;

  /** `images` [count, height, width], `labels` [count]. Throws a RangeError when they do not fit each other. */
  constructor(images: IdxArray, labels: IdxArray, normalization: Normalization) {
    if (images.shape.length !== 3) throw new RangeError(`images are [count, height, width], not [${images.shape.join(', ')}]`);
    if (labels.shape.length !== 1 || labels.shape[0] !== images.shape[0]) {
      throw new RangeError(`${images.shape[0]} images need as many labels, not [${labels.shape.join(', ')}]`);
    }
    this.count = images.shape[0];
    this.shape = [1, images.shape[1], images.shape[2]];
    this.images = images.data;
    this.labels = labels.data;
    this.#normalization = normalization;
  }

  /**
   * Writes the images and labels of these samples, in this order. Throws a RangeError when there is no such sample, or the arrays are too short.
   */
  read(samples: Uint32Array, images: Float32Array, labels: Int32Array): void {
    const size = this.shape[1] * this.shape[2];
    const { mean, deviation } = this.#normalization;
    if (images.length < samples.length * size || labels.length < samples.length) {
      throw new RangeError(`${samples.length} samples need ${samples.length * size} floats and ${samples.length} labels`);
    }
    for (let s = 0; s < samples.length; s++) {
      if (samples[s] >= this.count) throw new RangeError(`there is no sample ${samples[s]} among ${this.count}`);
      labels[s] = this.labels[samples[s]];
    }
    const factor = 1 / (255 * deviation);
    const to = addressOf(images);
    run(KERNEL.gatherBytes, addressOf(samples), addressOf(this.images), to, samples.length, size, factor, -mean / deviation);
  }
}
