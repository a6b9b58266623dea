/**
 * What adapters share: the tensors of a framework as one flat vector in memory that every rank maps, averaged by one all-reduce, plain or compressed.
 *
 * Frameworks keep tensors in memory of their own (WebAssembly, WebGPU, plain arrays), so they are copied in and out; the sum itself copies nothing. The lengths are
 * fixed by the first call: a model does not change shape while it trains.
 */
import { Communicator } from '../collectives/communicator.js';
import type { World } from '../launch/index.js';
import { type Compression, checkCompression } from '../train/compression/compression.js';
import { schemeOf } from '../train/compression/scheme-choice.js';
import type { Device } from '../verbs/index.js';
import { openDevice } from '../verbs/open-device.js';

export interface DistributedOptions {
  /** What becomes of the ranks' gradients. Default 'avg', the mean: right where every rank has as many samples. */
  readonly reduction?: 'avg' | 'sum';
  /** Gradients travel compressed; what that leaves out is added to the next ones (error feedback). Default: as they are. */
  readonly compression?: Compression;
  /**
   * Updates that make one exchange: all but the last of so many only add their gradients up and change nothing, the last applies their mean. So k updates equal one of a k times
   * as large batch. At least 1. Default 1.
   */
  readonly accumulate?: number;
}

/** One tensor to exchange. */
export interface Part {
  readonly shape: readonly number[];
  readonly length: number;
  /** Its numbers. */
  read(): ArrayLike<number>;
}

export class FlatGradients {
  readonly communicator: Communicator;
  readonly #device: Device;
  readonly #owned: boolean;
  readonly #options: DistributedOptions;
  readonly #accumulate: number;
  #gathered = 0;
  #exchanges = 0;
  #flat: Float32Array | undefined;
  #exchange: () => void = () => {};
  #lengths: readonly number[] = [];

  private constructor(communicator: Communicator, device: Device, owned: boolean, options: DistributedOptions) {
    this.communicator = communicator;
    this.#device = device;
    this.#owned = owned;
    this.#options = options;
    this.#accumulate = options.accumulate ?? 1;
  }

  /** All ranks call it. A communicator that is given stays open when this closes. Throws a RangeError for a bad option, what opening a device and `Communicator.of` throw. */
  static async open(group: World | Communicator, options: DistributedOptions = {}): Promise<FlatGradients> {
    const { accumulate = 1, compression } = options;
    if (!Number.isSafeInteger(accumulate) || accumulate < 1)
      throw new RangeError(`accumulate must be an integer of at least 1, not ${accumulate}`);
    if (compression !== undefined) checkCompression(compression);
    const owned = !(group instanceof Communicator);
    const communicator = group instanceof Communicator ? group : await Communicator.of(group);
    return new FlatGradients(communicator, await openDevice('shm'), owned, options);
  }

  /**
   * The parts, averaged over the ranks: views that the next call overwrites. The same parts at all ranks. Undefined: they were added up, and others are still to come (`accumulate`).
   * Throws RankLost, a RangeError for other lengths than before.
   */
  reduce(parts: readonly Part[]): Float32Array[] | undefined {
    const views = this.#gather(parts, this.#gathered > 0);
    if (++this.#gathered < this.#accumulate) return undefined;
    this.#gathered = 0;
    scale(this.#flat as Float32Array, 1 / this.#accumulate);
    this.#exchange();
    return views;
  }

  /** The parts of rank `root`, at all ranks. */
  broadcast(parts: readonly Part[], root = 0): Float32Array[] {
    const views = this.#gather(parts, false);
    this.communicator.broadcastSync(this.#flat as Float32Array, root);
    return views;
  }

  /** Writes the parts one after the other, or adds them to what is there. */
  #gather(parts: readonly Part[], add: boolean): Float32Array[] {
    const lengths = parts.map(({ length }) => length);
    const total = lengths.reduce((sum, length) => sum + length, 0);
    if (this.#flat === undefined) {
      this.#flat = new Float32Array(this.#device.alloc(Math.max(4, 4 * total)), 0, total);
      this.#lengths = lengths;
      this.#exchange = this.#prepare(this.#flat, parts);
    } else if (lengths.length !== this.#lengths.length || lengths.some((length, i) => length !== this.#lengths[i])) {
      throw new RangeError(`tensors of lengths [${lengths}] after [${this.#lengths}]: a model keeps its shape while it trains`);
    }
    let at = 0;
    return parts.map((part) => {
      const view = (this.#flat as Float32Array).subarray(at, at + part.length);
      const numbers = part.read();
      if (add) for (let i = 0; i < view.length; i++) view[i] += numbers[i];
      else view.set(numbers);
      at += part.length;
      return view;
    });
  }

  #prepare(flat: Float32Array, parts: readonly Part[]): () => void {
    const { communicator } = this;
    const { reduction = 'avg', compression } = this.#options;
    if (compression === undefined) {
      const call = communicator.prepareAllreduce(flat, reduction);
      return () => call.runSync();
    }
    const ends = parts.map((_, i) => parts.slice(0, i + 1).reduce((sum, { length }) => sum + length, 0));
    const ranges = parts.map(({ shape, length }, i) => ({
      name: `${i}`,
      shape,
      from: ends[i] - length,
      to: ends[i],
      decay: false,
    }));
    const bucket = { index: 0, from: 0, to: flat.length };
    const context = {
      communicator,
      device: this.#device,
      bucket,
      gradients: flat,
      ranges,
      errorFeedback: true,
      background: false,
    };
    const scheme = schemeOf(compression, context);
    return () => {
      scheme.begin(this.#exchanges);
      scheme.finish(this.#exchanges++);
      if (reduction === 'avg') scale(flat, 1 / communicator.size);
    };
  }

  /** Gives up memory and device. Idempotent. */
  close(): void {
    if (this.#owned) this.communicator.close();
    this.#device.close();
  }
}

function scale(values: Float32Array, factor: number): void {
  if (factor !== 1) for (let i = 0; i < values.length; i++) values[i] *= factor;
}
