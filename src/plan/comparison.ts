/**
 * All algorithms of a collective on one network: time by formula and by simulation, what they do to the links, and which wins.
 *
 * Time over size is a straight line per algorithm (the fluid model is linear in the size once latencies are paid), so one simulation gives the whole curve: `latencyNs`, and
 * the rest in proportion to the bytes.
 */
import type { Algorithm, Shape } from '../collectives/algorithm.js';
import type { Machine } from '../collectives/machine.js';
import { ALGORITHMS } from '../collectives/registry.js';
import type { Collective } from '../schedule/schedule.js';
import { evenSplit } from '../schedule/split.js';
import { regularTopology } from '../schedule/topology.js';
import { walkSchedule } from '../schedule/walk.js';
import { formulaNs, machineOf } from './cost/collective-cost.js';
import { PlanRefusal } from './refusal.js';
import { type FabricOptions, makeFabric } from './simulate/fabric.js';
import type { HelperKind } from './simulate/placement.js';
import { simulateRounds } from './simulate/rounds.js';
import type { Network } from './topology/network.js';

export interface ComparisonQuestion {
  /** What the ranks do together. */
  readonly collective: Collective;
  /** Where they do it. */
  readonly network: Network;
  /** Default: all the endpoints hold. */
  readonly ranks?: number;
  /** n, as nccl-tests count it. */
  readonly bytes: number;
  /** Speed and latency of links. Default: those of `Fabric`. */
  readonly fabric?: FabricOptions;
  /** Names, or all. Default all. */
  readonly algorithms?: readonly string[] | 'all';
}

/** One algorithm on the network: times in ns, traffic in bytes. */
export interface ComparedAlgorithm {
  readonly algorithm: string;
  readonly description: string;
  readonly formulaNs: number;
  readonly simulatedNs: number;
  /** The part of the simulated time that does not grow with the size. */
  readonly latencyNs: number;
  readonly rounds: number;
  readonly messages: number;
  readonly peakBytesPerRound: number;
  readonly fanIn: number;
  /** n over time, and the same scaled to what the links carry (nccl-tests' busbw). */
  readonly algorithmBytesPerSecond: number;
  readonly busBytesPerSecond: number;
  /** Segments chosen, where the algorithm has any. */
  readonly segments: number | undefined;
  /** Bytes per channel of the network. */
  readonly channelBytes: Float64Array;
}

export interface Comparison {
  readonly collective: Collective;
  readonly ranks: number;
  readonly bytes: number;
  /** Fastest first. */
  readonly rows: readonly ComparedAlgorithm[];
  readonly left: readonly { readonly algorithm: string; readonly reason: string }[];
}

/** Most messages of one schedule that are simulated when it was not asked for by name; more are left out with that reason. */
const MOST_MESSAGES = 1_000_000;

/** Prices and simulates the algorithms of a collective on a network. @throws PlanRefusal. */
export function compareAlgorithms(q: ComparisonQuestion): Comparison {
  const all = ALGORITHMS[q.collective];
  if (all === undefined)
    throw new PlanRefusal(
      `there is no collective "${q.collective}"; there are ${Object.keys(ALGORITHMS).join(', ')}`,
      'allreduce',
    );
  const names = q.algorithms ?? 'all';
  if (names !== 'all') {
    for (const name of names) {
      if (!all.some((algorithm) => algorithm.name === name))
        throw new PlanRefusal(`there is no ${q.collective} algorithm "${name}"; there are ${all.map((a) => a.name).join(', ')}`);
    }
  }
  const perEndpoint = q.fabric?.ranksPerEndpoint ?? 1;
  const ranks = q.ranks ?? q.network.endpoints * perEndpoint;
  const machine = machineOf(makeFabric(q.network, ranks, q.fabric));
  const rows: ComparedAlgorithm[] = [];
  const left: { algorithm: string; reason: string }[] = [];
  for (const algorithm of all) {
    if (names !== 'all' && !names.includes(algorithm.name)) continue;
    const shape = shapeFor(algorithm, q, ranks, perEndpoint, machine);
    if (typeof shape === 'string') {
      left.push({ algorithm: algorithm.name, reason: shape });
      continue;
    }
    try {
      rows.push(runOne(algorithm, shape, q, ranks, machine));
    } catch (error) {
      if (!(error instanceof PlanRefusal)) throw error;
      left.push({ algorithm: algorithm.name, reason: error.message });
    }
  }
  rows.sort((a, b) => a.simulatedNs - b.simulatedNs);
  return { collective: q.collective, ranks, bytes: q.bytes, rows, left };
}

