/**
 * Pairwise all-to-all: in step s every rank sends to the rank s ahead and takes from the rank s behind.
 *
 * Steps   p - 1 messages (and a copy of the own block)
 * Bytes   n(p - 1)/p sent and received by each rank; every step is a permutation, so no port is met twice
 * Wins    Large blocks. The v-form is the same schedule over each rank's own counts.
 * Paper   Thakur, Rabenseifner, Gropp, IJHPCA 2005.
 */

import { INPUT_ID, OUTPUT_ID, userBuffers } from '../../schedule/contract.js';
import { copy, receive, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';

export const pairwiseAllToAll: Algorithm = {
  collective: 'all-to-all',
  name: 'pairwise',
  description: 'to the rank s ahead, from the rank s behind; for large blocks',
  supports: always,
  schedule({ size }) {
    function* at(rank: number, step: number): Generator<Instruction> {
      const [to, from] = [(rank + step) % size, (rank - step + size) % size];
      if (step === 0) {
        yield copy({ lane: IN, step, rank, buffer: OUTPUT_ID, first: rank, otherBuffer: INPUT_ID });
        return;
      }
      yield send({ lane: OUT, step, to, buffer: INPUT_ID, first: to });
      yield receive({ lane: IN, step, from, buffer: OUTPUT_ID, first: from });
    }
    return defineSchedule({
      collective: 'all-to-all',
      algorithm: 'pairwise',
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
    return { ...flatCost(shape, p - 1, (n * (p - 1)) / p, 0), copied: n / p };
  },
};
