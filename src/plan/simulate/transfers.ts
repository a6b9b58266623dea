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
  /**
   * A message enters its first channel at `now` (not before the last `advance`). A multicast gives the union of its paths and its own latency, the
   * longest of them; elsewhere latency is the sum over the path.
   */
  start(id: number, path: readonly number[], bytes: number, now: number, latencyNs?: number): void;
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
  readonly #fabric: Fabric;
  readonly #solver: MaxMinSolver;
  readonly #arrivals = new EventHeap();
  #ids: number[] = [];
  #paths: (readonly number[])[] = [];
  #left: number[] = [];
  #latencies: number[] = [];
  #rates = new Float64Array(64);
  #clock = 0;
  #finish = Number.POSITIVE_INFINITY;
  #stale = false;

  constructor(fabric: Fabric) {
    this.#fabric = fabric;
    this.#solver = new MaxMinSolver(fabric.capacity);
  }

  start(id: number, path: readonly number[], bytes: number, now: number, latencyNs = pathLatencyNs(this.#fabric, path)): void {
    if (bytes <= 0 || path.length === 0) {
      this.#arrivals.push(now + latencyNs, id);
      return;
    }
    this.#drain(now);
    this.#ids.push(id);
    this.#paths.push(path);
    this.#left.push(bytes);
    this.#latencies.push(latencyNs);
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
      else this.#arrivals.push(this.#clock + this.#latencies[i], this.#ids[i]);
    }
    this.#ids = keep.map((i) => this.#ids[i]);
    this.#paths = keep.map((i) => this.#paths[i]);
    this.#left = keep.map((i) => this.#left[i]);
    this.#latencies = keep.map((i) => this.#latencies[i]);
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

/** Latency of a path: the sum over its channels. */
export function pathLatencyNs(fabric: Fabric, path: readonly number[]): number {
  let sum = 0;
  for (const channel of path) sum += fabric.latency[channel];
  return sum;
}

/** A message and its way. `latencyNs` only where it is not the sum over the path. */
export interface Flow {
  path: readonly number[];
  readonly bytes: number;
  latencyNs?: number;
}

/** Runs messages that all start at time 0 and returns when each arrives. */
export function runTogether(fabric: Fabric, flows: readonly Flow[]): Float64Array {
  const transfers = makeTransfers(fabric);
  const arrival = new Float64Array(flows.length);
  for (let i = 0; i < flows.length; i++) transfers.start(i, flows[i].path, flows[i].bytes, 0, flows[i].latencyNs);
  for (let time = transfers.nextTime(); time < Number.POSITIVE_INFINITY; time = transfers.nextTime()) {
    for (const id of transfers.advance(time)) arrival[id] = time;
  }
  return arrival;
}
