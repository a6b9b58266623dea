/**
 * Fan-in gather: a tree of degree 4, a subtree's blocks in one message.
 *
 * Steps   4 per level at a node that takes one message at a time
 * Bytes   n(p - 1)/p into the root's port, a little more where a subtree is late
 * Wins    Small blocks where a node handles several children at once.
 */

import { type Algorithm, always, flatCost } from '../algorithm.js';
import { fanTree, gatherPath } from '../tree.js';
import { gatherSchedule } from '../tree-algorithms.js';

export const fanInGather: Algorithm = {
  collective: 'gather',
  name: 'fan-in',
  description: 'a tree of degree four with whole subtrees in one message',
  supports: always,
  schedule: (shape) => gatherSchedule('fan-in', fanTree(shape.size), shape),
  cost(shape) {
    const { size: p, bytes: n } = shape;
    const tree = fanTree(p);
    return { ...flatCost(shape, gatherPath(tree, 1, 0), gatherPath(tree, 0, n / p), 0), copied: n / p };
  },
};