function runOne(algorithm: Algorithm, shape: Shape, q: ComparisonQuestion, ranks: number, machine: Machine): ComparedAlgorithm {
  const perEndpoint = q.fabric?.ranksPerEndpoint ?? 1;
  const expected = algorithm.cost(shape).terms.reduce((sum, term) => sum + term.alpha, 0) * ranks;
  const schedule = algorithm.schedule(shape);
  if (expected > MOST_MESSAGES && (q.algorithms ?? 'all') === 'all' && schedule.alike(0) !== schedule.alike(schedule.steps - 1)) {
    throw new PlanRefusal(
      `about ${Math.round(expected / 1e6)} million messages: not simulated unless named; by formula ${(formulaNs(algorithm, shape, machine, perEndpoint) / 1e6).toFixed(2)} ms`,
    );
  }
  const helpers: HelperKind = algorithm.needs === 'dedicated-servers' ? 'endpoints' : 'switches';
  const result = simulateRounds(makeFabric(q.network, ranks, q.fabric), { schedule, bytes: q.bytes }, { helpers });
  const walk = walkSchedule(schedule, evenSplit(q.bytes, schedule.chunks));
  const algorithmBytesPerSecond = q.bytes / (result.totalNs / 1e9);
  return {
    algorithm: algorithm.name,
    description: algorithm.description,
    formulaNs: formulaNs(algorithm, shape, machine, perEndpoint),
    simulatedNs: result.totalNs,
    latencyNs: result.latencyNs,
    rounds: schedule.steps,
    messages: walk.messages,
    peakBytesPerRound: walk.peakPerRound,
    fanIn: walk.fanIn,
    algorithmBytesPerSecond,
    busBytesPerSecond: algorithmBytesPerSecond * busFactor(q.collective, ranks),
    segments: shape.segments,
    channelBytes: result.channelBytes,
  };
}

/** What the algorithm is asked, or why it cannot be asked here. */
function shapeFor(
  algorithm: Algorithm,
  q: ComparisonQuestion,
  ranks: number,
  perEndpoint: number,
  machine: Machine,
): Shape | string {
  const hosts = Math.ceil(ranks / perEndpoint);
  const topology =
    hosts * perEndpoint === ranks && perEndpoint > 1 ? regularTopology({ hosts, ranksPerHost: perEndpoint }) : undefined;
  // the root of a send-receive is how far it shifts
  let shape: Shape = { size: ranks, bytes: q.bytes, topology, root: q.collective === 'send-receive' ? 1 % ranks : 0 };
  if (algorithm.needs === 'shared-memory' && hosts > 1) return 'needs one host, and the ranks are on several';
  if (algorithm.needs === 'shards') return 'is the reproducible form; it needs a number of shards';
  if (algorithm.needs === 'dedicated-servers') {
    const free = q.network.endpoints - hosts;
    if (free < 1) return 'needs endpoints of its own for servers, and every endpoint has a rank';
    shape = { ...shape, servers: Math.min(free, ranks) };
  }
  if (algorithm.needs === 'switch-reduction') {
    if (q.network.vertices === q.network.endpoints) return 'needs switches that reduce, and this network has none';
    shape = { ...shape, radix: endpointsPerSwitch(q.network) * perEndpoint };
  }
  const verdict = algorithm.supports(shape);
  if (verdict !== true) return verdict;
  if (algorithm.tunable === 'segments') {
    const cost = (segments: number): number => formulaNs(algorithm, { ...shape, segments }, machine, perEndpoint);
    const tried = [1, 2, 4, 8, 16, 32, 64, 128].filter((segments) => segments <= Math.max(1, q.bytes / 4));
    const best = tried.reduce((least, next) => (cost(next) < cost(least) ? next : least));
    shape = { ...shape, segments: best };
  }
  return shape;
}

/** Endpoints on the first switch that has any; at least 2. */
function endpointsPerSwitch(network: Network): number {
  const hub = network.head[network.outChannel[network.outStart[0]]];
  let count = 0;
  for (let i = network.outStart[hub]; i < network.outStart[hub + 1]; i++)
    if (network.head[network.outChannel[i]] < network.endpoints) count++;
  return Math.max(2, count);
}

/** nccl-tests' factors from algorithm to bus bandwidth. */
function busFactor(collective: Collective, ranks: number): number {
  switch (collective) {
    case 'allreduce':
      return (2 * (ranks - 1)) / ranks;
    case 'reduce-scatter':
    case 'all-gather':
    case 'all-to-all':
      return (ranks - 1) / ranks;
    default:
      return 1;
  }
}
