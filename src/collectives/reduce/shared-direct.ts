/**
 * Shared-memory reduce: everybody combines its own chunk out of all peers' buffers and puts it into the root's.
 *
 * Idea    The work is spread over all ranks, though only the root wants the result.
 * Steps   2 synchronisations with p - 1 peers
 * Bytes   n(p - 1)/p read and combined, n/p written by each rank but the root
 * Wins    Inside a host when the buffers are in shared memory.
 */

import { write } from '../../schedule/instruction.js';
import type { Instruction } from '../../schedule/schedule.js';
import type { Algorithm } from '../algorithm.js';
import { combineOwn, LANE, meet, SHARED_DIRECT, sharedSchedule } from '../shared-direct.js';

export const sharedDirectReduce: Algorithm = {
  collective: 'reduce',
  ...SHARED_DIRECT,
  description: 'all combine a chunk each and put it into the root; for buffers in shared memory',
  schedule({ size, root = 0 }) {
    function* program(rank: number): Generator<Instruction> {
      yield* combineOwn(rank, size);
      if (rank !== root && size > 1) yield write({ lane: LANE, step: size, to: root, first: rank });
      yield* meet(rank, size, size + 1);
    }
    return sharedSchedule({ collective: 'reduce', size, root, steps: size === 1 ? 0 : size + 2, program });
  },
  cost({ size: p, bytes: n }) {
    if (p === 1) return { terms: [{ level: 'memory', alpha: 0, beta: 0 }], gamma: 0 };
    const part = (n * (p - 1)) / p;
    const terms = [
      { level: 'memory', alpha: 2 * (p - 1), beta: part },
      { level: 'memory-update', alpha: 0, beta: n / p },
    ] as const;
    return { terms, gamma: part };
  },
};
