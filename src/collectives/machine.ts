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
}

export interface Machine {
  readonly name: string;
  /** Messages between ranks of one host. */
  readonly host: Link;
  /** Messages between hosts, one rank with one NIC to itself. */
  readonly network: Link;
  /** Signals and plain access to a peer's memory. */
  readonly memory: Link;
  /** Hops to switches that reduce. Default: as network. */
  readonly switch?: Link;
  /** Combining two vectors, per byte of one. */
  readonly gammaSecondsPerByte: number;
  /** What this machine has beyond messages. Default: nothing. */
  readonly offers?: readonly NonNullable<Algorithm['needs']>[];
}

/** Seconds a cost takes for this shape on this machine. */
export function predictSeconds(cost: Cost, shape: Shape, machine: Machine): number {
  const parts = cost.terms.map((term) => termSeconds(term, shape, machine));
  parts.push(cost.gamma * machine.gammaSecondsPerByte);
  const sum = parts.reduce((total, part) => total + part, 0);
  const longest = Math.max(...parts);
  return longest + (sum - longest) / (cost.overlap ?? 1);
}

function termSeconds(term: CostTerm, { topology }: Shape, machine: Machine): number {
  const { level, alpha, beta, flows = 1, insideBeta = beta } = term;
  const flat = level === 'flat';
  const where = flat ? ((topology?.hosts ?? 1) > 1 ? 'network' : 'host') : level;
  const link = where === 'switch' ? (machine.switch ?? machine.network) : machine[where];
  const share = where === 'network' ? Math.max(1, flows / Math.max(1, topology?.nicsPerHost ?? 1)) : 1;
  const bytes = beta * share * link.betaSecondsPerByte;
  // A flat algorithm over hosts with several ranks runs at the slower of the two kinds of link.
  const inside = flat && busiestHost(topology) > 1 ? insideBeta * machine.host.betaSecondsPerByte : 0;
  return alpha * link.alphaSeconds + Math.max(bytes, inside);
}
