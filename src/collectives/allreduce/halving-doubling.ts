/**
 * Recursive halving and doubling (Rabenseifner): reduce-scatter by halving, all-gather by doubling.
 *
 * Idea    Partners at distance q/2, q/4, ... exchange halves, quarters, ...; each adds the part it keeps. Then the same way back.
 *
 *           v = 0 of 4    send c2 c3 to 2, add c0 c1 │ send c1 to 1, add c0 │ send c0 to 1, take c1 │ send c0 c1 to 2, take c2 c3
 *
 *         Sizes that are no power of two fold first, with whole vectors: that costs 2n more (at p = 6: 3.5n against the ring's 1.67n).
 * Steps   2 log2 q, and 2 more when p is not a power of two
 * Bytes   2n(q - 1)/q (+ 2n)
 * Wins    Middle and large vectors at p = 2^k: the ring's bytes in log steps.
 * Paper   Rabenseifner: Optimization of collective reduction operations, ICCS 2004.
 */

import { DATA } from '../../schedule/contract.js';
import { after, receive, receiveReduce, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';
import { inRingOrder } from '../order.js';
import { floorLog2, fold } from '../powers.js';

export const halvingDoubling: Algorithm = {
  collective: 'allreduce',
  name: 'halving-doubling',
  description: 'reduce-scatter by halving, all-gather by doubling; fewest bytes in log steps at powers of two',
  supports: always,
  schedule({ size, topology }) {
    const { active, extra, virtual, real } = fold(size);
    const rounds = floorLog2(size);
    const start = extra > 0 ? 1 : 0;
    const last = start + 2 * rounds;

    function* program(rank: number): Generator<Instruction> {
      const v = virtual(rank);
      if (v === -1) {
        yield send({ lane: OUT, step: 0, to: rank + 1, first: 0, count: active });
        yield after({ lane: IN, step: 0, on: OUT, count: 1 });
        yield receive({ lane: IN, step: last, from: rank + 1, first: 0, count: active });
        return;
      }
      const folded = v < extra;
      let received = 0;
      if (folded) {
        yield receiveReduce({ lane: IN, step: 0, from: rank - 1, first: 0, count: active, finish: active === 1 });
        received++;
      }
      for (let k = 0, half = active / 2; k < rounds; k++, half /= 2) {
        const step = start + k;
        const partner = real(v ^ half);
        const mine = v & -half;
        if (received > 0) yield after({ lane: OUT, step, on: IN, count: received });
        yield send({ lane: OUT, step, to: partner, first: mine ^ half, count: half });
        yield receiveReduce({ lane: IN, step, from: partner, first: mine, count: half, finish: half === 1 });
        received++;
      }
      if (rounds > 0) yield after({ lane: IN, step: start + rounds, on: OUT, count: rounds });
      for (let k = 0, half = 1; k < rounds; k++, half *= 2) {
        const step = start + rounds + k;
        const partner = real(v ^ half);
        const mine = v & -half;
        yield after({ lane: OUT, step, on: IN, count: received });
        yield send({ lane: OUT, step, to: partner, first: mine, count: half });
        yield receive({ lane: IN, step, from: partner, first: mine ^ half, count: half });
        received++;
      }
      if (folded) {
        yield after({ lane: OUT, step: last, on: IN, count: received });
        yield send({ lane: OUT, step: last, to: rank - 1, first: 0, count: active });
      }
    }

    const schedule = defineSchedule({
      collective: 'allreduce',
      algorithm: 'halving-doubling',
      size,
      chunks: active,
      buffers: [DATA],
      lanes: OUT_IN,
      steps: last + start,
      program,
    });
    return inRingOrder(schedule, topology);
  },
  cost(shape) {
    const { size: p, bytes: n } = shape;
    const { active: q, extra } = fold(p);
    const x = extra > 0 ? 1 : 0;
    const part = (n * (q - 1)) / q;
    return flatCost(shape, 2 * floorLog2(p) + 2 * x, 2 * part + 2 * x * n, part + x * n);
  },
};
