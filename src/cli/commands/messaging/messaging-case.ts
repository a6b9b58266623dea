/** What a benchmark of the messaging layer measures. */

import type { BenchCase, Memory, Metric, Mode } from '../bench/case.js';

export const MESSAGING_OPS = ['tag', 'am', 'stream', 'put', 'get'] as const;
export type MessagingOp = (typeof MESSAGING_OPS)[number];

export const APIS = ['poll', 'promise'] as const;
export type Api = (typeof APIS)[number];

export interface MessagingCase {
  readonly op: MessagingOp;
  readonly metric: Metric;
  /** Payload, bytes. */
  readonly size: number;
  readonly api: Api;
  readonly memory: Memory;
  /** The device, as `openContext` takes it; several with commas. */
  readonly engine: string;
  /** How promises wait. Default 'adaptive'. */
  readonly mode?: Mode;
}

/** The verbs case that peers measure beside it: messages for tag, am and stream, one-sided operations for put and get. */
export function peerCase(bench: MessagingCase): BenchCase {
  const op = bench.op === 'put' ? 'write' : bench.op === 'get' ? 'read' : 'send';
  return { op, metric: bench.metric, size: bench.size, memory: bench.memory, mode: bench.api === 'poll' ? 'poll' : 'adaptive' };
}
