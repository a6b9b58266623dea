/**
 * Linear all-reduce: everybody sends to rank 0, which adds and sends the sum to everybody.
 *
 * Steps   2(p - 1), all of them at rank 0
 * Bytes   (p - 1)n into rank 0's port and (p - 1)n out of it; (p - 1)n combined there
 * Wins    Never beyond two or three ranks; the yardstick for the others.
 */

import { type Algorithm, always, flatCost } from '../algorithm.js';
import { linearBroadcast } from '../broadcast/linear.js';
import { linearReduce } from '../reduce/linear.js';
import { reduceThenBroadcast } from './reduce-broadcast.js';

export const linearAllreduce: Algorithm = {
  collective: 'allreduce',
  name: 'linear',
  description: 'all to one rank and back; the yardstick',
  supports: always,
  schedule: (shape) => reduceThenBroadcast('linear', linearReduce.schedule(shape), linearBroadcast.schedule(shape)),
  cost(shape) {
    const { size: p, bytes: n } = shape;
    return flatCost(shape, 2 * (p - 1), 2 * n * (p - 1), n * (p - 1));
  },
};
