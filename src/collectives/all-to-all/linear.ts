/**
 * Linear all-to-all: everybody sends to rank 0, 1, 2, ... and takes from rank 0, 1, 2, ...
 *
 * Steps   a wavefront of 2p - 3 messages when ports serve one at a time
 * Bytes   n(p - 1)/p sent and received by each rank; but all of them want rank 0's port first (incast)
 * Wins    Never against pairwise; kept because many programs do exactly this.
 */

import { INPUT_ID, OUTPUT_ID, userBuffers } from '../../schedule/contract.js';
import { copy, receive, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';

export const linearAllToAll: Algorithm = {
  collective: 'all-to-all',
  name: 'linear',
  description: 'to rank 0, 1, 2, ... in turn; the yardstick for incast',
  supports: always,
  schedule({ size }) {
    // A message to rank d belongs to step d at both ends, so all that a rank takes, it takes in its own step.
    function* at(rank: number, step: number): Generator<Instruction> {
      if (step !== rank) {
        yield send({ lane: OUT, step, to: step, buffer: INPUT_ID, first: step });
        return;
      }
      for (let from = 0; from < size; from++) {
        if (from === rank) yield copy({ lane: IN, step, rank, buffer: OUTPUT_ID, first: rank, otherBuffer: INPUT_ID });
        else yield receive({ lane: IN, step, from, buffer: OUTPUT_ID, first: from });
      }
    }
    return defineSchedule({
      collective: 'all-to-all',
      algorithm: 'linear',
      size,
      chunks: size,
      buffers: userBuffers('all-to-all'),
      lanes: OUT_IN,
      steps: size,
      at,
    });
  },
  cost(shape) {
    const { size: p, bytes: n } = shape;
    const wavefront = p === 1 ? 0 : 2 * p - 3;
    return { ...flatCost(shape, wavefront, (n * wavefront) / p, 0), copied: n / p };
  },
};
