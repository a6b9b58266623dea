/**
 * Routing: which channels a message takes from one vertex to another.
 *
 * - `minimal`: one shortest path per pair, chosen by the destination, as static forwarding tables do (spreads shifts and rings evenly).
 * - `ecmp`: a shortest path picked by a hash of the flow at every vertex, as Ethernet fabrics do; colliding hashes share links.
 * - `valiant`: minimal to a random switch, then minimal to the target. Twice the hops, but no bad permutation: every traffic looks
 *   like random traffic. For dragonflies, where minimal routing sends a whole group's traffic over one cable.
 * - grids (mesh, torus) go dimension by dimension in all three, because that is what keeps them free of deadlock.
 *
 * A global link of a dragonfly counts as three hops: minimal routing there is local, global, local, never a detour over a third group
 * that happens to have as few hops. Distances are found once per destination switch and kept.
 */
import { PlanRefusal } from '../refusal.js';
import { linkRoles, type Network } from '../topology/network.js';

/** minimal: one shortest path; ecmp: spread over all shortest ones; valiant: over a random node in between. */
export type Routing = 'minimal' | 'ecmp' | 'valiant';

export interface Router {
  readonly routing: Routing;
  /** Channels from vertex `source` to vertex `target`, in order. `flow` distinguishes flows of one pair (ecmp, valiant). */
  route(source: number, target: number, flow?: number): number[];
  /** Every path a message from `source` to `target` might take. Small networks only. */
  everyPath(source: number, target: number): number[][];
}

export interface RouterOptions {
  /** Seed of hashed choices. Default 1. */
  readonly seed?: number;
}

/** A router of the network. The same seed gives the same paths. @throws PlanRefusal. */
export function makeRouter(network: Network, routing: Routing, options: RouterOptions = {}): Router {
  const seed = options.seed ?? 1;
  const table = new DistanceTable(network);
  const grid = network.grid;
  const shortest = (source: number, target: number, choose: Choice): number[] => {
    if (grid !== undefined) return gridPath(network, source, target);
    return table.path(source, target, choose);
  };
  const hashed = (source: number, target: number, flow: number): Choice => ({
    vertex: (vertex, count) => mix(seed, source, target, flow * 65_537 + vertex) % count,
    link: (vertex, count) => mix(seed + 7, source, target, flow * 65_537 + vertex) % count,
  });
  const switches = network.vertices - network.endpoints;
  const firstMiddle = switches > 0 ? network.endpoints : 0;
  const middles = switches > 0 ? switches : network.endpoints;

  const everyShortest = (source: number, target: number): number[][] =>
    grid !== undefined ? [gridPath(network, source, target)] : table.everyPath(source, target);

  return {
    routing,
    route(source, target, flow = 0) {
      if (source === target) return [];
      if (routing === 'minimal') return shortest(source, target, byDestination(target));
      const hash = hashed(source, target, flow);
      if (routing === 'ecmp') return shortest(source, target, hash);
      const middle = firstMiddle + (mix(seed + 1, source, target, flow) % middles);
      return joined(shortest(source, middle, hash), shortest(middle, target, hash));
    },
    everyPath(source, target) {
      if (routing === 'minimal') return [this.route(source, target)];
      if (routing === 'ecmp') return everyShortest(source, target);
      const paths: number[][] = [];
      for (let middle = firstMiddle; middle < firstMiddle + middles; middle++) {
        for (const first of everyShortest(source, middle)) {
          for (const second of everyShortest(middle, target)) paths.push(joined(first, second));
        }
      }
      return paths;
    },
  };
}

/** How a router chooses: among the next vertices on a shortest path, then among parallel links to the one chosen. */
interface Choice {
  vertex(vertex: number, count: number): number;
  link(vertex: number, count: number): number;
}

/**
 * By digits of the destination: each choice of a vertex takes one, so the levels of a tree spread by different digits; parallel links look at the next digit without taking
 * it, so that a bundle going down spreads like the bundle that came up.
 */
function byDestination(target: number): Choice {
  let rest = target;
  return {
    vertex(_vertex, count) {
      const digit = rest % count;
      rest = Math.floor(rest / count);
      return digit;
    },
    link: (_vertex, count) => rest % count,
  };
}

/** Two legs as one path; steps that the second leg takes back at once are left out, so a path never turns on its heel. */
function joined(first: number[], second: number[]): number[] {
  let end = first.length;
  let start = 0;
  while (end > 0 && start < second.length && first[end - 1] === (second[start] ^ 1)) {
    end--;
    start++;
  }
  return [...first.slice(0, end), ...second.slice(start)];
}

class DistanceTable {
  readonly #network: Network;
  readonly #distances = new Map<number, Uint8Array>();
  /** Hops a link counts for, per link. */
  readonly #weight: Uint8Array;

  constructor(network: Network) {
    this.#network = network;
    const global = linkRoles.indexOf('global');
    this.#weight = network.role.map((role) => (role === global ? 3 : 1));
  }

