/**
 * Linear gather: every rank sends its block straight to the root.
 *
 * Steps   p - 1, all of them at the root
 * Bytes   n(p - 1)/p into the root's port
 * Wins    Large blocks: nothing is forwarded.
 */

import { type Algorithm, always, flatCost } from '../algorithm.js';
import { starTree } from '../tree.js';
import { gatherSchedule } from '../tree-algorithms.js';

export const linearGather: Algorithm = {
  collective: 'gather',
  name: 'linear',
  description: 'every rank sends to the root; no byte is moved twice',
  supports: always,
  schedule: (shape) => gatherSchedule('linear', starTree(shape.size), shape),
  cost(shape) {
    const { size: p, bytes: n } = shape;
    return { ...flatCost(shape, p - 1, (n * (p - 1)) / p, 0), copied: n / p };
  },
};
