/**
 * Direct all-reduce: everybody sends the whole vector to everybody and adds up by itself.
 *
 * Steps   p - 1, no step waits for another rank's arithmetic: one network latency when messages overlap
 * Bytes   (p - 1)n sent and received by each rank, (p - 1)n combined
 * Wins    Tiny vectors on few ranks with a network that overlaps messages.
 */

import { DATA, SCRATCH } from '../../schedule/contract.js';
import { after, copy, receiveReduce, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';

const SUM = 1;

export const allToAllDirect: Algorithm = {
  collective: 'allreduce',
  name: 'all-to-all-direct',
  description: 'everybody sends everything to everybody; one latency, for tiny vectors',
  supports: always,
  schedule({ size }) {
    // The vector itself stays as it is until all sends are done; the sum grows beside it.
    function* at(rank: number, step: number): Generator<Instruction> {
      if (step === 0) yield copy({ lane: IN, step, rank, buffer: SUM, first: 0 });
      yield send({ lane: OUT, step, to: (rank + step + 1) % size, first: 0 });
      yield receiveReduce({
        lane: IN,
        step,
        from: (rank - step - 1 + size) % size,
        buffer: SUM,
        first: 0,
        finish: step === size - 2,
      });
      if (step < size - 2) return;
      yield after({ lane: IN, step, on: OUT, count: size - 1 });
      yield copy({ lane: IN, step, rank, first: 0, otherBuffer: SUM });
    }
    return defineSchedule({
      collective: 'allreduce',
      algorithm: 'all-to-all-direct',
      size,
      chunks: 1,
      buffers: [DATA, SCRATCH],
      lanes: OUT_IN,
      steps: size - 1,
      at,
    });
  },
  cost(shape) {
    const { size: p, bytes: n } = shape;
    return { ...flatCost(shape, p - 1, n * (p - 1), n * (p - 1)), copied: 2 * n };
  },
};
