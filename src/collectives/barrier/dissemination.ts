/**
 * Dissemination barrier: in round k everybody signals the rank 2^k ahead and waits for the rank 2^k behind.
 *
 * Idea    After round k a rank has heard, directly or not, from the 2^(k+1) ranks up to itself.
 * Steps   ceil(log2 p)
 * Bytes   none: p signals per round
 * Wins    Almost always.
 * Paper   Hensgen, Finkel, Manber: Two algorithms for barrier synchronization, IJPP 1988.
 */

import { signal, wait } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { ceilLog2 } from '../powers.js';

export const dissemination: Algorithm = {
  collective: 'barrier',
  name: 'dissemination',
  description: 'signal the rank 2^k ahead, wait for the rank 2^k behind; fewest steps',
  supports: always,
  schedule({ size }) {
    const rounds = ceilLog2(size);
    function* program(rank: number): Generator<Instruction> {
      for (let step = 0; step < rounds; step++) {
        yield signal({ lane: 0, step, to: (rank + (1 << step)) % size });
        yield wait({ lane: 0, step, from: (rank - (1 << step) + size) % size });
      }
    }
    return defineSchedule({
      collective: 'barrier',
      algorithm: 'dissemination',
      size,
      chunks: 1,
      buffers: [],
      lanes: [{ name: 'sync', reach: 'any' }],
      steps: rounds,
      program,
    });
  },
  cost: (shape) => flatCost(shape, ceilLog2(shape.size), 0, 0),
};
