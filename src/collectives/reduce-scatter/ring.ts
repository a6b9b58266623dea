/**
 * Ring reduce-scatter: partial sums travel round a ring and grow; after p - 1 steps rank r holds chunk r complete.
 *
 * Steps   p - 1
 * Bytes   n(p - 1)/p sent, received and combined by each rank
 * Wins    Large vectors, any p. The v-form is the same schedule over uneven chunks.
 * Paper   Patarasuk, Yuan, JPDC 2009.
 */

import { DATA } from '../../schedule/contract.js';
import { defineSchedule } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { OUT_IN } from '../lanes.js';
import { inRingOrder } from '../order.js';
import { reduceScatterStep } from '../ring-steps.js';

export const ringReduceScatter: Algorithm = {
  collective: 'reduce-scatter',
  name: 'ring',
  description: 'partial sums travel round a ring; for large vectors at any size',
  supports: always,
  schedule({ size, topology }) {
    const schedule = defineSchedule({
      collective: 'reduce-scatter',
      algorithm: 'ring',
      size,
      chunks: size,
      buffers: [DATA],
      lanes: OUT_IN,
      steps: size - 1,
      alike: () => 0,
      at: (rank, step) => reduceScatterStep(rank, step, size),
    });
    return inRingOrder(schedule, topology);
  },
  cost(shape) {
    const { size: p, bytes: n } = shape;
    return flatCost(shape, p - 1, (n * (p - 1)) / p, (n * (p - 1)) / p, 1);
  },
};
