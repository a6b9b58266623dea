/**
 * Bruck all-gather: in step k every rank sends all it has to the rank 2^k before it; the last step sends what is missing.
 *
 *   p = 5, rank 0     has 0      has 0 1    has 0 1 2 3      has all
 *                     from 1: 1  from 2: 2 3    from 4: 4
 *
 * What a rank has is a run of blocks from its own, so it is one cyclic range of chunks in place: no rotation at the end is needed.
 * Steps   ceil(log2 p)
 * Bytes   n(p - 1)/p sent and received by each rank
 * Wins    Small blocks at any p.
 * Paper   Bruck et al.: Efficient algorithms for all-to-all communications in multiport message-passing systems, TPDS 1997.
 */

import { DATA } from '../../schedule/contract.js';
import { after, receive, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';
import { ceilLog2 } from '../powers.js';

export const bruckAllGather: Algorithm = {
  collective: 'all-gather',
  name: 'bruck',
  description: 'send all you have to the rank 2^k before you; fewest steps at any size',
  supports: always,
  schedule({ size }) {
    const rounds = ceilLog2(size);
    function* program(rank: number): Generator<Instruction> {
      for (let step = 0; step < rounds; step++) {
        const reach = 1 << step;
        const count = Math.min(reach, size - reach);
        if (step > 0) yield after({ lane: OUT, step, on: IN, count: step });
        yield send({ lane: OUT, step, to: (rank - reach + size) % size, first: rank, count });
        yield receive({ lane: IN, step, from: (rank + reach) % size, first: (rank + reach) % size, count });
      }
    }
    return defineSchedule({
      collective: 'all-gather',
      algorithm: 'bruck',
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
    return flatCost(shape, ceilLog2(p), (n * (p - 1)) / p, 0);
  },
};
