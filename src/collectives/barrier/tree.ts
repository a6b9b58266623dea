/**
 * Fan-in/fan-out barrier: signals run up a binomial tree; when the root has them all, they run down again.
 *
 * Steps   2 ceil(log2 p)
 * Bytes   none: 2(p - 1) signals altogether, the fewest
 * Wins    When messages cost more than waiting: more ranks than cores, or a network that is busy with something else.
 * Paper   Mellor-Crummey, Scott: Algorithms for scalable synchronization on shared-memory multiprocessors, TOCS 1991.
 */

import { signal, wait } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { ceilLog2 } from '../powers.js';
import { arrival, binomialTree, rounds } from '../tree.js';

export const treeBarrier: Algorithm = {
  collective: 'barrier',
  name: 'tree',
  description: 'signals up a tree and down again; fewest signals',
  supports: always,
  schedule({ size }) {
    const tree = binomialTree(size);
    const total = rounds(tree);
    function* program(rank: number): Generator<Instruction> {
      const own = arrival(tree, rank);
      const children = tree.children(rank);
      for (let k = children.length - 1; k >= 0; k--) yield wait({ lane: 0, step: total - own - k - 1, from: children[k] });
      if (rank !== 0) {
        yield signal({ lane: 0, step: total - own, to: tree.parent(rank) });
        yield wait({ lane: 0, step: total + own - 1, from: tree.parent(rank) });
      }
      for (let k = 0; k < children.length; k++) yield signal({ lane: 0, step: total + own + k, to: children[k] });
    }
    return defineSchedule({
      collective: 'barrier',
      algorithm: 'tree',
      size,
      chunks: 1,
      buffers: [],
      lanes: [{ name: 'sync', reach: 'any' }],
      steps: 2 * total,
      program,
    });
  },
  cost: (shape) => flatCost(shape, 2 * ceilLog2(shape.size), 0, 0),
};
