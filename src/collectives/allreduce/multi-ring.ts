/**
 * Several rings at once, one per NIC.
 *
 * Idea    The vector is cut into as many parts as hosts have NICs; each part runs its own ring, which enters and leaves every host near its
 *         own NIC (order.ts), so all NICs carry traffic at the same time.
 * Steps   2(p - 1), each ring side by side
 * Bytes   2n(p - 1)/p per rank as in one ring; through each NIC 1/NICs of it.
 * Wins    Large vectors on hosts with several NICs.
 * Paper   The channels of NCCL are such rings.
 */

import { embed, sideBySide } from '../../schedule/compose.js';
import { DATA } from '../../schedule/contract.js';
import { defineSchedule } from '../../schedule/schedule.js';
import { type Algorithm, requireSupport } from '../algorithm.js';
import { ringOrders } from '../order.js';
import { ring } from './ring.js';

export const multiRing: Algorithm = {
  collective: 'allreduce',
  name: 'multi-ring',
  description: 'one ring per NIC; for large vectors on hosts with several NICs',
  supports: ({ topology }) =>
    topology === undefined || topology.nicsPerHost < 2 ? 'needs a topology with two or more NICs per host' : true,
  schedule(shape) {
    requireSupport(multiRing, shape);
    const { size, topology } = shape;
    const orders = topology === undefined ? [] : ringOrders(topology);
    const one = ring.schedule({ size, bytes: shape.bytes });
    const { lanes, steps, program } = sideBySide(
      orders.map((members, k) => {
        const position = new Map(members.map((rank, v) => [rank, v]));
        return {
          lanes: one.lanes.map((lane) => ({ ...lane, name: `ring ${k} ${lane.name}` })),
          steps: one.steps,
          instructions: (rank) => embed(one, position.get(rank) ?? -1, { members, base: k * size, finish: true }),
        };
      }),
    );
    return defineSchedule({
      collective: 'allreduce',
      algorithm: 'multi-ring',
      size,
      chunks: size * orders.length,
      buffers: [DATA],
      lanes,
      steps,
      program,
      alike: () => 0,
    });
  },
  cost({ size: p, bytes: n, topology }) {
    const rings = Math.max(1, topology?.nicsPerHost ?? 1);
    const bytes = (2 * n * (p - 1)) / p;
    // One NIC carries one ring; inside the host a rank passes on all of them.
    return {
      terms: [{ level: 'flat', alpha: 2 * (p - 1), beta: bytes / rings, flows: rings, insideBeta: bytes }],
      gamma: (n * (p - 1)) / p,
    };
  },
};
