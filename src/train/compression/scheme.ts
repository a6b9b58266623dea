/**
 * A scheme: how one bucket travels compressed. Three kinds of algebra, three files:
 *
 * - gather-scheme.ts: encodings that only their maker can add up (top-k, threshold; all codecs among two ranks): all-gather, everybody adds up.
 * - two-way-scheme.ts: dense encodings among more than two: each rank adds up its part and encodes the sum (2 n instead of p n bytes).
 * - random-k-scheme.ts, power-sgd-scheme.ts: encodings whose sum is the encoding of the sum: an all-reduce of few numbers.
 *
 * In every scheme what the ranks leave out stays with them: sum over ranks of (gradient + what was left over before) = result + sum of what is left over now.
 */
import type { Communicator, PreparedCall } from '../../collectives/index.js';
import type { ParameterRange } from '../../nn/index.js';
import type { Device } from '../../verbs/index.js';
import type { Bucket, BucketTimes } from '../gradient-exchange.js';

export interface SchemeContext {
  readonly communicator: Communicator;
  readonly device: Device;
  readonly bucket: Bucket;
  /** The bucket's part of the gradient: what comes in, and where the sum over all ranks goes. */
  readonly gradients: Float32Array;
  /** Tensors in it, counted from its start. */
  readonly ranges: readonly ParameterRange[];
  /** Whether what is left out is kept for the next step. */
  readonly errorFeedback: boolean;
  /** Whether backward goes on after this bucket, so that there is something to hide behind. */
  readonly background: boolean;
}

export interface Scheme {
  /** Encodes, and starts what can go on in the background. */
  begin(step: number): void;
  /** Waits for the background. @throws RankLost and others of the communicator. */
  wait(): Promise<void>;
  /** What is left when all buckets have begun and the background is over: may call collectives of its own, on this thread, and leaves the sum in the gradients. */
  finish(step: number): void;
  /** Bytes that this rank sent in the last step. */
  readonly sentBytes: number;
  /** When the background part of the last step travelled. */
  times(): BucketTimes;
}

/** A call that runs behind backward, or, where there is nothing to hide behind, on the calling thread, which saves the way to the other and back. */
export class FirstCall {
  readonly #call: PreparedCall;
  readonly #background: boolean;
  #running: Promise<unknown> | undefined;

  constructor(call: PreparedCall, background: boolean) {
    this.#call = call;
    this.#background = background;
    call.measure();
  }

  begin(): void {
    // A failure is reported by wait().
    if (this.#background) this.#running = this.#call.run().catch((error: unknown) => error ?? new Error('the exchange failed'));
  }

  async wait(): Promise<void> {
    const failure = await this.#running;
    this.#running = undefined;
    if (failure !== undefined) throw failure;
  }

  finish(): void {
    if (!this.#background) this.#call.runSync();
  }

  get times(): PreparedCall['times'] {
    return this.#call.times;
  }
}

/** Arena memory of `bytes` bytes, so that collectives use it where it lies. */
export function arenaBytes(device: Device, bytes: number): Uint8Array {
  return new Uint8Array(device.alloc(Math.max(8, bytes)), 0, bytes);
}

/** Arena memory of `floats` floats. */
export function arenaFloats(device: Device, floats: number): Float32Array {
  return new Float32Array(device.alloc(Math.max(8, 4 * floats)), 0, floats);
}
