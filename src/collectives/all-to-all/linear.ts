/**
 * Linear all-to-all: everybody sends to rank 0, 1, 2, ... and takes from rank 0, 1, 2, ...
 *
 * Steps   a wavefront of 2p - 3 messages when ports serve one at a time
 * Bytes   n(p - 1)/p sent and received by each rank; but all of them want rank 0's port first (incast)
 * Wins    Never against pairwise; kept because many programs do exactly this.
 */

import { userBuffers } from '../../schedule/contract.js';
import { defineSchedule } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { OUT_IN } from '../lanes.js';
import { exchangeStep } from './exchange.js';

export const linearAllToAll: Algorithm = {
  collective: 'all-to-all',
  name: 'linear',
  description: 'to rank 0, 1, 2, ... in turn; the yardstick for incast',
  supports: always,
  schedule({ size }) {
    return defineSchedule({
      collective: 'all-to-all',
      algorithm: 'linear',
      size,
      chunks: size,
      buffers: userBuffers('all-to-all'),
      lanes: OUT_IN,
      steps: size,
      at: (rank, step) => exchangeStep(rank, step, step, step),
    });
  },
  cost(shape) {
    const { size: p, bytes: n } = shape;
    const wavefront = p === 1 ? 0 : 2 * p - 3;
    return flatCost(shape, wavefront, (n * wavefront) / p, 0);
  },
};
