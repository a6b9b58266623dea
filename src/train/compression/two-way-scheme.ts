/**
 * Compressed both ways, for dense encodings among many ranks:
 *
 *   1. the bucket is cut into a part for each rank, each part is encoded; an all-to-all brings rank r the encodings of part r
 *   2. rank r adds them up and encodes the sum; an all-gather brings everybody the encodings of all sums
 *
 * 2 n bytes of encoding leave and reach a rank, whatever their number; gathering all encodings would be p n. Each of the two encodings keeps what it leaves out.
 */
import type { PreparedCall } from '../../collectives/index.js';
import type { BucketTimes } from '../gradient-exchange.js';
import type { Codec } from './codec.js';
import { addInto } from './kernels.js';
import { arenaBytes, FirstCall, type Scheme, type SchemeContext } from './scheme.js';

export class TwoWayScheme implements Scheme {
  readonly #context: SchemeContext;
  readonly #codec: Codec;
  readonly #room: number;
  /** Numbers of a part; the last parts may have fewer. */
  readonly #part: number;
  readonly #out: Uint8Array;
  readonly #in: Uint8Array;
  readonly #sums: Uint8Array;
  readonly #rest: Float32Array;
  /** Of this rank's part: the sum, and after encoding what it left out. */
  readonly #sum: Float32Array;
  readonly #exchange: FirstCall;
  readonly #gather: PreparedCall;

  constructor(context: SchemeContext, codec: Codec) {
    const { communicator, device, gradients } = context;
    const { rank, size } = communicator;
    this.#context = context;
    this.#codec = codec;
    this.#part = Math.ceil(gradients.length / size);
    this.#room = codec.room(this.#part);
    this.#out = arenaBytes(device, this.#room * size);
    this.#in = arenaBytes(device, this.#room * size);
    this.#sums = arenaBytes(device, this.#room * size);
    this.#rest = new Float32Array(gradients.length);
    this.#sum = new Float32Array(this.#of(gradients, rank).length);
    this.#exchange = new FirstCall(communicator.prepareAlltoall(this.#out, this.#in), context.background);
    this.#gather = communicator.prepareAllgather(this.#sums);
  }

  get sentBytes(): number {
    return 2 * this.#room * (this.#context.communicator.size - 1);
  }

  begin(): void {
    const { communicator, gradients, errorFeedback } = this.#context;
    addInto(this.#rest, gradients);
    for (let r = 0; r < communicator.size; r++) this.#codec.encode(this.#of(this.#rest, r), this.#encoding(this.#out, r));
    if (!errorFeedback) this.#rest.fill(0);
    this.#exchange.begin();
  }

  wait(): Promise<void> {
    return this.#exchange.wait();
  }

  finish(): void {
    this.#exchange.finish();
    const { communicator, gradients, errorFeedback } = this.#context;
    const { rank, size } = communicator;
    for (let r = 0; r < size; r++) this.#codec.decode(this.#encoding(this.#in, r), this.#sum, true);
    this.#codec.encode(this.#sum, this.#encoding(this.#sums, rank));
    if (!errorFeedback) this.#sum.fill(0);
    this.#gather.runSync();
    for (let r = 0; r < size; r++) this.#codec.decode(this.#encoding(this.#sums, r), this.#of(gradients, r), false);
  }

  times(): BucketTimes {
    return { bucket: this.#context.bucket, ...this.#exchange.times };
  }

  #of(vector: Float32Array, rank: number): Float32Array {
    return vector.subarray(rank * this.#part, (rank + 1) * this.#part);
  }

  #encoding(all: Uint8Array, rank: number): Uint8Array {
    return all.subarray(rank * this.#room, (rank + 1) * this.#room);
  }
}
