/**
 * A bound: how many bytes of something this rank may hold. Whoever wants bytes asks first; a no means spilling, waiting or an error, whatever the asker can do.
 */
export class Budget {
  readonly limit: number;
  #used = 0;
  #peak = 0;

  /** @param limit bytes. */
  constructor(limit: number) {
    this.limit = limit;
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

  /** Takes bytes if the bound allows. */
  tryTake(bytes: number): boolean {
    if (this.#used + bytes > this.limit) return false;
    this.take(bytes);
    return true;
  }

  /** Takes bytes whatever the bound says: for what cannot be done with less. */
  take(bytes: number): void {
    this.#used += bytes;
    if (this.#used > this.#peak) this.#peak = this.#used;
  }

  give(bytes: number): void {
    this.#used -= bytes;
  }
}
