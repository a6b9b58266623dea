/**
 * Pairwise reduce-scatter: in step s every rank sends the chunk of the rank s ahead straight to it.
 *
 * Steps   p - 1
 * Bytes   n(p - 1)/p sent, received and combined by each rank
 * Wins    Large vectors on a network without a ring order; each partial sum is one rank's own, so nothing waits for a neighbour's arithmetic.
 * Paper   Thakur, Rabenseifner, Gropp, IJHPCA 2005 (pairwise exchange).
 */

import { DATA } from '../../schedule/contract.js';
import { receiveReduce, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';

export const pairwiseReduceScatter: Algorithm = {
  collective: 'reduce-scatter',
  name: 'pairwise',
  description: 'every chunk straight to its owner; for large vectors on a full-bisection network',
  supports: always,
  schedule({ size }) {
    function* at(rank: number, step: number): Generator<Instruction> {
      const to = (rank + step + 1) % size;
      yield send({ lane: OUT, step, to, first: to });
      yield receiveReduce({ lane: IN, step, from: (rank - step - 1 + size) % size, first: rank, finish: step === size - 2 });
    }
    return defineSchedule({
      collective: 'reduce-scatter',
      algorithm: 'pairwise',
      size,
      chunks: size,
      buffers: [DATA],
      lanes: OUT_IN,
      steps: size - 1,
      at,
    });
  },
  cost(shape) {
    const { size: p, bytes: n } = shape;
    return flatCost(shape, p - 1, (n * (p - 1)) / p, (n * (p - 1)) / p);
  },
};
