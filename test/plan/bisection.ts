/**
 * Bisection width by search: the smallest number of links cut over all balanced halves of the endpoints, where every
 * switch may stand on either side.
 *
 * For one choice of halves the best place of the switches is a minimum cut, so the exact answer is a maximum flow per
 * choice; that is why the exact form is for networks of at most 20 endpoints. `bisectionUpperBound` swaps pairs
 * of endpoints while that helps, which gives a bound from above for networks of some hundred endpoints.
 */

import { PlanRefusal } from '../../src/plan/refusal.js';
import type { Network } from '../../src/plan/topology/network.js';

/** Exact bisection width. Refuses more than 20 endpoints: use the closed form, or `bisectionUpperBound`. */
export function exactBisection(network: Network): number {
  const n = network.endpoints;
  if (n > 20) throw new PlanRefusal(`exact bisection tries every half, and ${n} endpoints are too many`, '20');
  if (n < 2) return 0;
  const half = Math.floor(n / 2);
  const flow = new CutFinder(network);
  const side = new Uint8Array(n);
  let best = Number.POSITIVE_INFINITY;
  const choose = (next: number, chosen: number): void => {
    if (chosen === half) {
      best = Math.min(best, flow.cut(side, best));
      return;
    }
    if (n - next < half - chosen) return;
    side[next] = 1;
    choose(next + 1, chosen + 1);
    side[next] = 0;
    choose(next + 1, chosen);
  };
  if (n % 2 === 0) {
    side[0] = 1; // by symmetry endpoint 0 may stand on a fixed side
    choose(1, 1);
  } else choose(0, 0);
  return best;
}

/** An upper bound of the bisection width: the best of several starting halves, improved by swapping endpoints. */
export function bisectionUpperBound(network: Network, starts: readonly Uint8Array[]): number {
  const flow = new CutFinder(network);
  let best = Number.POSITIVE_INFINITY;
  for (const start of starts) {
    const side = start.slice();
    let cut = flow.cut(side, Number.POSITIVE_INFINITY);
    for (let improved = true; improved; ) {
      improved = false;
      for (let a = 0; a < side.length && !improved; a++) {
        for (let b = a + 1; b < side.length && !improved; b++) {
          if (side[a] === side[b]) continue;
          [side[a], side[b]] = [side[b], side[a]];
          const next = flow.cut(side, cut);
          if (next < cut) {
            cut = next;
            improved = true;
          } else [side[a], side[b]] = [side[b], side[a]];
        }
      }
    }
    best = Math.min(best, cut);
  }
  return best;
}

/** Minimum cut between two sets of endpoints (augmenting paths over unit links; small networks only). */
class CutFinder {
  readonly #network: Network;
  readonly #residual: Int8Array;
  readonly #via: Int32Array;
  readonly #queue: Int32Array;

  constructor(network: Network) {
    this.#network = network;
    this.#residual = new Int8Array(2 * network.links);
    this.#via = new Int32Array(network.vertices);
    this.#queue = new Int32Array(network.vertices);
  }

  /** Links cut between endpoints of side 1 and side 0; stops and returns `limit` as soon as it is reached. */
  cut(side: Uint8Array, limit: number): number {
    this.#residual.fill(1);
    let flow = 0;
    while (flow < limit && this.#augment(side)) flow++;
    return flow;
  }

  #augment(side: Uint8Array): boolean {
    const { endpoints, head, outStart, outChannel } = this.#network;
    const via = this.#via.fill(-2);
    const queue = this.#queue;
    let tail = 0;
    for (let v = 0; v < endpoints; v++) {
      if (side[v] === 1) {
        via[v] = -1;
        queue[tail++] = v;
      }
    }
    for (let front = 0; front < tail; front++) {
      const v = queue[front];
      for (let i = outStart[v]; i < outStart[v + 1]; i++) {
        const channel = outChannel[i];
        const w = head[channel];
        if (this.#residual[channel] === 0 || via[w] !== -2) continue;
        via[w] = channel;
        if (w < endpoints && side[w] === 0) {
          this.#push(w);
          return true;
        }
        queue[tail++] = w;
      }
    }
    return false;
  }

  #push(end: number): void {
    const { tail } = this.#network;
    for (let v = end; this.#via[v] >= 0; v = tail[this.#via[v]]) {
      const channel = this.#via[v];
      this.#residual[channel]--;
      this.#residual[channel ^ 1]++;
    }
  }
}
