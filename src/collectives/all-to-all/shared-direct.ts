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
import { copy, signal, wait, write } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, onOneHost } from '../algorithm.js';

const LANE = 0;

export const sharedDirectAllToAll: Algorithm = {
  collective: 'all-to-all',
  name: 'shared-direct',
  description: 'write your blocks into every output; for buffers in shared memory',
  needs: 'shared-memory',
  supports: onOneHost,
  schedule({ size }) {
    function* program(rank: number): Generator<Instruction> {
      const peer = (k: number): number => (rank + k) % size;
      for (let k = 1; k < size; k++) yield signal({ lane: LANE, step: 0, to: peer(k) });
      yield copy({ lane: LANE, step: 0, rank, buffer: OUTPUT_ID, first: rank, otherBuffer: INPUT_ID });
      for (let k = 1; k < size; k++) {
        yield wait({ lane: LANE, step: k, from: peer(k) });
        yield write({
          lane: LANE,
          step: k,
          to: peer(k),
          buffer: INPUT_ID,
          first: peer(k),
          otherBuffer: OUTPUT_ID,
          otherFirst: rank,
        });
      }
      for (let k = 1; k < size; k++) yield signal({ lane: LANE, step: size, to: peer(k) });
      for (let k = 1; k < size; k++) yield wait({ lane: LANE, step: size, from: peer(k) });
    }
    return defineSchedule({
      collective: 'all-to-all',
      algorithm: 'shared-direct',
      size,
      chunks: size,
      buffers: userBuffers('all-to-all'),
      lanes: [{ name: 'memory', reach: 'memory' }],
      steps: size + 1,
      program,
    });
  },
  cost({ size: p, bytes: n }) {
    return { terms: [{ level: 'memory-write', alpha: 2 * (p - 1), beta: (n * (p - 1)) / p }], gamma: 0, copied: n / p };
  },
};
