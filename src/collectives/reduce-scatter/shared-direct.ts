/**
 * Shared-memory reduce-scatter: everybody combines its own chunk straight out of all peers' buffers.
 *
 * Idea    The first half of the shared-memory all-reduce: chunk r is read by rank r alone, nothing is passed on.
 * Steps   2 synchronisations with p - 1 peers
 * Bytes   n(p - 1)/p read and combined by each rank
 * Wins    Inside a host when the buffers are in shared memory.
 */

import type { Instruction } from '../../schedule/schedule.js';
import type { Algorithm } from '../algorithm.js';
import { combineOwn, meet, SHARED_DIRECT, sharedSchedule } from '../shared-direct.js';

export const sharedDirectReduceScatter: Algorithm = {
  collective: 'reduce-scatter',
  ...SHARED_DIRECT,
  description: 'combine your chunk out of all peers; for buffers in shared memory',
  schedule({ size }) {
    function* program(rank: number): Generator<Instruction> {
      yield* combineOwn(rank, size);
      yield* meet(rank, size, size);
    }
    return sharedSchedule({ collective: 'reduce-scatter', size, steps: size === 1 ? 0 : size + 1, program });
  },
  cost({ size: p, bytes: n }) {
    const moved = (n * (p - 1)) / p;
    return { terms: [{ level: 'memory', alpha: 2 * (p - 1), beta: moved }], gamma: moved };
  },
};
