/**
 * Linear scatter: the root sends every rank its block.
 *
 * Steps   p - 1, all of them at the root
 * Bytes   n(p - 1)/p out of the root's port
 * Wins    Large blocks: nothing is forwarded.
 */

import { type Algorithm, always, flatCost } from '../algorithm.js';
import { starTree } from '../tree.js';
import { scatterSchedule } from '../tree-algorithms.js';

export const linearScatter: Algorithm = {
  collective: 'scatter',
  name: 'linear',
  description: 'the root sends to every rank; no byte is moved twice',
  supports: always,
  schedule: (shape) => scatterSchedule('linear', starTree(shape.size), shape),
  cost(shape) {
    const { size: p, bytes: n } = shape;
    return { ...flatCost(shape, p - 1, (n * (p - 1)) / p, 0), copied: n / p };
  },
};
