/**
 * Pairwise all-to-all: in step s every rank sends to the rank s ahead and takes from the rank s behind.
 *
 * Steps   p - 1 messages (and a copy of the own block)
 * Bytes   n(p - 1)/p sent and received by each rank; every step is a permutation, so no port is met twice
 * Wins    Large blocks. The v-form is the same schedule over each rank's own counts.
 * Paper   Thakur, Rabenseifner, Gropp, IJHPCA 2005.
 */

import { userBuffers } from '../../schedule/contract.js';
import { defineSchedule } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { OUT_IN } from '../lanes.js';
import { exchangeStep } from './exchange.js';

export const pairwiseAllToAll: Algorithm = {
  collective: 'all-to-all',
  name: 'pairwise',
  description: 'to the rank s ahead, from the rank s behind; for large blocks',
  supports: always,
  schedule({ size }) {
    return defineSchedule({
      collective: 'all-to-all',
      algorithm: 'pairwise',
      size,
      chunks: size,
      buffers: userBuffers('all-to-all'),
      lanes: OUT_IN,
      steps: size,
      at: (rank, step) => exchangeStep(rank, step, (rank + step) % size, (rank - step + size) % size),
    });
  },
  cost(shape) {
    const { size: p, bytes: n } = shape;
    return flatCost(shape, p - 1, (n * (p - 1)) / p, 0);
  },
};
