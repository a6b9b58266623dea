/**
 * Recursive doubling all-gather: partners at distance 1, 2, 4, ... exchange everything they have.
 *
 * Steps   log2 p
 * Bytes   n(p - 1)/p sent and received by each rank
 * Wins    Small blocks at powers of two (elsewhere Bruck does the same for any p).
 * Paper   Thakur, Rabenseifner, Gropp, IJHPCA 2005.
 */

import { DATA } from '../../schedule/contract.js';
import { after, receive, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, flatCost, requireSupport } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';
import { floorLog2 } from '../powers.js';

export const recursiveDoublingAllGather: Algorithm = {
  collective: 'all-gather',
  name: 'recursive-doubling',
  description: 'exchange all you have at distances 1, 2, 4, ...; fewest steps at powers of two',
  supports: ({ size }) => (2 ** floorLog2(size) === size ? true : 'needs a power of two ranks'),
  schedule(shape) {
    requireSupport(recursiveDoublingAllGather, shape);
    const { size } = shape;
    const rounds = floorLog2(size);
    function* program(rank: number): Generator<Instruction> {
      for (let step = 0; step < rounds; step++) {
        const half = 1 << step;
        const mine = rank & -half;
        if (step > 0) yield after({ lane: OUT, step, on: IN, count: step });
        yield send({ lane: OUT, step, to: rank ^ half, first: mine, count: half });
        yield receive({ lane: IN, step, from: rank ^ half, first: mine ^ half, count: half });
      }
    }
    return defineSchedule({
      collective: 'all-gather',
      algorithm: 'recursive-doubling',
      size,
      chunks: size,
      buffers: [DATA],
      lanes: OUT_IN,
      steps: rounds,
      program,
    });
  },
  cost(shape) {
    const { size: p, bytes: n } = shape;
    return flatCost(shape, floorLog2(p), (n * (p - 1)) / p, 0);
  },
};
