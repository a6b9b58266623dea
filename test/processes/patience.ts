/**
 * Polling on a machine with fewer cores than pollers: spins for a while, then gives the core away for some microseconds, without a turn of
 * the event loop.
 */

const SPINS = 2000;

export class Patience {
  readonly #word = new Int32Array(new SharedArrayBuffer(4));
  #spins = 0;

  /** Nothing was there. */
  lose(): void {
    if (++this.#spins < SPINS) return;
    Atomics.wait(this.#word, 0, 0, 0.05);
  }

  /** Something came. */
  win(): void {
    this.#spins = 0;
  }
}
