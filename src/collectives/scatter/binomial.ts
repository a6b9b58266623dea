/**
 * Binomial scatter: a node receives the blocks of its subtree and hands on as one message.
 *
 * A subtree is a run of positions, so its blocks are one (cyclic) range of chunks and need no packing.
 * Steps   ceil(log2 p)
 * Bytes   n(p - 1)/p out of the root's port; inner nodes forward up to n/2
 * Wins    Small blocks.
 * Paper   Thakur, Rabenseifner, Gropp, IJHPCA 2005.
 */

import { type Algorithm, always, flatCost } from '../algorithm.js';
import { ceilLog2 } from '../powers.js';
import { binomialTree } from '../tree.js';
import { scatterSchedule } from '../tree-algorithms.js';

export const binomialScatter: Algorithm = {
  collective: 'scatter',
  name: 'binomial',
  description: 'blocks of whole subtrees in one message; fewest steps, for small blocks',
  supports: always,
  schedule: (shape) => scatterSchedule('binomial', binomialTree(shape.size), shape),
  cost(shape) {
    const { size: p, bytes: n } = shape;
    return { ...flatCost(shape, ceilLog2(p), (n * (p - 1)) / p, 0), copied: n / p };
  },
};
