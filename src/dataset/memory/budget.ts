/**
 * A bound: how many bytes of something this rank may hold. Whoever wants bytes asks first; a no means spilling, waiting or an error, whatever the asker can do.
 *
 * ```
 *   |<------- half: what waits, map output and caches ------->|<-- a quarter: one operator -->|<-- buffers, blocks in flight -->|
 * ```
 */

import { getHeapStatistics } from 'node:v8';

export class Budget {
  readonly limit: number;
  /** What map output and caches may fill; beyond it they go to disk, or are not kept. */
  readonly waiting: number;
  /** What one operator may hold before it spills: a part of the bound and of JavaScript's heap. It depends on nothing else, so every attempt spills at the same place. */
  readonly share: number;
  /** Gives back what lies idle until no more than so many bytes are used. Set by who keeps memory for its next use. */
  reclaim: (most: number) => void = () => {};
  #used = 0;
  #peak = 0;

  /** @param limit bytes. */
  constructor(limit: number) {
    this.limit = limit;
    this.waiting = limit / 2;
    this.share = Math.min(limit, getHeapStatistics().heap_size_limit) / 4;
  }

  get used(): number {
    return this.#used;
  }

  /** The most that was held at once. */
  get peak(): number {
    return this.#peak;
  }

  get free(): number {
    return this.limit - this.#used;
  }

  /** Takes bytes if the bound allows, or a lower one. */
  tryTake(bytes: number, limit = this.limit): boolean {
    if (this.#used + bytes > limit) this.reclaim(limit - bytes);
    if (this.#used + bytes > limit) return false;
    this.take(bytes);
    return true;
  }

  /** Takes bytes whatever the bound says: for what cannot be done with less. */
  take(bytes: number): void {
    if (this.#used + bytes > this.limit) this.reclaim(this.limit - bytes);
    this.#used += bytes;
    if (this.#used > this.#peak) this.#peak = this.#used;
  }

  give(bytes: number): void {
    this.#used -= bytes;
  }
}
