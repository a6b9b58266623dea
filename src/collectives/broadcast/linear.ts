/**
 * Linear broadcast: the root sends the whole vector to each rank in turn.
 *
 * Steps   p - 1, all of them at the root
 * Bytes   n(p - 1) out of the root's port
 * Wins    Two or three ranks; as the yardstick for the others.
 */

import { type Algorithm, always, flatCost } from '../algorithm.js';
import { starTree } from '../tree.js';
import { broadcastSchedule } from '../tree-algorithms.js';

export const linearBroadcast: Algorithm = {
  collective: 'broadcast',
  name: 'linear',
  description: 'the root sends to everybody in turn; for two or three ranks',
  supports: always,
  schedule: (shape) => broadcastSchedule('linear', starTree(shape.size), shape),
  cost(shape) {
    const { size: p, bytes: n } = shape;
    return flatCost(shape, p - 1, n * (p - 1), 0);
  },
};
