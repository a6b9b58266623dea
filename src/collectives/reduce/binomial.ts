/**
 * Binomial reduce: pairs combine, then pairs of pairs: the binomial broadcast backwards.
 *
 * Steps   ceil(log2 p)
 * Bytes   n ceil(log2 p) into the root's port, and as much combined
 * Wins    Small vectors.
 * Paper   Thakur, Rabenseifner, Gropp, IJHPCA 2005.
 */

import { type Algorithm, always, flatCost } from '../algorithm.js';
import { ceilLog2 } from '../powers.js';
import { binomialTree } from '../tree.js';
import { reduceSchedule } from '../tree-algorithms.js';

export const binomialReduce: Algorithm = {
  collective: 'reduce',
  name: 'binomial',
  description: 'pairs, then pairs of pairs; fewest steps, for small vectors',
  supports: always,
  schedule: (shape) => reduceSchedule('binomial', binomialTree(shape.size), shape),
  cost(shape) {
    const { size: p, bytes: n } = shape;
    const steps = ceilLog2(p);
    return flatCost(shape, steps, n * steps, n * steps);
  },
};
