/**
 * Recursive doubling scan: in round k rank r adds what the rank 2^k below has, so it covers twice as many.
 *
 * Steps   ceil(log2 p)
 * Bytes   n ceil(log2 p) sent by the lower ranks
 * Wins    Small vectors, any p.
 * Paper   Hillis, Steele: Data parallel algorithms, CACM 1986.
 */

import { DATA, SCRATCH } from '../../schedule/contract.js';
import { after, receive, reduce, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';
import { ceilLog2 } from '../powers.js';

const SCRATCH_ID = 1;

export const recursiveDoublingScan: Algorithm = {
  collective: 'scan',
  name: 'recursive-doubling',
  description: 'add the prefix of the rank 2^k below; fewest steps',
  supports: always,
  schedule({ size }) {
    const rounds = ceilLog2(size);
    function* program(rank: number): Generator<Instruction> {
      let sent = 0;
      let received = 0;
      for (let step = 0; step < rounds; step++) {
        const reach = 1 << step;
        if (rank + reach < size) {
          if (received > 0) yield after({ lane: OUT, step, on: IN, count: received });
          yield send({ lane: OUT, step, to: rank + reach, first: 0 });
          sent++;
        }
        if (rank - reach < 0) continue;
        yield receive({ lane: IN, step, from: rank - reach, buffer: SCRATCH_ID, first: 0 });
        if (sent > 0) yield after({ lane: IN, step, on: OUT, count: sent });
        yield reduce({ lane: IN, step, rank, first: 0, otherBuffer: SCRATCH_ID });
        received += 2;
      }
    }
    return defineSchedule({
      collective: 'scan',
      algorithm: 'recursive-doubling',
      size,
      chunks: 1,
      buffers: [DATA, SCRATCH],
      lanes: OUT_IN,
      steps: rounds,
      program,
    });
  },
  cost(shape) {
    const { size: p, bytes: n } = shape;
    const steps = ceilLog2(p);
    return { ...flatCost(shape, steps, n * steps, n * steps), copied: n * steps };
  },
};
