/**
 * Fan-out broadcast: a tree of degree 4.
 *
 * Steps   4 per level at a node that sends one message at a time, ceil(log4 p) levels or fewer
 * Bytes   n per step
 * Wins    Where a node's sends overlap (several cores, shared memory): few levels. In the one-port model binomial is never worse.
 * Paper   The k-nomial and k-ary trees of UCC and Open MPI.
 */

import { type Algorithm, always, flatCost } from '../algorithm.js';
import { fanTree, rounds } from '../tree.js';
import { broadcastSchedule } from '../tree-algorithms.js';

export const fanOutBroadcast: Algorithm = {
  collective: 'broadcast',
  name: 'fan-out',
  description: 'a tree in which each node serves up to four; for hosts whose sends overlap',
  supports: always,
  schedule: (shape) => broadcastSchedule('fan-out', fanTree(shape.size), shape),
  cost(shape) {
    const { size: p, bytes: n } = shape;
    const steps = rounds(fanTree(p));
    return flatCost(shape, steps, n * steps, 0);
  },
};
