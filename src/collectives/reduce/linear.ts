/**
 * Linear reduce: every rank sends its vector to the root, which adds them one by one.
 *
 * Steps   p - 1, all of them at the root
 * Bytes   n(p - 1) into the root's port, n(p - 1) combined there
 * Wins    Two or three ranks.
 */

import { type Algorithm, always, flatCost } from '../algorithm.js';
import { starTree } from '../tree.js';
import { reduceSchedule } from '../tree-algorithms.js';

export const linearReduce: Algorithm = {
  collective: 'reduce',
  name: 'linear',
  description: 'the root takes from everybody in turn; for two or three ranks',
  supports: always,
  schedule: (shape) => reduceSchedule('linear', starTree(shape.size), shape),
  cost(shape) {
    const { size: p, bytes: n } = shape;
    return flatCost(shape, p - 1, n * (p - 1), n * (p - 1));
  },
};
