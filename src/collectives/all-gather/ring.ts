/**
 * Ring all-gather: every rank passes on the block it got last.
 *
 * Steps   p - 1
 * Bytes   n(p - 1)/p sent and received by each rank (n: the gathered size)
 * Wins    Large blocks, any p; only neighbours talk. The v-form is the same schedule over uneven chunks.
 * Paper   Thakur, Rabenseifner, Gropp, IJHPCA 2005.
 */

import { DATA } from '../../schedule/contract.js';
import { defineSchedule } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { OUT_IN } from '../lanes.js';
import { inRingOrder } from '../order.js';
import { allGatherStep } from '../ring-steps.js';

export const ringAllGather: Algorithm = {
  collective: 'all-gather',
  name: 'ring',
  description: 'blocks travel round a ring; for large blocks at any size',
  supports: always,
  schedule({ size, topology }) {
    const schedule = defineSchedule({
      collective: 'all-gather',
      algorithm: 'ring',
      size,
      chunks: size,
      buffers: [DATA],
      lanes: OUT_IN,
      steps: size - 1,
      alike: () => 0,
      at: (rank, step) => allGatherStep(rank, step, size, 0),
    });
    return inRingOrder(schedule, topology);
  },
  cost(shape) {
    const { size: p, bytes: n } = shape;
    return flatCost(shape, p - 1, (n * (p - 1)) / p, 0, 1);
  },
};
