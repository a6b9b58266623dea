/** The tables of targets: what Verbena promises on shared memory and on RoCE, against whom, and how much. */

import type { BenchCase } from './case.js';

export interface Target {
  readonly peer: string;
  /** Ratio below which it is a failure. */
  readonly must: number;
  /** Ratio that we want. */
  readonly aim: number;
}

export interface TargetRow {
  readonly what: string;
  readonly bench: BenchCase;
  readonly targets: readonly Target[];
}

const base: BenchCase = { op: 'send', metric: 'latency', size: 8, mode: 'poll', memory: 'arena' };
const MIB = 1 << 20;

const SHM: readonly TargetRow[] = [
  { what: 'WRITE 8 B latency', bench: { ...base, op: 'write' }, targets: [{ peer: 'ucx', must: 0.9, aim: 1.05 }] },
  {
    what: 'SEND/RECV 8 B latency',
    bench: base,
    targets: [
      { peer: 'ucx', must: 1.3, aim: 1.8 },
      { peer: 'uct', must: 1.1, aim: 1.5 },
      { peer: 'zeromq', must: 50, aim: 100 },
      { peer: 'messageport', must: 20, aim: 40 },
    ],
  },
  {
    what: 'WRITE 1 MiB bandwidth, arena',
    bench: { ...base, op: 'write', metric: 'bandwidth', size: MIB },
    targets: [{ peer: 'ucx', must: 0.9, aim: 1 }],
  },
  {
    what: 'WRITE 1 MiB bandwidth, private memory',
    bench: { ...base, op: 'write', metric: 'bandwidth', size: MIB, memory: 'private' },
    targets: [{ peer: 'ucx', must: 0.8, aim: 0.9 }],
  },
  {
    what: 'READ 1 MiB bandwidth, private memory',
    bench: { ...base, op: 'read', metric: 'bandwidth', size: MIB, memory: 'private' },
    targets: [{ peer: 'ucx', must: 0.9, aim: 1 }],
  },
  { what: 'SEND 8 B message rate', bench: { ...base, metric: 'rate' }, targets: [{ peer: 'ucx', must: 1.5, aim: 4 }] },
  {
    what: 'SEND/RECV 8 B latency, event mode',
    bench: { ...base, mode: 'event' },
    targets: [{ peer: 'unix', must: 1, aim: 2 }],
  },
];

/** A must of 0: the ratio is told, nothing is promised. */
const ROCE: readonly TargetRow[] = [
  {
    what: 'WRITE 8 B latency',
    bench: { ...base, op: 'write' },
    targets: [
      { peer: 'udp', must: 0.5, aim: 0.77 },
      { peer: 'ucx-tcp', must: 0, aim: 1 },
    ],
  },
  {
    what: 'WRITE 1 MiB bandwidth',
    bench: { ...base, op: 'write', metric: 'bandwidth', size: MIB },
    targets: [
      { peer: 'iperf3', must: 0.5, aim: 0.8 },
      { peer: 'ucx-tcp', must: 0, aim: 1 },
    ],
  },
];

/** The table of a provider, as `openDevice` takes it: RoCE has its own. */
export function targetsOf(provider: string): readonly TargetRow[] {
  return provider.split(':')[0] === 'roce' ? ROCE : SHM;
}
