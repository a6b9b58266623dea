/**
 * The order of samples: a new seeded permutation every epoch, cut into global batches, each cut into shares of the ranks.
 *
 *   permutation   [ ........ batch 0 ........ | ........ batch 1 ........ | .. tail .. ]
 *   batch 0       [ rank 0 | rank 1 | rank 2 ]     shares differ by at most one sample
 *
 * Everything follows from (seed, epoch, batch, rank, ranks), so all ranks agree without talking, each sample is seen exactly once an epoch, and a
 * global batch holds the same samples however many ranks share it.
 */
import { Random } from '../random.js';

export interface SamplerOptions {
  /** Samples in the data set; at least 1. */
  count: number;
  /** Samples of all ranks together in a step; at least 1. The last batch of an epoch may be smaller. */
  globalBatch: number;
  /** An integer. Default: 1. */
  seed?: number;
  /** Shuffle. Default: true. */
  shuffle?: boolean;
}

export class Sampler {
  readonly count: number;
  readonly globalBatch: number;
  /** Steps in an epoch, the smaller last one included. */
  readonly stepsPerEpoch: number;
  readonly #seed: number;
  readonly #shuffle: boolean;
  readonly #order: Uint32Array;
  #epoch = -1;

  constructor(options: SamplerOptions) {
    const { count, globalBatch, seed = 1, shuffle = true } = options;
    if (!Number.isSafeInteger(count) || count < 1) throw new RangeError(`count must be an integer of at least 1, not ${count}`);
    if (!Number.isSafeInteger(globalBatch) || globalBatch < 1) {
      throw new RangeError(`globalBatch must be an integer of at least 1, not ${globalBatch}`);
    }
    this.count = count;
    this.globalBatch = globalBatch;
    this.stepsPerEpoch = Math.ceil(count / globalBatch);
    this.#seed = seed;
    this.#shuffle = shuffle;
    this.#order = Uint32Array.from({ length: count }, (_, i) => i);
  }

  /** Samples of all ranks in this step of an epoch, 0 .. stepsPerEpoch - 1. A view that the next epoch overwrites. */
  batch(epoch: number, step: number): Uint32Array {
    if (epoch !== this.#epoch && this.#shuffle) {
      for (let i = 0; i < this.count; i++) this.#order[i] = i;
      new Random(this.#seed, epoch).shuffle(this.#order);
      this.#epoch = epoch;
    }
    const from = step * this.globalBatch;
    return this.#order.subarray(from, Math.min(from + this.globalBatch, this.count));
  }

  /** This rank's share of that batch. May be empty when the batch has fewer samples than there are ranks. */
  share(epoch: number, step: number, rank: number, ranks: number): Uint32Array {
    const all = this.batch(epoch, step);
    return all.subarray(Math.floor((all.length * rank) / ranks), Math.floor((all.length * (rank + 1)) / ranks));
  }
}
