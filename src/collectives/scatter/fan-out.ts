/**
 * Fan-out scatter: a tree of degree 4, a subtree's blocks in one message.
 *
 * Steps   4 per level at a node that sends one message at a time
 * Bytes   n(p - 1)/p out of the root's port, a little more where a subtree is late
 * Wins    Small blocks where a node handles several children at once.
 */

import { type Algorithm, always, flatCost } from '../algorithm.js';
import { fanTree, gatherPath } from '../tree.js';
import { scatterSchedule } from '../tree-algorithms.js';

export const fanOutScatter: Algorithm = {
  collective: 'scatter',
  name: 'fan-out',
  description: 'a tree of degree four with whole subtrees in one message',
  supports: always,
  schedule: (shape) => scatterSchedule('fan-out', fanTree(shape.size), shape),
  cost(shape) {
    const { size: p, bytes: n } = shape;
    const tree = fanTree(p);
    return { ...flatCost(shape, gatherPath(tree, 1, 0), gatherPath(tree, 0, n / p), 0), copied: n / p };
  },
};
