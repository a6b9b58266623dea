/** Random numbers from a seed, so that a failing round can be run again. */

export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = (Math.imul(seed, 0x9e3779b1) ^ 0x85ebca6b) >>> 0 || 1;
  }

  /** 32 bits. */
  next(): number {
    let x = this.#state;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.#state = x >>> 0;
    return this.#state;
  }

  /** An integer from `low` to `high`, both included. */
  between(low: number, high: number): number {
    return low + (this.next() % (high - low + 1));
  }

  /** One of the values. */
  pick<T>(values: readonly T[]): T {
    return values[this.between(0, values.length - 1)];
  }
}
