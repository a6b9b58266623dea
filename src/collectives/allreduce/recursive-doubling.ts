/**
 * Recursive doubling: whole vectors are exchanged with partners at distance 1, 2, 4, ...
 *
 * Idea    After k rounds every rank holds the sum of its block of 2^k ranks. Sizes that are no power of two fold first (powers.ts): r = p - q
 *         ranks hand their vector to a neighbour and get the result back at the end.
 * Steps   log2 q, and 2 more when p is not a power of two
 * Bytes   n log2 q (+ 2n on the path of a folded pair)
 * Wins    Small vectors: at p = 2^k the fewest steps possible.
 * Paper   Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 2005.
 */

import { DATA, SCRATCH } from '../../schedule/contract.js';
import { after, receive, receiveReduce, reduce, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';
import { inRingOrder } from '../order.js';
import { floorLog2, fold } from '../powers.js';

const SCRATCH_ID = 1;

export const recursiveDoubling: Algorithm = {
  collective: 'allreduce',
  name: 'recursive-doubling',
  description: 'exchange whole vectors at distances 1, 2, 4, ...; fewest steps, for small vectors',
  supports: always,
  schedule({ size, topology }) {
    const { active, extra, virtual, real } = fold(size);
    const rounds = floorLog2(size);
    const start = extra > 0 ? 1 : 0;

    function* program(rank: number): Generator<Instruction> {
      const v = virtual(rank);
      if (v === -1) {
        yield send({ lane: OUT, step: 0, to: rank + 1, first: 0 });
        yield after({ lane: IN, step: 0, on: OUT, count: 1 });
        yield receive({ lane: IN, step: start + rounds, from: rank + 1, first: 0 });
        return;
      }
      const folded = v < extra;
      let received = 0;
      if (folded) {
        yield receiveReduce({ lane: IN, step: 0, from: rank - 1, first: 0, finish: active === 1 });
        received++;
      }
      for (let k = 0; k < rounds; k++) {
        const step = start + k;
        const partner = real(v ^ (1 << k));
        if (received > 0) yield after({ lane: OUT, step, on: IN, count: received });
        yield send({ lane: OUT, step, to: partner, first: 0 });
        yield receive({ lane: IN, step, from: partner, buffer: SCRATCH_ID, first: 0 });
        yield after({ lane: IN, step, on: OUT, count: k + 1 });
        yield reduce({ lane: IN, step, rank, first: 0, otherBuffer: SCRATCH_ID, finish: k === rounds - 1 });
        received += 2;
      }
      if (folded) {
        yield after({ lane: OUT, step: start + rounds, on: IN, count: received });
        yield send({ lane: OUT, step: start + rounds, to: rank - 1, first: 0 });
      }
    }

    const schedule = defineSchedule({
      collective: 'allreduce',
      algorithm: 'recursive-doubling',
      size,
      chunks: 1,
      buffers: [DATA, SCRATCH],
      lanes: OUT_IN,
      steps: rounds + 2 * start,
      program,
    });
    return inRingOrder(schedule, topology);
  },
  cost(shape) {
    const { size: p, bytes: n } = shape;
    const rounds = floorLog2(p);
    const x = fold(p).extra > 0 ? 1 : 0;
    return { ...flatCost(shape, rounds + 2 * x, n * (rounds + 2 * x), n * (rounds + x)), copied: n * rounds };
  },
};
