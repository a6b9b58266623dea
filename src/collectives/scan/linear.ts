/**
 * Linear scan: rank r takes the prefix of the ranks below, adds its own and passes it on.
 *
 * Steps   p - 1
 * Bytes   n(p - 1) along the chain; each rank sends n
 * Wins    Few ranks; fewest bytes altogether.
 */

import { DATA } from '../../schedule/contract.js';
import { after, receiveReduce, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';

export const linearScan: Algorithm = {
  collective: 'scan',
  name: 'linear',
  description: 'the prefix travels along the ranks; fewest bytes',
  supports: always,
  schedule({ size }) {
    function* program(rank: number): Generator<Instruction> {
      if (rank > 0) yield receiveReduce({ lane: IN, step: rank - 1, from: rank - 1, first: 0 });
      if (rank === size - 1) return;
      if (rank > 0) yield after({ lane: OUT, step: rank, on: IN, count: 1 });
      yield send({ lane: OUT, step: rank, to: rank + 1, first: 0 });
    }
    return defineSchedule({
      collective: 'scan',
      algorithm: 'linear',
      size,
      chunks: 1,
      buffers: [DATA],
      lanes: OUT_IN,
      steps: size - 1,
      program,
    });
  },
  cost(shape) {
    const { size: p, bytes: n } = shape;
    return flatCost(shape, p - 1, n * (p - 1), n * (p - 1), 1);
  },
};
