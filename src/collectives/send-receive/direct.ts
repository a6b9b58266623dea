/**
 * Send-receive: every rank sends its block to the rank `root` ahead (the distance) and receives the block of the rank as far behind.
 *
 * Steps   1
 * Bytes   n sent and received by each rank
 * Wins    The only one: pipelines, halos and shifts are made of it.
 */

import { INPUT_ID, OUTPUT_ID, userBuffers } from '../../schedule/contract.js';
import { copy, receive, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';

export const directSendReceive: Algorithm = {
  collective: 'send-receive',
  name: 'direct',
  description: 'send ahead, receive from behind',
  supports: always,
  schedule({ size, root: distance = 0 }) {
    function* program(rank: number): Generator<Instruction> {
      if (distance === 0) {
        yield copy({ lane: IN, step: 0, rank, buffer: OUTPUT_ID, first: 0, otherBuffer: INPUT_ID });
        return;
      }
      yield send({ lane: OUT, step: 0, to: (rank + distance) % size, buffer: INPUT_ID, first: 0 });
      yield receive({ lane: IN, step: 0, from: (rank - distance + size) % size, buffer: OUTPUT_ID, first: 0 });
    }
    return defineSchedule({
      collective: 'send-receive',
      algorithm: 'direct',
      size,
      root: distance,
      chunks: 1,
      buffers: userBuffers('send-receive'),
      lanes: OUT_IN,
      steps: 1,
      program,
    });
  },
  cost(shape) {
    const one = (shape.root ?? 0) === 0 ? 0 : 1;
    return flatCost(shape, one, one * shape.bytes, 0);
  },
};
