/**
 * Binomial tree all-reduce: reduce to rank 0 over a binomial tree, broadcast back over the same tree.
 *
 * Steps   2 ceil(log2 p)
 * Bytes   2n ceil(log2 p) on the root's path; half the ranks send and receive only n
 * Wins    Small vectors at sizes that are no power of two, where recursive doubling folds; and where only few ranks should work.
 * Paper   Thakur, Rabenseifner, Gropp, IJHPCA 2005.
 */

import { type Algorithm, always, flatCost } from '../algorithm.js';
import { binomialBroadcast } from '../broadcast/binomial.js';
import { ceilLog2 } from '../powers.js';
import { binomialReduce } from '../reduce/binomial.js';
import { reduceThenBroadcast } from './reduce-broadcast.js';

export const binomialTreeAllreduce: Algorithm = {
  collective: 'allreduce',
  name: 'binomial-tree',
  description: 'reduce to one rank and broadcast back over a binomial tree; for small vectors',
  supports: always,
  schedule: (shape) => reduceThenBroadcast('binomial-tree', binomialReduce.schedule(shape), binomialBroadcast.schedule(shape)),
  cost(shape) {
    const { size: p, bytes: n } = shape;
    const steps = ceilLog2(p);
    return flatCost(shape, 2 * steps, 2 * n * steps, n * steps);
  },
};
