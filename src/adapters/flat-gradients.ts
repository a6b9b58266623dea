/**
 * What adapters share: the tensors of a framework as one flat vector in memory that every rank maps, averaged by one all-reduce.
 *
 * Frameworks keep tensors in memory of their own (WebAssembly, WebGPU, plain arrays), so they are copied in and out; the sum itself copies nothing. The lengths are
 * fixed by the first call: a model does not change shape while it trains.
 */
import { Communicator, type PreparedCall } from '../collectives/index.js';
import type { World } from '../launch/index.js';
import { type Device, openDevice } from '../verbs/index.js';

export interface DistributedOptions {
  /** What becomes of the ranks' gradients. Default 'avg', the mean: right where every rank has as many samples. */
  readonly reduction?: 'avg' | 'sum';
}

/** One tensor to exchange. */
export interface Part {
  readonly length: number;
  /** Its numbers. */
  read(): ArrayLike<number>;
}

export class FlatGradients {
  readonly communicator: Communicator;
  readonly #device: Device;
  readonly #owned: boolean;
  readonly #reduction: 'avg' | 'sum';
  #flat: Float32Array | undefined;
  #call: PreparedCall | undefined;
  #lengths: readonly number[] = [];

  private constructor(communicator: Communicator, device: Device, owned: boolean, options: DistributedOptions) {
    this.communicator = communicator;
    this.#device = device;
    this.#owned = owned;
    this.#reduction = options.reduction ?? 'avg';
  }

  /** All ranks call it. A communicator that is given stays open when this closes. Throws what opening a device and `Communicator.of` throw. */
  static async open(group: World | Communicator, options: DistributedOptions = {}): Promise<FlatGradients> {
    const owned = !(group instanceof Communicator);
    const communicator = group instanceof Communicator ? group : await Communicator.of(group);
    return new FlatGradients(communicator, await openDevice('shm'), owned, options);
  }

  /** The parts, averaged over the ranks: views that the next call overwrites. The same parts at all ranks. Throws RankLost, a RangeError for other lengths than before. */
  reduce(parts: readonly Part[]): Float32Array[] {
    const views = this.#gather(parts);
    this.#call?.runSync();
    return views;
  }

  /** The parts of rank `root`, at all ranks. */
  broadcast(parts: readonly Part[], root = 0): Float32Array[] {
    const views = this.#gather(parts);
    this.communicator.broadcastSync(this.#flat as Float32Array, root);
    return views;
  }

  #gather(parts: readonly Part[]): Float32Array[] {
    const lengths = parts.map(({ length }) => length);
    const total = lengths.reduce((sum, length) => sum + length, 0);
    if (this.#flat === undefined) {
      this.#flat = new Float32Array(this.#device.alloc(Math.max(4, 4 * total)), 0, total);
      this.#lengths = lengths;
      this.#call = this.communicator.prepareAllreduce(this.#flat, this.#reduction);
    } else if (lengths.length !== this.#lengths.length || lengths.some((length, i) => length !== this.#lengths[i])) {
      throw new RangeError(`tensors of lengths [${lengths}] after [${this.#lengths}]: a model keeps its shape while it trains`);
    }
    let at = 0;
    return parts.map((part) => {
      const view = (this.#flat as Float32Array).subarray(at, at + part.length);
      view.set(part.read());
      at += part.length;
      return view;
    });
  }

  /** Gives up memory and device. Idempotent. */
  close(): void {
    if (this.#owned) this.communicator.close();
    this.#device.close();
  }
}
