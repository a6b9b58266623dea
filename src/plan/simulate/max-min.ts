/**
 * Max-min fair rates: no flow can go faster without slowing one that is not faster than itself.
 *
 * Progressive filling: the channel with the smallest fair share (capacity left over flows left) is the next bottleneck; its flows get that
 * share and leave; what they use is taken off the other channels they cross. Shares only grow, so a heap of channels with lazy
 * updates finds the bottlenecks in order: O(hops log channels) altogether, which is what makes thousands of flows cheap.
 */
import { EventHeap } from './event-heap.js';

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
    const heap = new EventHeap();
    for (const channel of used) {
      left[channel] = this.#capacity[channel];
      heap.push(left[channel] / count[channel], channel);
    }
    rates.fill(-1, 0, paths.length);
    while (heap.size > 0) {
      const stored = heap.firstTime;
      const channel = heap.pop();
      if (count[channel] === 0) continue;
      const share = Math.max(0, left[channel]) / count[channel];
      if (share > stored * (1 + 1e-12)) {
        heap.push(share, channel);
        continue;
      }
      for (let i = this.#start[channel]; i < this.#end[channel]; i++) {
        const flow = flowsOf[i];
        if (rates[flow] >= 0) continue;
        rates[flow] = share;
        for (const crossed of paths[flow]) {
          left[crossed] -= share;
          count[crossed]--;
        }
      }
    }
    for (let flow = 0; flow < paths.length; flow++) if (rates[flow] < 0) rates[flow] = Number.POSITIVE_INFINITY;
    for (const channel of used) count[channel] = 0;
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
