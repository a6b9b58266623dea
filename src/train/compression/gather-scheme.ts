/** Everybody encodes its own, all encodings go to everybody, and everybody adds them up in the order of the ranks: the same bits everywhere. */
import type { BucketTimes } from '../gradient-exchange.js';
import type { Codec } from './codec.js';
import { addInto } from './kernels.js';
import { arenaBytes, FirstCall, type Scheme, type SchemeContext } from './scheme.js';

export class GatherScheme implements Scheme {
  readonly #context: SchemeContext;
  readonly #codec: Codec;
  readonly #room: number;
  /** Encodings of all ranks. */
  readonly #all: Uint8Array;
  /** What was left out so far. */
  readonly #rest: Float32Array;
  readonly #call: FirstCall;

  constructor(context: SchemeContext, codec: Codec) {
    const { communicator, device, gradients } = context;
    this.#context = context;
    this.#codec = codec;
    this.#room = codec.room(gradients.length);
    this.#all = arenaBytes(device, this.#room * communicator.size);
    this.#rest = new Float32Array(gradients.length);
    this.#call = new FirstCall(communicator.prepareAllgather(this.#all), context.background);
  }

  get sentBytes(): number {
    return this.#room * (this.#context.communicator.size - 1);
  }

  begin(): void {
    const { communicator, gradients, errorFeedback } = this.#context;
    addInto(this.#rest, gradients);
    this.#codec.encode(this.#rest, this.#encoding(communicator.rank));
    if (!errorFeedback) this.#rest.fill(0);
    this.#call.begin();
  }

  wait(): Promise<void> {
    return this.#call.wait();
  }

  finish(): void {
    this.#call.finish();
    const { communicator, gradients } = this.#context;
    for (let r = 0; r < communicator.size; r++) this.#codec.decode(this.#encoding(r), gradients, r > 0);
  }

  times(): BucketTimes {
    return { bucket: this.#context.bucket, ...this.#call.times };
  }

  #encoding(rank: number): Uint8Array {
    return this.#all.subarray(rank * this.#room, (rank + 1) * this.#room);
  }
}
