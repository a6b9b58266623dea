/** A binary heap of integers ordered by time, first in first out among equals: the agenda of the simulators. */
export class EventHeap {
  readonly #times: number[] = [];
  readonly #orders: number[] = [];
  readonly #values: number[] = [];
  #order = 0;

  get size(): number {
    return this.#times.length;
  }

  /** Time of the first event; Infinity when there is none. */
  get firstTime(): number {
    return this.#times.length > 0 ? this.#times[0] : Number.POSITIVE_INFINITY;
  }

  push(time: number, value: number): void {
    let i = this.#times.length;
    this.#times.push(time);
    this.#orders.push(this.#order++);
    this.#values.push(value);
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (!this.#before(i, parent)) break;
      this.#swap(i, parent);
      i = parent;
    }
  }

  /** Removes and returns the value of the first event. The heap must not be empty. */
  pop(): number {
    const value = this.#values[0];
    this.#swap(0, this.#times.length - 1);
    this.#times.pop();
    this.#orders.pop();
    this.#values.pop();
    for (let i = 0; ; ) {
      const left = 2 * i + 1;
      if (left >= this.#times.length) break;
      const right = left + 1;
      const child = right < this.#times.length && this.#before(right, left) ? right : left;
      if (!this.#before(child, i)) break;
      this.#swap(child, i);
      i = child;
    }
    return value;
  }

  #before(i: number, j: number): boolean {
    return this.#times[i] < this.#times[j] || (this.#times[i] === this.#times[j] && this.#orders[i] < this.#orders[j]);
  }

  #swap(i: number, j: number): void {
    for (const list of [this.#times, this.#orders, this.#values]) {
      const kept = list[i];
      list[i] = list[j];
      list[j] = kept;
    }
  }
}
