/**
 * Transfers under way, with time: the two switching models behind one interface.
 *
 * - `FluidTransfers` (cut-through): a message is a flow; flows share channels max-min fairly, and rates change when one starts or ends. It arrives
 *   when its last byte has left plus the latencies of its path.
 * - `QueuedTransfers` (store-and-forward): a message occupies one channel after the other, whole; a channel serves in order of arrival.
 *
 * The caller owns the clock: `start` at the present, ask `nextTime`, then `advance` to it and collect what arrived.
 */
import { EventHeap } from './event-heap.js';
import type { Fabric } from './fabric.js';
import { MaxMinSolver } from './max-min.js';

export interface Transfers {
  /** A message enters its first channel at `now` (not before the last `advance`). */
  start(id: number, path: readonly number[], bytes: number, now: number): void;
  /** When something happens next; Infinity when nothing is under way. */
  nextTime(): number;
  /** Moves the clock to `time` and returns the ids that have arrived by then. */
  advance(time: number): number[];
}

export function makeTransfers(fabric: Fabric): Transfers {
  if (fabric.options.switching === 'store-and-forward') return new QueuedTransfers(fabric);
  return new FluidTransfers(fabric);
}

class FluidTransfers implements Transfers {
  readonly #latency: Float64Array;
  readonly #solver: MaxMinSolver;
  readonly #arrivals = new EventHeap();
  #ids: number[] = [];
  #paths: (readonly number[])[] = [];
  #left: number[] = [];
  #rates = new Float64Array(64);
  #clock = 0;
  #finish = Number.POSITIVE_INFINITY;
  #stale = false;

  constructor(fabric: Fabric) {
    this.#latency = fabric.latency;
    this.#solver = new MaxMinSolver(fabric.capacity);
  }

  start(id: number, path: readonly number[], bytes: number, now: number): void {
    if (bytes <= 0 || path.length === 0) {
      this.#arrivals.push(now + this.#latencyOf(path), id);
      return;
    }
    this.#drain(now);
    this.#ids.push(id);
    this.#paths.push(path);
    this.#left.push(bytes);
    this.#stale = true;
  }

  nextTime(): number {
    if (this.#stale) this.#resolve();
    return Math.min(this.#finish, this.#arrivals.firstTime);
  }

  advance(time: number): number[] {
    if (this.#stale) this.#resolve();
    this.#drain(time);
    if (time >= this.#finish) this.#retire();
    const arrived: number[] = [];
    while (this.#arrivals.firstTime <= time) arrived.push(this.#arrivals.pop());
    return arrived;
  }

  #latencyOf(path: readonly number[]): number {
    let sum = 0;
    for (const channel of path) sum += this.#latency[channel];
    return sum;
  }

  #drain(time: number): void {
    const step = time - this.#clock;
    this.#clock = time;
    if (step <= 0 || this.#stale) return;
    for (let i = 0; i < this.#left.length; i++) this.#left[i] -= this.#rates[i] * step;
  }

  #resolve(): void {
    const n = this.#paths.length;
    if (this.#rates.length < n) this.#rates = new Float64Array(2 * n);
    this.#solver.solve(this.#paths, this.#rates);
    let soonest = Number.POSITIVE_INFINITY;
    for (let i = 0; i < n; i++) soonest = Math.min(soonest, this.#left[i] / this.#rates[i]);
    this.#finish = this.#clock + Math.max(0, soonest);
    this.#stale = false;
  }

  /** Takes out every flow that ends now; those that would end within a millionth of a byte end with them. */
  #retire(): void {
    const keep: number[] = [];
    for (let i = 0; i < this.#ids.length; i++) {
      if (this.#left[i] > 1e-6 + this.#rates[i] * 1e-9) keep.push(i);
      else this.#arrivals.push(this.#clock + this.#latencyOf(this.#paths[i]), this.#ids[i]);
    }
    this.#ids = keep.map((i) => this.#ids[i]);
    this.#paths = keep.map((i) => this.#paths[i]);
    this.#left = keep.map((i) => this.#left[i]);
    this.#stale = true;
  }
}

class QueuedTransfers implements Transfers {
  readonly #fabric: Fabric;
  readonly #free: Float64Array;
  readonly #events = new EventHeap();
  readonly #ids: number[] = [];
  readonly #paths: (readonly number[])[] = [];
  readonly #bytes: number[] = [];
  readonly #hop: number[] = [];

  constructor(fabric: Fabric) {
    this.#fabric = fabric;
    this.#free = new Float64Array(fabric.capacity.length);
  }

  start(id: number, path: readonly number[], bytes: number, now: number): void {
    this.#ids.push(id);
    this.#paths.push(path);
    this.#bytes.push(bytes);
    this.#hop.push(0);
    this.#events.push(now, this.#ids.length - 1);
  }

  nextTime(): number {
    return this.#events.firstTime;
  }

  advance(time: number): number[] {
    const { capacity, latency, options } = this.#fabric;
    const arrived: number[] = [];
    while (this.#events.firstTime <= time) {
      const now = this.#events.firstTime;
      const message = this.#events.pop();
      const path = this.#paths[message];
      const hop = this.#hop[message]++;
      if (hop === path.length) {
        arrived.push(this.#ids[message]);
        continue;
      }
      const channel = path[hop];
      const exact = this.#bytes[message] / capacity[channel];
      const busy = options.wholeNanoseconds ? Math.floor(exact) : exact;
      const begin = Math.max(now, this.#free[channel]);
      this.#free[channel] = begin + busy;
      this.#events.push(begin + busy + latency[channel], message);
    }
    return arrived;
  }
}

/** Runs messages that all start at time 0 and returns when each arrives. */
export function runTogether(fabric: Fabric, paths: readonly (readonly number[])[], bytes: readonly number[]): Float64Array {
  const transfers = makeTransfers(fabric);
  const arrival = new Float64Array(paths.length);
  for (let i = 0; i < paths.length; i++) transfers.start(i, paths[i], bytes[i], 0);
  for (let time = transfers.nextTime(); time < Number.POSITIVE_INFINITY; time = transfers.nextTime()) {
    for (const id of transfers.advance(time)) arrival[id] = time;
  }
  return arrival;
}
