/**
 * What a pipeline schedule costs: idle time (the bubble) and micro-batches in flight (memory).
 *
 * With p stages, m micro-batches, v model parts per stage, and forward : backward as the caller says (backward split into input and weight
 * gradients for the zero-bubble form):
 *
 * | schedule     | bubble over ideal time              | in flight on the first stage     |
 * |--------------|-------------------------------------|----------------------------------|
 * | gpipe        | (p-1)/m                             | m                                |
 * | 1f1b         | (p-1)/m  (the same!)                | min(p, m)                        |
 * | interleaved  | (p-1)/(v m)                         | p (1 + (p-1)/(p v)), more        |
 * | zb-h1        | (p-1)(tF + tB - tW) / (m T)         | min(p, m)                        |
 *
 * "Over ideal" and "over total" are two different numbers with one name in the literature; both are given. The schedules themselves are generators in
 * `schedule/pipeline.ts`; these closed forms equal their exact simulation.
 */
import type { PipelineName } from '../../schedule/pipeline.js';
import { requireInteger } from '../refusal.js';

export const pipelineNames: readonly PipelineName[] = ['gpipe', '1f1b', 'interleaved', 'zb-h1'];

export interface PipelineCost {
  /** Idle time over busy time. */
  readonly bubbleOverIdeal: number;
  /** Idle time over all time. */
  readonly bubbleOverTotal: number;
  /** Micro-batches whose activations the first stage holds at once. */
  readonly inFlight: number;
  /** How many times a micro-batch crosses each stage boundary, compared with 1f1b. */
  readonly boundaryFactor: number;
}

/** @param parts model parts per stage (interleaved only), >= 2 there */
export function pipelineCost(kind: PipelineName, stages: number, microBatches: number, parts = 2): PipelineCost {
  const p = requireInteger('stages', stages, 1);
  const m = requireInteger('micro-batches', microBatches, 1);
  const v = kind === 'interleaved' ? requireInteger('parts', parts, 1) : 1;
  // tF = tB = tW = 1 of 3: zb-h1 keeps a third of the bubble
  const overIdeal = kind === 'zb-h1' ? (p - 1) / (3 * m) : (p - 1) / (v * m);
  const inFlight = kind === 'gpipe' ? m : kind === 'interleaved' ? Math.min(m, p * (1 + (p - 1) / (p * v))) : Math.min(p, m);
  return { bubbleOverIdeal: overIdeal, bubbleOverTotal: overIdeal / (1 + overIdeal), inFlight, boundaryFactor: v };
}