  path(source: number, target: number, choose: Choice): number[] {
    const { head, tail, outStart, outChannel } = this.#network;
    const last = this.#lastChannel(target);
    const goal = last < 0 ? target : tail[last];
    const distance = this.#to(goal);
    const path: number[] = [];
    let v = source;
    const leaving = this.#lastChannel(source);
    if (leaving >= 0) {
      path.push(leaving ^ 1);
      v = head[leaving ^ 1];
    }
    const heads: number[] = [];
    const parallel: number[] = [];
    while (v !== goal) {
      heads.length = 0;
      for (let i = outStart[v]; i < outStart[v + 1]; i++) {
        const w = head[outChannel[i]];
        if (this.#nearer(distance, v, outChannel[i]) && !heads.includes(w)) heads.push(w);
      }
      if (heads.length === 0) throw new PlanRefusal(`there is no way from vertex ${source} to vertex ${target}`);
      const next = heads[choose.vertex(v, heads.length)];
      parallel.length = 0;
      for (let i = outStart[v]; i < outStart[v + 1]; i++) if (head[outChannel[i]] === next) parallel.push(outChannel[i]);
      path.push(parallel[choose.link(v, parallel.length)]);
      v = next;
    }
    if (last >= 0) path.push(last);
    return path;
  }

  everyPath(source: number, target: number): number[][] {
    const { head, tail, outStart, outChannel } = this.#network;
    const last = this.#lastChannel(target);
    const goal = last < 0 ? target : tail[last];
    const leaving = this.#lastChannel(source);
    const distance = this.#to(goal);
    const paths: number[][] = [];
    const walk = (v: number, path: number[]): void => {
      if (v === goal) {
        paths.push(last >= 0 ? [...path, last] : path);
        return;
      }
      for (let i = outStart[v]; i < outStart[v + 1]; i++) {
        if (this.#nearer(distance, v, outChannel[i])) walk(head[outChannel[i]], [...path, outChannel[i]]);
      }
    };
    if (leaving >= 0) walk(head[leaving ^ 1], [leaving ^ 1]);
    else walk(source, []);
    return paths;
  }

  #nearer(distance: Uint8Array, v: number, channel: number): boolean {
    return distance[this.#network.head[channel]] === distance[v] - this.#weight[channel >> 1];
  }

  /** The only channel into an endpoint that hangs on one switch, or -1. */
  #lastChannel(vertex: number): number {
    const { endpoints, endpointsForward, outStart, outChannel } = this.#network;
    if (vertex >= endpoints || endpointsForward || outStart[vertex + 1] - outStart[vertex] !== 1) return -1;
    return outChannel[outStart[vertex]] ^ 1;
  }

  /** Weighted distance of every vertex to `goal`; 255: not reachable, or an endpoint that does not forward. */
  #to(goal: number): Uint8Array {
    const kept = this.#distances.get(goal);
    if (kept !== undefined) return kept;
    const { vertices, endpoints, endpointsForward, head, outStart, outChannel } = this.#network;
    const distance = new Uint8Array(vertices).fill(255);
    const frontier: number[][] = [[goal]];
    distance[goal] = 0;
    for (let d = 0; d < frontier.length && d < 252; d++) {
      for (const v of frontier[d] ?? []) {
        if (distance[v] !== d) continue;
        for (let i = outStart[v]; i < outStart[v + 1]; i++) {
          const w = head[outChannel[i]];
          const through = d + this.#weight[outChannel[i] >> 1];
          if (through >= distance[w] || (w < endpoints && !endpointsForward)) continue;
          distance[w] = through;
          frontier[through] ??= [];
          frontier[through].push(w);
        }
      }
    }
    this.#distances.set(goal, distance);
    return distance;
  }
}

/** Dimension-order path on a mesh or torus: x first, then y, then z; on a ring the shorter way, ties upward. */
function gridPath(network: Network, source: number, target: number): number[] {
  const { sizes, wrap } = network.grid as NonNullable<Network['grid']>;
  const path: number[] = [];
  let v = source;
  let stride = 1;
  for (const size of sizes) {
    let from = Math.floor(v / stride) % size;
    const to = Math.floor(target / stride) % size;
    const forward = (to - from + size) % size;
    const up = wrap && size > 2 ? forward <= size - forward : to > from;
    while (from !== to) {
      const next = up ? (from + 1) % size : (from - 1 + size) % size;
      const w = v + (next - from) * stride;
      path.push(channelBetween(network, v, w));
      v = w;
      from = next;
    }
    stride *= size;
  }
  return path;
}

function channelBetween(network: Network, a: number, b: number): number {
  for (let i = network.outStart[a]; i < network.outStart[a + 1]; i++) {
    if (network.head[network.outChannel[i]] === b) return network.outChannel[i];
  }
  throw new Error(`no channel from ${a} to ${b}`);
}

/** A 31-bit hash of four integers. */
function mix(a: number, b: number, c: number, d: number): number {
  let h = 0x9e3779b9;
  for (const value of [a, b, c, d]) {
    h = Math.imul(h ^ value, 0x85ebca6b);
    h ^= h >>> 13;
    h = Math.imul(h, 0xc2b2ae35);
    h ^= h >>> 16;
  }
  return h >>> 1;
}
