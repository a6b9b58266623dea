/**
 * The constants of a machine, and the time a cost takes on it.
 *
 * Constants are measured where the program runs and cached; these types only carry them. A term of a cost is paid on its level; where several ranks of a
 * host use its NICs at once, each gets its share.
 */

import { type Algorithm, busiestHost, type Cost, type CostTerm, type Shape } from './algorithm.js';

/** Time of a message of m bytes: alphaSeconds + m * betaSecondsPerByte. */
export interface Link {
  readonly alphaSeconds: number;
  readonly betaSecondsPerByte: number;
  /** Seconds per byte for vectors of several sizes, rising: what fits into a cache moves faster. Between them on a logarithmic scale. Default: the same for all. */
  readonly curve?: Curve;
}

/** Seconds per byte at some sizes, ascending; between two of them it is interpolated. */
export type Curve = readonly { readonly bytes: number; readonly secondsPerByte: number }[];

export interface Machine {
  readonly name: string;
  /** Messages between ranks of one host. */
  readonly host: Link;
  /** Messages between hosts, one rank with one NIC to itself. */
  readonly network: Link;
  /** Signals and plain access to a peer's memory. */
  readonly memory: Link;
  /** Writing to it. Default: as memory. */
  readonly memoryWrite?: Link;
  /** Writing what was read just before. Default: as memory. */
  readonly memoryUpdate?: Link;
  /** Beginning a call: everybody meets everybody. Default 0. */
  readonly callSeconds?: number;
  /** Hops to switches that reduce. Default: as network. */
  readonly switch?: Link;
  /** Combining two vectors, per byte of one. */
  readonly gammaSecondsPerByte: number;
  /** The same for vectors of several sizes. Default: the same for all. */
  readonly gammaCurve?: Curve;
  /** Copying inside the own memory. Default: free. */
  readonly copy?: { readonly secondsPerByte: number; readonly curve?: Curve };
  /** Calls that fit into the entry slots of shared memory: one synchronisation of all, and every byte read by all. */
  readonly slots?: Link;
  /** Ranks to a processor while all of them worked, when the constants were measured. Default 1. */
  readonly sharing?: number;
  /** What this machine has beyond messages. Default: nothing. */
  readonly offers?: readonly NonNullable<Algorithm['needs']>[];
}

/** Seconds a cost takes for this shape on this machine. */
export function predictSeconds(cost: Cost, shape: Shape, machine: Machine): number {
  const parts = cost.terms.map((term) => termSeconds(term, shape, machine));
  parts.push(cost.gamma * perByte(machine.gammaSecondsPerByte, machine.gammaCurve, shape.bytes));
  if (machine.copy !== undefined)
    parts.push((cost.copied ?? 0) * perByte(machine.copy.secondsPerByte, machine.copy.curve, shape.bytes));
  const sum = parts.reduce((total, part) => total + part, machine.callSeconds ?? 0);
  const longest = Math.max(...parts);
  return longest + (sum - longest) / (cost.overlap ?? 1);
}

function linkOf(level: Exclude<CostTerm['level'], 'flat'>, machine: Machine): Link {
  if (level === 'switch') return machine.switch ?? machine.network;
  if (level === 'memory-write') return machine.memoryWrite ?? machine.memory;
  if (level === 'memory-update') return machine.memoryUpdate ?? machine.memory;
  return machine[level];
}

/** Seconds per byte at one size of a vector. */
function perByte(usual: number, curve: Curve | undefined, bytes: number): number {
  if (curve === undefined || curve.length === 0) return usual;
  const above = curve.findIndex((point) => point.bytes >= bytes);
  if (above === 0) return curve[0].secondsPerByte;
  if (above < 0) return curve[curve.length - 1].secondsPerByte;
  const [low, high] = [curve[above - 1], curve[above]];
  const share = Math.log(bytes / low.bytes) / Math.log(high.bytes / low.bytes);
  return low.secondsPerByte + share * (high.secondsPerByte - low.secondsPerByte);
}

function termSeconds(term: CostTerm, { topology, bytes: n }: Shape, machine: Machine): number {
  const { level, alpha, beta, flows = 1, insideBeta = beta } = term;
  const flat = level === 'flat';
  const where = flat ? ((topology?.hosts ?? 1) > 1 ? 'network' : 'host') : level;
  const link = linkOf(where, machine);
  const share = where === 'network' ? Math.max(1, flows / Math.max(1, topology?.nicsPerHost ?? 1)) : 1;
  const bytes = beta * share * perByte(link.betaSecondsPerByte, link.curve, n);
  // A flat algorithm over hosts with several ranks runs at the slower of the two kinds of link.
  const inside =
    flat && busiestHost(topology) > 1 ? insideBeta * perByte(machine.host.betaSecondsPerByte, machine.host.curve, n) : 0;
  return alpha * link.alphaSeconds + Math.max(bytes, inside);
}
