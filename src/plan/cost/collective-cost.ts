/**
 * The alpha-beta-gamma time of an algorithm, by its own cost formula, on the constants of a fabric. No contention: what the algorithm would take if every message had
 * its path for itself. The simulator says what is left of that on a real topology.
 */
import type { Cost, Level } from '../../collectives/algorithm.js';
import type { Fabric } from '../simulate/fabric.js';

export interface LinkConstants {
  /** Nanoseconds per message. */
  readonly alphaNs: number;
  /** Nanoseconds per byte. */
  readonly betaNs: number;
}

export interface CostConstants {
  readonly network: LinkConstants;
  readonly host: LinkConstants;
  /** A switch that reduces: a hop, no software. */
  readonly switch: LinkConstants;
  /** Nanoseconds per byte combined. */
  readonly gammaNs: number;
  /** Ranks that share an endpoint's link. */
  readonly ranksPerEndpoint: number;
  /** Whether everything is on one endpoint. */
  readonly oneHost: boolean;
}

/** Constants of a fabric, with the mean number of hops between ranks (sampled) in alpha. */
export function constantsOf(fabric: Fabric): CostConstants {
  const { options } = fabric;
  const hops = meanHops(fabric);
  return {
    network: { alphaNs: options.overheadNs + hops * options.hopLatencyNs, betaNs: 1e9 / options.linkBytesPerSecond },
    host: { alphaNs: options.overheadNs + options.hostLatencyNs, betaNs: 1e9 / options.hostBytesPerSecond },
    switch: { alphaNs: options.hopLatencyNs, betaNs: 1e9 / options.linkBytesPerSecond },
    gammaNs: 1e9 / options.reduceBytesPerSecond,
    ranksPerEndpoint: options.ranksPerEndpoint,
    oneHost: fabric.ranks <= options.ranksPerEndpoint,
  };
}

export function costNs(cost: Cost, constants: CostConstants): number {
  let total = cost.gamma * constants.gammaNs;
  for (const term of cost.terms) {
    const link = constants[place(term.level, constants)];
    const shared = link === constants.network && constants.ranksPerEndpoint > 1 ? (term.flows ?? 1) : 1;
    total += term.alpha * link.alphaNs + term.beta * shared * link.betaNs;
  }
  return total;
}

function place(level: Level, constants: CostConstants): 'network' | 'host' | 'switch' {
  if (level === 'host' || level === 'memory') return 'host';
  if (level === 'switch') return 'switch';
  return level === 'flat' && constants.oneHost ? 'host' : 'network';
}

function meanHops(fabric: Fabric): number {
  const n = fabric.ranks;
  if (n < 2) return 0;
  let [sum, count] = [0, 0];
  for (let i = 0; i < 64; i++) {
    const from = Math.floor((i * 0.6180339887 * n) % n);
    const to = Math.floor((i * 0.7548776662 * n + n / 2) % n);
    if (fabric.vertexOf(from) === fabric.vertexOf(to)) continue;
    sum += fabric.path(from, to).length;
    count++;
  }
  return count === 0 ? 0 : sum / count;
}
