/**
 * Shared-memory all-gather: everybody reads every other part where it lies.
 *
 * Idea    Nothing is passed on, so nobody waits for a neighbour's copy: one synchronisation before, one after, so that no part is changed while it is
 *         read. Ranks begin with different peers.
 * Steps   2 synchronisations with p - 1 peers
 * Bytes   n(p - 1)/p read by each rank
 * Wins    Inside a host when the buffers are in shared memory.
 */

import { read, wait } from '../../schedule/instruction.js';
import type { Instruction } from '../../schedule/schedule.js';
import type { Algorithm } from '../algorithm.js';
import { LANE, meet, SHARED_DIRECT, sharedSchedule, signalAll } from '../shared-direct.js';

export const sharedDirectAllGather: Algorithm = {
  collective: 'all-gather',
  ...SHARED_DIRECT,
  description: 'read every part where it lies; for buffers in shared memory',
  schedule({ size }) {
    function* program(rank: number): Generator<Instruction> {
      yield* signalAll(rank, size, 0);
      for (let k = 1; k < size; k++) {
        const from = (rank + k) % size;
        yield wait({ lane: LANE, step: k, from });
        yield read({ lane: LANE, step: k, from, first: from });
      }
      yield* meet(rank, size, size);
    }
    return sharedSchedule({ collective: 'all-gather', size, steps: size === 1 ? 0 : size + 1, program });
  },
  cost({ size: p, bytes: n }) {
    return { terms: [{ level: 'memory', alpha: 2 * (p - 1), beta: (n * (p - 1)) / p }], gamma: 0 };
  },
};
