/** As gather-scheme.ts, for encodings whose length nobody knows before: the ranks tell each other the lengths first, so only what counts travels. */

import { nowMs } from '../clock.js';
import type { BucketTimes } from '../gradient-exchange.js';
import type { Codec } from './codec.js';
import { addInto } from './kernels.js';
import { arenaBytes, type Scheme, type SchemeContext } from './scheme.js';

export class ThresholdScheme implements Scheme {
  readonly #context: SchemeContext;
  readonly #codec: Codec;
  readonly #own: Uint8Array;
  readonly #all: Uint8Array;
  readonly #rest: Float32Array;
  #length = 0;
  #times = { beganMs: 0, metMs: 0, endedMs: 0 };

  constructor(context: SchemeContext, codec: Codec) {
    const { communicator, device, gradients } = context;
    const room = codec.room(gradients.length);
    this.#context = context;
    this.#codec = codec;
    this.#own = new Uint8Array(room);
    this.#all = arenaBytes(device, room * communicator.size);
    this.#rest = new Float32Array(gradients.length);
  }

  get sentBytes(): number {
    return this.#length * (this.#context.communicator.size - 1);
  }

  begin(): void {
    addInto(this.#rest, this.#context.gradients);
    this.#length = this.#codec.encode(this.#rest, this.#own);
    if (!this.#context.errorFeedback) this.#rest.fill(0);
  }

  async wait(): Promise<void> {}

  finish(): void {
    const { communicator, gradients } = this.#context;
    const beganMs = nowMs();
    const lengths = new Int32Array(communicator.size);
    lengths[communicator.rank] = this.#length;
    communicator.allgatherSync(lengths);
    const metMs = nowMs();
    const starts = [...lengths].map((_, r) => lengths.subarray(0, r).reduce((sum, length) => sum + length, 0));
    const total = lengths.reduce((sum, length) => sum + length, 0);
    const all = this.#all.subarray(0, total);
    all.set(this.#own.subarray(0, this.#length), starts[communicator.rank]);
    communicator.allgatherSync(all, { counts: [...lengths] });
    this.#times = { beganMs, metMs, endedMs: nowMs() };
    for (const [r, start] of starts.entries()) this.#codec.decode(all.subarray(start, start + lengths[r]), gradients, r > 0);
  }

  times(): BucketTimes {
    return { bucket: this.#context.bucket, ...this.#times };
  }
}
