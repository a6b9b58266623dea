/**
 * Shared-memory all-to-all: everybody writes its blocks into every other output.
 *
 * Idea    One synchronisation before, so that no output is changed while its owner still needs it, one after. The own block is copied first: that needs
 *         nobody, and the others arrive meanwhile. Written, not read: the inputs then stay in the cache of the one who made them.
 * Steps   2 synchronisations with p - 1 peers
 * Bytes   n(p - 1)/p written by each rank
 * Wins    Inside a host when the buffers are in shared memory.
 */

import { INPUT_ID, OUTPUT_ID, userBuffers } from '../../schedule/contract.js';
import { copy, wait, write } from '../../schedule/instruction.js';
import type { Instruction } from '../../schedule/schedule.js';
import type { Algorithm } from '../algorithm.js';
import { LANE, meet, SHARED_DIRECT, sharedSchedule, signalAll } from '../shared-direct.js';

export const sharedDirectAllToAll: Algorithm = {
  collective: 'all-to-all',
  ...SHARED_DIRECT,
  description: 'write your blocks into every output; for buffers in shared memory',
  schedule({ size }) {
    function* program(rank: number): Generator<Instruction> {
      yield* signalAll(rank, size, 0);
      yield copy({ lane: LANE, step: 0, rank, buffer: OUTPUT_ID, first: rank, otherBuffer: INPUT_ID });
      for (let k = 1; k < size; k++) {
        const to = (rank + k) % size;
        yield wait({ lane: LANE, step: k, from: to });
        yield write({ lane: LANE, step: k, to, buffer: INPUT_ID, first: to, otherBuffer: OUTPUT_ID, otherFirst: rank });
      }
      yield* meet(rank, size, size);
    }
    return sharedSchedule({ collective: 'all-to-all', size, buffers: userBuffers('all-to-all'), steps: size + 1, program });
  },
  cost({ size: p, bytes: n }) {
    return { terms: [{ level: 'memory-write', alpha: 2 * (p - 1), beta: (n * (p - 1)) / p }], gamma: 0, copied: n / p };
  },
};
