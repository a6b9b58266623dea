/**
 * How long a loop waits for something that a living peer does in microseconds. A loop that polls cannot hear that the peer or the parent
 * is gone, so it asks here now and then: counting is almost free, and the clock is read only every million turns.
 */

const TURNS_PER_LOOK = 1 << 20;

export class Patience {
  readonly #limitMs: number;
  #turns = 0;
  #since = 0;

  /** @param limitMs default 10 s. */
  constructor(limitMs = 10_000) {
    this.#limitMs = limitMs;
  }

  /** Call when something happened. */
  reset(): void {
    this.#turns = 0;
    this.#since = 0;
  }

  /** Call once per idle turn. Throws when the time is over. */
  turn(): void {
    if (++this.#turns < TURNS_PER_LOOK) return;
    this.#turns = 0;
    const now = performance.now();
    if (this.#since === 0) this.#since = now;
    else if (now - this.#since > this.#limitMs) throw new Error(`the other side has been silent for ${this.#limitMs / 1000} s`);
  }
}
