/**
 * Max-min fair rates: no flow can go faster without slowing one that is not faster than itself.
 *
 * Progressive filling, level by level: the channels with the smallest fair share (capacity left over flows left) are the next bottlenecks; their flows get that
 * share and leave; what they use is taken off the other channels they cross. Each level is one pass over the channels still in use. Real traffic has few levels
 * (how many flows meet on a link is a small number), so passes beat a priority queue by an order of magnitude.
 */

export class MaxMinSolver {
  readonly #capacity: Float64Array;
  readonly #left: Float64Array;
  readonly #count: Int32Array;
  readonly #start: Int32Array;
  readonly #end: Int32Array;

  constructor(capacity: Float64Array) {
    this.#capacity = capacity;
    this.#left = new Float64Array(capacity.length);
    this.#count = new Int32Array(capacity.length);
    this.#start = new Int32Array(capacity.length);
    this.#end = new Int32Array(capacity.length);
  }

  /** Writes the rate of every flow (bytes per nanosecond) into `rates`. A flow without channels gets Infinity. */
  solve(paths: readonly (readonly number[])[], rates: Float64Array): void {
    const { used, flowsOf } = this.#index(paths);
    const left = this.#left;
    const count = this.#count;
    for (const channel of used) left[channel] = this.#capacity[channel];
    rates.fill(-1, 0, paths.length);
    const active = Int32Array.from(used);
    for (let remaining = active.length; remaining > 0; ) {
      let level = Number.POSITIVE_INFINITY;
      let kept = 0;
      for (let i = 0; i < remaining; i++) {
        const channel = active[i];
        if (count[channel] === 0) continue;
        active[kept++] = channel;
        const share = left[channel] / count[channel];
        if (share < level) level = share;
      }
      remaining = kept;
      level = Math.max(0, level);
      const limit = level * (1 + 1e-12);
      for (let i = 0; i < remaining; i++) {
        const channel = active[i];
        if (count[channel] > 0 && left[channel] <= limit * count[channel]) this.#freeze(channel, level, paths, flowsOf, rates);
      }
    }
    for (let flow = 0; flow < paths.length; flow++) if (rates[flow] < 0) rates[flow] = Number.POSITIVE_INFINITY;
    for (const channel of used) count[channel] = 0;
  }

  /** Gives all flows of a bottleneck their share, and takes it off the channels they cross. */
  #freeze(channel: number, share: number, paths: readonly (readonly number[])[], flowsOf: Int32Array, rates: Float64Array): void {
    for (let i = this.#start[channel]; i < this.#end[channel]; i++) {
      const flow = flowsOf[i];
      if (rates[flow] >= 0) continue;
      rates[flow] = share;
      for (const crossed of paths[flow]) {
        this.#left[crossed] -= share;
        this.#count[crossed]--;
      }
    }
  }

  /** Flows by channel: the flows of channel c are flowsOf[start[c] .. end[c] - 1]. */
  #index(paths: readonly (readonly number[])[]): { used: number[]; flowsOf: Int32Array } {
    const count = this.#count;
    const used: number[] = [];
    let total = 0;
    for (const path of paths) {
      for (const channel of path) {
        if (count[channel]++ === 0) used.push(channel);
        total++;
      }
    }
    let next = 0;
    for (const channel of used) {
      this.#start[channel] = this.#end[channel] = next;
      next += count[channel];
    }
    const flowsOf = new Int32Array(total);
    for (let flow = 0; flow < paths.length; flow++) {
      for (const channel of paths[flow]) flowsOf[this.#end[channel]++] = flow;
    }
    return { used, flowsOf };
  }
}
