/**
 * Timelines as a Chrome trace, which Perfetto and chrome://tracing open: a process for each rank, a track for what it computes and one for the
 * exchange. Arrows lead from the place in backward where a bucket was handed over to its transfer, and from there to that bucket at the next rank.
 */
import type { Span } from './timeline.js';

/** The spans of one rank. */
export interface RankTimeline {
  readonly rank: number;
  readonly spans: readonly Span[];
}

interface TraceEvent {
  readonly name: string;
  readonly ph: 'X' | 'M' | 's' | 'f';
  readonly pid: number;
  readonly tid: number;
  readonly ts?: number;
  readonly dur?: number;
  readonly cat?: string;
  readonly id?: number;
  readonly bp?: 'e';
  readonly args?: Readonly<Record<string, string | number>>;
}

const COMPUTING = 1;
const EXCHANGE = 2;

/** The trace as the value that JSON.stringify writes. Times start at the earliest span. */
export function chromeTrace(timelines: readonly RankTimeline[]): { traceEvents: TraceEvent[]; displayTimeUnit: 'ms' } {
  let origin = Number.POSITIVE_INFINITY;
  for (const { spans } of timelines) for (const { beginMs } of spans) origin = Math.min(origin, beginMs);
  const events: TraceEvent[] = [];
  /** Transfers of the same bucket of the same step, rank by rank. */
  const transfers = new Map<string, { rank: number; at: number; end: number }[]>();
  let flow = 0;
  const us = (ms: number) => Math.round((ms - origin) * 1e6) / 1e3;
  for (const { rank, spans } of timelines) {
    const meta = (name: string, tid: number, args: TraceEvent['args']) =>
      events.push({ name, ph: 'M', pid: rank, tid, ...(args ? { args } : {}) });
    meta('process_name', COMPUTING, { name: `rank ${rank}` });
    meta('thread_name', COMPUTING, { name: 'computing' });
    meta('thread_name', EXCHANGE, { name: 'exchange' });
    for (const { kind, beginMs, endMs, step, bucket } of spans) {
      const onExchange = bucket >= 0;
      const tid = onExchange ? EXCHANGE : COMPUTING;
      const name = onExchange ? `bucket ${bucket}: ${kind.slice('bucket-'.length)}` : kind;
      const args: Record<string, number> = onExchange ? { step, bucket } : { step };
      const ts = us(beginMs);
      const dur = Math.max(0, us(endMs) - ts);
      events.push({ name, ph: 'X', pid: rank, tid, ts, dur, cat: kind, args });
      if (kind === 'bucket-wait') {
        const id = ++flow;
        events.push({ name: 'hand over', ph: 's', pid: rank, tid: COMPUTING, ts, id, cat: 'bucket' });
        events.push({ name: 'hand over', ph: 'f', bp: 'e', pid: rank, tid: EXCHANGE, ts: us(endMs), id, cat: 'bucket' });
      }
      if (kind === 'bucket-transfer') {
        const key = `${step} ${bucket}`;
        const list = transfers.get(key) ?? [];
        if (list.length === 0) transfers.set(key, list);
        list.push({ rank, at: ts, end: ts + dur });
      }
    }
  }
  for (const list of transfers.values()) {
    if (list.length < 2) continue;
    for (const [i, { rank, at }] of list.entries()) {
      const next = list[(i + 1) % list.length];
      const id = ++flow;
      events.push({ name: 'gradients', ph: 's', pid: rank, tid: EXCHANGE, ts: at, id, cat: 'exchange' });
      events.push({
        name: 'gradients',
        ph: 'f',
        bp: 'e',
        pid: next.rank,
        tid: EXCHANGE,
        ts: Math.max(at, next.end),
        id,
        cat: 'exchange',
      });
    }
  }
  return { traceEvents: events, displayTimeUnit: 'ms' };
}
