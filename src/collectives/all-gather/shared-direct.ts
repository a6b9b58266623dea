/**
 * Shared-memory all-gather: everybody reads every other part where it lies.
 *
 * Idea    Nothing is passed on, so nobody waits for a neighbour's copy: one synchronisation before, one after, so that no part is changed while it is
 *         read. Ranks begin with different peers.
 * Steps   2 synchronisations with p - 1 peers
 * Bytes   n(p - 1)/p read by each rank
 * Wins    Inside a host when the buffers are in shared memory.
 */

import { DATA } from '../../schedule/contract.js';
import { read, signal, wait } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, onOneHost } from '../algorithm.js';

const LANE = 0;

export const sharedDirectAllGather: Algorithm = {
  collective: 'all-gather',
  name: 'shared-direct',
  description: 'read every part where it lies; for buffers in shared memory',
  needs: 'shared-memory',
  supports: onOneHost,
  schedule({ size }) {
    function* program(rank: number): Generator<Instruction> {
      const peer = (k: number): number => (rank + k) % size;
      for (let k = 1; k < size; k++) yield signal({ lane: LANE, step: 0, to: peer(k) });
      for (let k = 1; k < size; k++) {
        yield wait({ lane: LANE, step: k, from: peer(k) });
        yield read({ lane: LANE, step: k, from: peer(k), first: peer(k) });
      }
      for (let k = 1; k < size; k++) yield signal({ lane: LANE, step: size, to: peer(k) });
      for (let k = 1; k < size; k++) yield wait({ lane: LANE, step: size, from: peer(k) });
    }
    return defineSchedule({
      collective: 'all-gather',
      algorithm: 'shared-direct',
      size,
      chunks: size,
      buffers: [DATA],
      lanes: [{ name: 'memory', reach: 'memory' }],
      steps: size === 1 ? 0 : size + 1,
      program,
    });
  },
  cost({ size: p, bytes: n }) {
    return { terms: [{ level: 'memory', alpha: 2 * (p - 1), beta: (n * (p - 1)) / p }], gamma: 0 };
  },
};
