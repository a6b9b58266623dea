/** One step of an all-to-all without forwarding: a block goes out, a block comes in, each straight to its place. */

import { INPUT_ID, OUTPUT_ID } from '../../schedule/contract.js';
import { copy, receive, send } from '../../schedule/instruction.js';
import type { Instruction } from '../../schedule/schedule.js';
import { IN, OUT } from '../lanes.js';

/** `to` or `from` equal to the rank itself: its own block is copied. */
export function* exchangeStep(rank: number, step: number, to: number, from: number): Generator<Instruction> {
  if (to !== rank) yield send({ lane: OUT, step, to, buffer: INPUT_ID, first: to });
  if (from !== rank) yield receive({ lane: IN, step, from, buffer: OUTPUT_ID, first: from });
  else yield copy({ lane: IN, step, rank, buffer: OUTPUT_ID, first: rank, otherBuffer: INPUT_ID });
}
