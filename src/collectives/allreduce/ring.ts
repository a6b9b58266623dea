/**
 * Ring all-reduce: reduce-scatter round a ring, then all-gather round the same ring.
 *
 * Idea    The vector is cut into p chunks. In p - 1 steps each rank passes a growing partial sum to its right neighbour, until rank r holds
 *         chunk r complete; in p - 1 more steps the complete chunks travel round.
 * Steps   2(p - 1)
 * Bytes   2n(p - 1)/p sent and received by each rank: the least possible. n(p - 1)/p combined.
 * Wins    Large vectors: no byte too many, and each link carries traffic in one direction only. Loses on small ones: latency grows with p.
 * Order   Host by host (order.ts), so that each NIC carries one flow in and one out.
 * Paper   Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 2009.
 */

import { DATA } from '../../schedule/contract.js';
import { defineSchedule } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { OUT_IN } from '../lanes.js';
import { inRingOrder } from '../order.js';
import { allGatherStep, reduceScatterStep } from '../ring-steps.js';

export const ring: Algorithm = {
  collective: 'allreduce',
  name: 'ring',
  description: 'reduce-scatter and all-gather round a ring; fewest bytes, for large vectors',
  supports: always,
  schedule({ size, topology }) {
    const half = size - 1;
    const schedule = defineSchedule({
      collective: 'allreduce',
      algorithm: 'ring',
      size,
      chunks: size,
      buffers: [DATA],
      lanes: OUT_IN,
      steps: 2 * half,
      alike: () => 0,
      at: (rank, step) => (step < half ? reduceScatterStep(rank, step, size) : allGatherStep(rank, step - half, size, half)),
    });
    return inRingOrder(schedule, topology);
  },
  cost(shape) {
    const { size: p, bytes: n } = shape;
    return flatCost(shape, 2 * (p - 1), (2 * n * (p - 1)) / p, (n * (p - 1)) / p, 1);
  },
};
