/**
 * Scatter and all-gather (van de Geijn): the root scatters the vector over a binomial tree, a ring all-gather puts it together everywhere.
 *
 * Steps   ceil(log2 p) + p - 1
 * Bytes   n(p - 1)/p for the scatter and as much for the all-gather
 * Wins    Large vectors without a chain order: every port is busy, against n log2 p of the binomial tree.
 * Paper   Barnett et al.: Interprocessor collective communication library (InterCom), SHPCC 1994.
 */

import { embed, staged } from '../../schedule/compose.js';
import { DATA } from '../../schedule/contract.js';
import { after, receive, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { ringAllGather } from '../all-gather/ring.js';
import { IN, OUT, OUT_IN } from '../lanes.js';
import { ceilLog2 } from '../powers.js';
import { arrival, binomialTree, rounds } from '../tree.js';

export const scatterAllGather: Algorithm = {
  collective: 'broadcast',
  name: 'scatter-all-gather',
  description: 'scatter over a tree, gather round a ring; for large vectors',
  supports: always,
  schedule({ size, root = 0 }) {
    const tree = binomialTree(size);
    const gather = ringAllGather.schedule({ size, bytes: 0 });
    const members = Array.from({ length: size }, (_, position) => (position + root) % size);

    /** Chunk v is the one that position v = rank - root owns between the two stages. */
    function* scatter(rank: number): Generator<Instruction> {
      const position = (rank - root + size) % size;
      const own = arrival(tree, position);
      if (position !== 0) {
        yield receive({
          lane: IN,
          step: own - 1,
          from: members[tree.parent(position)],
          first: position,
          count: tree.count(position),
        });
      }
      const children = tree.children(position);
      for (let k = 0; k < children.length; k++) {
        if (k === 0 && position !== 0) yield after({ lane: OUT, step: own, on: IN, count: 1 });
        yield send({ lane: OUT, step: own + k, to: members[children[k]], first: children[k], count: tree.count(children[k]) });
      }
    }

    const { lanes, steps, program } = staged([
      { lanes: OUT_IN, steps: rounds(tree), instructions: scatter },
      {
        lanes: gather.lanes,
        steps: gather.steps,
        instructions: (rank) => embed(gather, (rank - root + size) % size, { members }),
      },
    ]);
    return defineSchedule({
      collective: 'broadcast',
      algorithm: 'scatter-all-gather',
      size,
      root,
      chunks: size,
      buffers: [DATA],
      lanes,
      steps,
      program,
    });
  },
  cost(shape) {
    const { size: p, bytes: n } = shape;
    return flatCost(shape, ceilLog2(p) + p - 1, (2 * n * (p - 1)) / p, 0);
  },
};
