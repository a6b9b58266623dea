/**
 * Multicast broadcast: the root sends once, the fabric replicates.
 *
 * Steps   1
 * Bytes   n out of the root's port and n into everybody's
 * Wins    Wherever the fabric has multicast. InfiniBand's is unreliable, so an executor adds acknowledgements or repairs behind it.
 * Paper   Hoefler, Siebert, Rehm: A practically constant-time MPI broadcast algorithm for large-scale InfiniBand clusters with multicast, IPDPS 2007.
 */

import { DATA } from '../../schedule/contract.js';
import { multicast, receive } from '../../schedule/instruction.js';
import { defineSchedule } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';

export const multicastBroadcast: Algorithm = {
  collective: 'broadcast',
  name: 'multicast',
  description: 'send once, the fabric replicates; where the fabric has multicast',
  needs: 'multicast',
  supports: always,
  schedule({ size, root = 0 }) {
    return defineSchedule({
      collective: 'broadcast',
      algorithm: 'multicast',
      size,
      root,
      chunks: 1,
      buffers: [DATA],
      lanes: OUT_IN,
      steps: size === 1 ? 0 : 1,
      *program(rank) {
        if (size === 1) return;
        if (rank === root) yield multicast({ lane: OUT, step: 0, first: 0 });
        else yield receive({ lane: IN, step: 0, from: root, first: 0 });
      },
    });
  },
  cost(shape) {
    const one = shape.size === 1 ? 0 : 1;
    return flatCost(shape, one, one * shape.bytes, 0, 1);
  },
};
