/**
 * The two halves of every ring: partial sums travel round and grow, then finished chunks travel round.
 *
 *   p = 4, rank 1      step 0        step 1        step 2
 *   reduce-scatter     send c0       send c3       send c2        to rank 2
 *                      add  c3       add  c2       add  c1        from rank 0; c1 is complete here
 *   all-gather         send c1       send c0       send c3
 *                      take c0       take c3       take c2
 */

import { after, receive, receiveReduce, send } from '../schedule/instruction.js';
import type { Instruction } from '../schedule/schedule.js';
import { IN, OUT } from './lanes.js';

/** Step s = 0 .. p - 2 of the reduce-scatter: rank r ends with chunk r complete. */
export function* reduceScatterStep(rank: number, step: number, size: number): Generator<Instruction> {
  const chunk = (back: number): number => (rank - back + 2 * size) % size;
  if (step > 0) yield after({ lane: OUT, step, on: IN, count: step });
  yield send({ lane: OUT, step, to: (rank + 1) % size, first: chunk(step + 1) });
  yield receiveReduce({ lane: IN, step, from: chunk(1), first: chunk(step + 2), finish: step === size - 2 });
}

/**
 * Step t = 0 .. p - 2 of the all-gather, after `base` ring steps on the same lanes (0, or p - 1 behind a reduce-scatter: then a chunk that arrives
 * must not overwrite one whose send is still in flight).
 */
export function* allGatherStep(rank: number, t: number, size: number, base: number): Generator<Instruction> {
  const chunk = (back: number): number => (rank - back + size) % size;
  const step = base + t;
  if (step > 0) yield after({ lane: OUT, step, on: IN, count: step });
  yield send({ lane: OUT, step, to: (rank + 1) % size, first: chunk(t) });
  if (base > 0) yield after({ lane: IN, step, on: OUT, count: t + 1 });
  yield receive({ lane: IN, step, from: chunk(1), first: chunk(t + 1) });
}
