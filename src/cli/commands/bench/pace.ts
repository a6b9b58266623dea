/**
 * How many operations fit a time: batches of a wanted size, as many as fit, found from what the last run took. A batch that alone would take
 * too long is made smaller, in steps of `step`, because a result that arrives is worth more than a full batch.
 */

/** Batches of one round at least, where there is time for them. */
const MIN_BATCHES = 4;
const MAX_BATCHES = 2000;

export class Pace {
  #batch: number;
  readonly #wanted: number;
  readonly #step: number;
  /** Time of one operation, from the last run; 0: not known yet. */
  #operationMs = 0;

  /**
   * @param batch operations of one batch, when time allows
   * @param step smaller batches are multiples of this
   */
  constructor(batch: number, step: number) {
    this.#wanted = batch;
    this.#batch = step;
    this.#step = step;
  }

  /** Operations of one batch as used last. */
  get batch(): number {
    return this.#batch;
  }

  #plan(durationMs: number): { batch: number; batches: number } {
    if (this.#operationMs === 0) return { batch: this.#step, batches: 1 };
    const fits = durationMs / this.#operationMs;
    const batch = Math.min(this.#wanted, Math.max(this.#step, Math.floor(fits / MIN_BATCHES / this.#step) * this.#step));
    return { batch, batches: Math.min(MAX_BATCHES, Math.max(1, Math.round(fits / batch))) };
  }

  /** Runs `act` for about `durationMs`; the first time in growing pieces, until the speed is known. Returns the values of the last piece. */
  async run<T>(durationMs: number, act: (batch: number, batches: number) => Promise<T>): Promise<T> {
    for (;;) {
      const { batch, batches } = this.#plan(durationMs);
      const start = performance.now();
      const result = await act(batch, batches);
      const took = performance.now() - start;
      const wasKnown = this.#operationMs > 0;
      this.#operationMs = took / (batch * batches);
      this.#batch = batch;
      if (wasKnown && (took > durationMs / 4 || batches === MAX_BATCHES)) return result;
    }
  }
}
