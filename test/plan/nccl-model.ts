/**
 * The time model that a shipped library uses to choose its algorithm: NCCL's, with its published constants. T = latency + bytes / bandwidth per protocol and algorithm, and the
 * smallest wins.
 *
 * Latency of a ring: base + steps inside hosts x hop + steps between hosts x hop; of a tree: base + 2 ((ranks per host - 1) hop + log2(hosts) hop). LL halves the bandwidth,
 * LL128 keeps 92 %, a tree keeps 92 % and runs at half the ring's algorithm bandwidth scale.
 */
import { requireInteger, requireNumber } from '../../src/plan/refusal.js';

export interface NcclQuestion {
  readonly hosts: number;
  readonly ranksPerHost: number;
  /** Bus bandwidth of the bottleneck, bytes per second. */
  readonly busBytesPerSecond: number;
}

export interface NcclAnswer {
  readonly seconds: number;
  readonly algorithm: 'ring' | 'tree';
  readonly protocol: Protocol;
}

type Protocol = 'LL' | 'LL128' | 'Simple';

interface Constants {
  /** Microseconds. */
  readonly baseRing: number;
  readonly baseTree: number;
  readonly hostRing: number;
  readonly hostTree: number;
  readonly netRing: number;
  readonly netTree: number;
  /** Share of the bandwidth that carries data. */
  readonly efficiency: number;
}

const protocols: Readonly<Record<Protocol, Constants>> = {
  LL: { baseRing: 6.6, baseTree: 6.8, hostRing: 0.6, hostTree: 0.6, netRing: 2.7, netTree: 5, efficiency: 0.5 },
  LL128: { baseRing: 14, baseTree: 14, hostRing: 1.9, hostTree: 1.25, netRing: 4, netTree: 8.5, efficiency: 0.92 },
  Simple: { baseRing: 8.4, baseTree: 8.4, hostRing: 3.4, hostTree: 4, netRing: 14, netTree: 14, efficiency: 1 },
};

/** Predicted time of an all-reduce of `bytes`. */
export function ncclAllreduce(q: NcclQuestion, bytes: number): NcclAnswer {
  const hosts = requireInteger('hosts', q.hosts, 1);
  const perHost = requireInteger('ranksPerHost', q.ranksPerHost, 1);
  requireNumber('busBytesPerSecond', q.busBytesPerSecond, 1);
  const ranks = hosts * perHost;
  const steps = 2 * (ranks - 1);
  const between = hosts > 1 ? 2 * hosts : 0;
  let best: NcclAnswer = { seconds: Number.POSITIVE_INFINITY, algorithm: 'ring', protocol: 'LL' };
  for (const [protocol, c] of Object.entries(protocols) as [Protocol, Constants][]) {
    const ringLatency = c.baseRing + (steps - between) * c.hostRing + between * c.netRing;
    const treeLatency = c.baseTree + 2 * ((perHost - 1) * c.hostTree + Math.log2(hosts) * c.netTree);
    const ring = ringLatency * 1e-6 + bytes / (q.busBytesPerSecond * c.efficiency * (ranks / steps));
    const tree = treeLatency * 1e-6 + bytes / (q.busBytesPerSecond * c.efficiency * 0.92 * 0.5);
    if (ring < best.seconds) best = { seconds: ring, algorithm: 'ring', protocol };
    if (tree < best.seconds) best = { seconds: tree, algorithm: 'tree', protocol };
  }
  return best;
}
