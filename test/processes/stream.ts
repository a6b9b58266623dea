/** A stream of messages of random sizes with contents that follow from the seed: what both ends of the stream test agree on. */

import { Random } from './random.js';

export class Stream {
  static readonly SLOT = 1 << 17;
  static readonly SLOTS = 32;
  /** All slots, bytes. */
  static readonly MEMORY = 32 << 17;

  readonly #random: Random;
  #sequence = 0;

  constructor(seed: number) {
    this.#random = new Random(seed);
  }

  /** Length of the next message: mostly small, some large. */
  #length(): number {
    const kind = this.#random.between(0, 999);
    if (kind < 700) return this.#random.between(0, 64);
    if (kind < 980) return this.#random.between(65, 2000);
    if (kind < 997) return this.#random.between(2001, 20_000);
    return this.#random.between(20_001, Stream.SLOT);
  }

  /** Writes the next message at `offset` and returns its length. The sequence number is `sequence`. */
  fill(bytes: Uint8Array, offset: number): number {
    const length = this.#length();
    let state = this.#random.next();
    for (let i = offset; i < offset + length; i++) {
      state = (Math.imul(state, 1103515245) + 12345) | 0;
      bytes[i] = state >>> 16;
    }
    this.#sequence++;
    return length;
  }

  /** Number of messages so far. */
  get sequence(): number {
    return this.#sequence;
  }

  /** What is wrong with a message that arrived at `offset`, or undefined. */
  check(bytes: Uint8Array, offset: number, length: number, sequence: number): string | undefined {
    if (sequence !== this.#sequence) return `number ${sequence} instead of ${this.#sequence}`;
    const expected = this.#length();
    let state = this.#random.next();
    this.#sequence++;
    if (length !== expected) return `${length} bytes instead of ${expected}`;
    for (let i = offset; i < offset + length; i++) {
      state = (Math.imul(state, 1103515245) + 12345) | 0;
      if (bytes[i] !== ((state >>> 16) & 0xff)) return `byte ${i - offset} of ${length} is ${bytes[i]}`;
    }
    return undefined;
  }
}
