/**
 * Deadlock of a routing, by its channel-dependency graph.
 *
 * A message that holds channel c and waits for channel d makes an edge c -> d. If the graph of all such edges has a cycle, a
 * lossless network can lock up: every message of the cycle holds what the next one needs. Splitting a channel into virtual channels, and moving
 * to the next one at well-chosen places, cuts the cycle. The rules tried here, cheapest first:
 *
 * | rule          | the virtual channel rises                                        | known from            |
 * |---------------|------------------------------------------------------------------|-----------------------|
 * | `single`      | never                                                            | trees, meshes         |
 * | `dateline`    | when a ring's wrap link is crossed; starts again per dimension   | tori                  |
 * | `after-global`| after every global link                                          | dragonflies           |
 * | `per-hop`     | at every hop: never a cycle, one virtual channel per hop         | any network           |
 */

import { PlanRefusal } from '../refusal.js';
import { linkRoles, type Network } from '../topology/network.js';
import type { Router } from './router.js';

export type ChannelRule = 'single' | 'dateline' | 'after-global' | 'per-hop';

/** Whether the routes of a network can wait for each other in a circle, and how many virtual channels prevent it. */
export interface DeadlockReport {
  /** Whether the routing is free of deadlock on one virtual channel. */
  readonly freeWithOneChannel: boolean;
  /** A cycle of channels on one virtual channel, as vertex names; empty when there is none. */
  readonly cycle: readonly string[];
  /** The cheapest rule without a cycle. */
  readonly rule: ChannelRule;
  /** Virtual channels that rule needs. */
  readonly virtualChannels: number;
  readonly paths: number;
}

/** Checks all routes between switches (one endpoint of each). Refuses networks with more than `maxPaths` routes (default 2,000,000). */
export function checkDeadlock(network: Network, router: Router, maxPaths = 2_000_000): DeadlockReport {
  const ends = representatives(network);
  if (ends.length * ends.length > maxPaths) {
    throw new PlanRefusal(
      `${ends.length} switches have ${ends.length ** 2} routes: too many to check; check a smaller instance`,
      `${Math.floor(Math.sqrt(maxPaths))} switches`,
    );
  }
  const paths: number[][] = [];
  for (const source of ends) {
    for (const target of ends) {
      if (source === target) continue;
      for (const path of router.everyPath(source, target)) paths.push(path);
      if (paths.length > maxPaths) throw new PlanRefusal(`more than ${maxPaths} routes: check a smaller instance`);
    }
  }
  const single = findCycle(network, paths, 'single');
  for (const rule of rulesFor(network)) {
    const { cycle, virtualChannels } = rule === 'single' ? single : findCycle(network, paths, rule);
    if (cycle.length > 0) continue;
    const names = single.cycle.map(
      (channel) => `${vertexName(network, network.tail[channel])}->${vertexName(network, network.head[channel])}`,
    );
    return { freeWithOneChannel: single.cycle.length === 0, cycle: names, rule, virtualChannels, paths: paths.length };
  }
  throw new Error('the per-hop rule has a cycle, which cannot be');
}

function rulesFor(network: Network): ChannelRule[] {
  const hasGlobal = network.role.includes(linkRoles.indexOf('global'));
  return [
    'single',
    ...(network.grid?.wrap ? ['dateline' as const] : []),
    ...(hasGlobal ? ['after-global' as const] : []),
    'per-hop',
  ];
}

/** One endpoint per switch, or all endpoints where they forward themselves. */
function representatives(network: Network): number[] {
  if (network.endpointsForward) return Array.from({ length: network.endpoints }, (_, i) => i);
  const seen = new Set<number>();
  const ends: number[] = [];
  for (let v = 0; v < network.endpoints; v++) {
    const hub = network.head[network.outChannel[network.outStart[v]]];
    if (seen.has(hub)) continue;
    seen.add(hub);
    ends.push(v);
  }
  return ends;
}

function findCycle(
  network: Network,
  paths: readonly number[][],
  rule: ChannelRule,
): { cycle: number[]; virtualChannels: number } {
  const channels = 2 * network.links;
  const edges = new Map<number, Set<number>>();
  let highest = 0;
  for (const path of paths) {
    let before = -1;
    let level = 0;
    for (let hop = 0; hop < path.length; hop++) {
      level = nextLevel(network, rule, path, hop, level);
      highest = Math.max(highest, level);
      const state = level * channels + path[hop];
      if (before >= 0) {
        const out = edges.get(before);
        if (out === undefined) edges.set(before, new Set([state]));
        else out.add(state);
      }
      before = state;
    }
  }
  return { cycle: anyCycle(edges).map((state) => state % channels), virtualChannels: highest + 1 };
}

/** Virtual channel used on hop `hop`, given the one used before. */
function nextLevel(network: Network, rule: ChannelRule, path: readonly number[], hop: number, level: number): number {
  if (rule === 'single' || hop === 0) return 0;
  if (rule === 'per-hop') return hop;
  const previous = path[hop - 1];
  if (rule === 'after-global') return level + (isRole(network, previous, 'global') ? 1 : 0);
  const sameDimension = dimensionOf(network, previous) === dimensionOf(network, path[hop]);
  if (!sameDimension) return 0;
  return isRole(network, previous, 'wrap') ? 1 : level;
}

function isRole(network: Network, channel: number, role: 'global' | 'wrap'): boolean {
  return network.role[channel >> 1] === linkRoles.indexOf(role);
}

function dimensionOf(network: Network, channel: number): number {
  const sizes = network.grid?.sizes ?? [];
  let [a, b] = [network.tail[channel], network.head[channel]];
  for (let d = 0; d < sizes.length; d++) {
    if (a % sizes[d] !== b % sizes[d]) return d;
    a = Math.floor(a / sizes[d]);
    b = Math.floor(b / sizes[d]);
  }
  return -1;
}

/** Some cycle of a directed graph, or an empty list; depth-first with an explicit stack. */
function anyCycle(edges: ReadonlyMap<number, ReadonlySet<number>>): number[] {
  const done = new Set<number>();
  for (const start of edges.keys()) {
    if (done.has(start)) continue;
    const trail: number[] = [];
    const onTrail = new Set<number>();
    const iterators: Iterator<number>[] = [];
    const enter = (state: number): void => {
      trail.push(state);
      onTrail.add(state);
      iterators.push((edges.get(state) ?? new Set<number>())[Symbol.iterator]());
    };
    enter(start);
    while (trail.length > 0) {
      const next = iterators[iterators.length - 1].next();
      if (next.done) {
        iterators.pop();
        const state = trail.pop() as number;
        onTrail.delete(state);
        done.add(state);
      } else if (onTrail.has(next.value)) return trail.slice(trail.indexOf(next.value));
      else if (!done.has(next.value)) enter(next.value);
    }
  }
  return [];
}

function vertexName(network: Network, vertex: number): string {
  return vertex < network.endpoints ? `e${vertex}` : `s${vertex - network.endpoints}`;
}
