/**
 * Simulation by rounds: the steps of a schedule one after the other, each as long as its slowest message. Every distinct pattern of traffic is solved
 * once and repeated, so a ring of 16,384 ranks (32,766 steps) costs as much as one step.
 *
 * What a round costs: the messages of a sender are posted one after the other (overhead), all of them share the fabric, and the receiver combines what
 * it got; switches post and combine at wire speed. Rounds do not overlap; `events.ts` lets them, and costs more.
 */
import type { Fabric } from './fabric.js';
import { type HelperKind, placeHelpers } from './placement.js';
import { patternTraffic, type StepTraffic, type Workload } from './traffic.js';
import { type Flow, pathLatencyNs, runTogether } from './transfers.js';

/** How long the schedule took, and what it moved. */
export interface RoundsResult {
  readonly totalNs: number;
  /** The part that does not grow with the size: overheads and latencies of all rounds. */
  readonly latencyNs: number;
  readonly steps: number;
  /** Distinct patterns, in order of first use. */
  readonly patterns: readonly {
    readonly firstStep: number;
    readonly count: number;
    readonly ns: number;
    readonly messages: number;
  }[];
  /** Bytes over the whole schedule, per channel of the network. */
  readonly channelBytes: Float64Array;
}

export interface RoundsOptions {
  /** Where nodes that are not ranks live. Default switches. */
  readonly helpers?: HelperKind;
}

/** Plays the schedule in rounds: each takes as long as its busiest link. */
export function simulateRounds(fabric: Fabric, workload: Workload, options: RoundsOptions = {}): RoundsResult {
  placeHelpers(fabric, workload.schedule, options.helpers ?? 'switches');
  const ranks = options.helpers === 'endpoints' ? workload.schedule.nodes : workload.schedule.size;
  const channelBytes = new Float64Array(fabric.capacity.length);
  const solved = new Map<string, number>();
  const paths = new PathCache(fabric);
  let [totalNs, latencyNs] = [0, 0];
  const patterns: RoundsResult['patterns'][number][] = [];
  for (const { step, count, traffic } of patternTraffic(workload)) {
    const flows = flowsOf(traffic, paths, fabric);
    for (const { path, bytes } of flows) {
      for (const channel of path) channelBytes[channel] += bytes * count;
    }
    const key = fingerprint(traffic);
    let ns = solved.get(key);
    if (ns === undefined) {
      ns = roundNs(fabric, traffic, flows, ranks);
      solved.set(key, ns);
    }
    const posts = mostPosts(traffic, ranks);
    const { overheadNs, triggeredNs } = fabric.options;
    // the first round is posted by software, later ones may be chained in the NIC
    const postNs = posts * triggeredNs * count + (step === 0 ? posts * (overheadNs - triggeredNs) : 0);
    totalNs += ns * count + postNs;
    latencyNs += count * longestNs(fabric, flows) + postNs;
    patterns.push({ firstStep: step, count, ns: ns + posts * triggeredNs, messages: traffic.from.length });
  }
  return { totalNs, latencyNs, steps: workload.schedule.steps, patterns, channelBytes };
}

function roundNs(fabric: Fabric, traffic: StepTraffic, flows: readonly Flow[], ranks: number): number {
  let last = 0;
  for (const time of runTogether(fabric, flows)) if (time > last) last = time;
  let work = 0;
  for (const [node, combined] of traffic.work) if (node < ranks) work = Math.max(work, combined);
  return last + work / (fabric.options.reduceBytesPerSecond / 1e9);
}

/** The longest path latency of a round. */
function longestNs(fabric: Fabric, flows: readonly Flow[]): number {
  let longest = 0;
  for (const { path, latencyNs } of flows) longest = Math.max(longest, latencyNs ?? pathLatencyNs(fabric, path));
  return longest;
}

/** The most messages one rank posts in this round. */
function mostPosts(traffic: StepTraffic, ranks: number): number {
  const posts = new Map<number, number>();
  let most = 0;
  for (let i = 0; i < traffic.from.length; i++) {
    if (traffic.from[i] >= ranks || (traffic.cast[i] >= 0 && posts.has(traffic.from[i]))) continue;
    const posted = (posts.get(traffic.from[i]) ?? 0) + 1;
    posts.set(traffic.from[i], posted);
    most = Math.max(most, posted);
  }
  return most;
}

/** Messages as flows. Where switches cut through, a multicast is one flow over the union of its paths; where they store, it is copies. */
function flowsOf(traffic: StepTraffic, paths: PathCache, fabric: Fabric): Flow[] {
  const flows: Flow[] = [];
  const casts = new Map<number, Flow>();
  const merge = fabric.options.switching === 'cut-through';
  for (let i = 0; i < traffic.from.length; i++) {
    const path = paths.get(traffic.from[i], traffic.to[i]);
    const cast = merge && traffic.cast[i] >= 0 ? casts.get(traffic.cast[i]) : undefined;
    if (cast !== undefined) {
      cast.path = [...new Set([...cast.path, ...path])];
      cast.latencyNs = Math.max(cast.latencyNs ?? 0, pathLatencyNs(fabric, path));
      continue;
    }
    const flow: Flow = { path, bytes: traffic.bytes[i] };
    if (merge && traffic.cast[i] >= 0) {
      flow.latencyNs = pathLatencyNs(fabric, path);
      casts.set(traffic.cast[i], flow);
    }
    flows.push(flow);
  }
  return flows;
}

/** Two patterns with the same fingerprint have the same messages in the same order. */
function fingerprint(traffic: StepTraffic): string {
  let [a, b] = [0x811c9dc5, 0x9e3779b9];
  const feed = (value: number): void => {
    a = Math.imul(a ^ value, 0x01000193);
    b = Math.imul(b ^ (value + 0x7f4a7c15), 0x85ebca6b);
    b ^= b >>> 15;
  };
  for (let i = 0; i < traffic.from.length; i++) {
    feed(traffic.from[i]);
    feed(traffic.to[i]);
    feed(traffic.bytes[i] | 0);
    feed(Math.floor(traffic.bytes[i] / 2 ** 32));
    feed(traffic.cast[i]);
  }
  for (const bytes of traffic.work.values()) feed(bytes | 0);
  return `${traffic.from.length}:${traffic.work.size}:${a >>> 0}:${b >>> 0}`;
}

class PathCache {
  readonly #fabric: Fabric;
  readonly #paths = new Map<number, number[]>();

  constructor(fabric: Fabric) {
    this.#fabric = fabric;
  }

  get(from: number, to: number): number[] {
    const key = from * 2 ** 26 + to;
    let path = this.#paths.get(key);
    if (path === undefined) {
      path = this.#fabric.path(from, to);
      this.#paths.set(key, path);
    }
    return path;
  }
}
