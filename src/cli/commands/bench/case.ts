/** What a benchmark measures: one operation, one metric, one size. */

export const OPS = ['write', 'read', 'send', 'fetch-add', 'cmp-swap'] as const;
export type Op = (typeof OPS)[number];

export const METRICS = ['latency', 'bandwidth', 'rate'] as const;
export type Metric = (typeof METRICS)[number];

export const MODES = ['poll', 'event', 'adaptive'] as const;
export type Mode = (typeof MODES)[number];

export const MEMORIES = ['arena', 'private'] as const;
export type Memory = (typeof MEMORIES)[number];

export interface BenchCase {
  readonly op: Op;
  readonly metric: Metric;
  /** Payload, bytes. */
  readonly size: number;
  readonly mode: Mode;
  readonly memory: Memory;
}

/** Requests outstanding at most while streaming (bandwidth and rate). */
export const WINDOW = 64;
/** Streaming asks for a completion every so many requests. */
export const SIGNAL_EVERY = 32;
/** Operations of one batch of a latency measurement. */
export const LATENCY_BATCH = 1000;

const UNITS: Readonly<Record<Metric, string>> = { latency: 'us', bandwidth: 'GB/s', rate: 'msg/s' };

/** Unit of the values of a metric. GB is 10^9. */
export function unitOf(metric: Metric): string {
  return UNITS[metric];
}

/** How many times better `ours` is than `theirs`: 1 is level, above is ahead. */
export function ratioOf(metric: Metric, ours: number, theirs: number): number {
  return metric === 'latency' ? theirs / ours : ours / theirs;
}

/** One value from `count` operations of `size` bytes that took `ms`; `halved` when each was a round trip that counts as two. */
export function batchValue(bench: { metric: Metric; size: number }, count: number, ms: number, halved = false): number {
  if (bench.metric === 'latency') return (ms * 1000) / count / (halved ? 2 : 1);
  if (bench.metric === 'bandwidth') return (count * bench.size) / ms / 1e6;
  return (count * 1000) / ms;
}

/** Atomics and READs have no ping-pong: their latency is one operation, from post to completion. */
export function isRoundTrip(op: Op): boolean {
  return op === 'write' || op === 'send';
}
