/** Words that the results of atomics come back to. */

import type { MemoryRegion } from '../../verbs/index.js';
import { MessagingError } from '../errors.js';

export class AtomicResults {
  readonly region: MemoryRegion;
  readonly #words: BigUint64Array;
  readonly #free: number[] = [];

  constructor(region: MemoryRegion) {
    this.region = region;
    this.#words = new BigUint64Array(region.bytes.buffer, region.bytes.byteOffset, region.length >> 3);
    for (let i = this.#words.length - 1; i >= 0; i--) this.#free.push(i);
  }

  /** Throws MSG_INVALID when too many atomics are under way. */
  take(): number {
    const at = this.#free.pop();
    if (at === undefined) throw new MessagingError('MSG_INVALID', `${this.#words.length} atomics are under way: wait for some`);
    return at;
  }

  value(at: number): bigint {
    return this.#words[at];
  }

  give(at: number): void {
    this.#free.push(at);
  }
}
