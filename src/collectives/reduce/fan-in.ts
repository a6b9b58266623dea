/**
 * Fan-in reduce: a tree of degree 4.
 *
 * Steps   4 per level at a node that takes one message at a time
 * Bytes   n per step
 * Wins    Where a node takes from several children at once (shared memory): few levels. In the one-port model binomial is never worse.
 */

import { type Algorithm, always, flatCost } from '../algorithm.js';
import { fanTree, rounds } from '../tree.js';
import { reduceSchedule } from '../tree-algorithms.js';

export const fanInReduce: Algorithm = {
  collective: 'reduce',
  name: 'fan-in',
  description: 'a tree in which each node takes from up to four; few levels',
  supports: always,
  schedule: (shape) => reduceSchedule('fan-in', fanTree(shape.size), shape),
  cost(shape) {
    const { size: p, bytes: n } = shape;
    const steps = rounds(fanTree(p));
    return flatCost(shape, steps, n * steps, n * steps);
  },
};
