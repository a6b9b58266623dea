/**
 * Shared-memory all-to-all: everybody reads its block out of every other input where it lies.
 *
 * Idea    One synchronisation before, one after, so that no input is changed while it is read. The own block is copied first: that needs nobody, and
 *         the others arrive meanwhile.
 * Steps   2 synchronisations with p - 1 peers
 * Bytes   n(p - 1)/p read by each rank
 * Wins    Inside a host when the buffers are in shared memory.
 */

import { INPUT_ID, OUTPUT_ID, userBuffers } from '../../schedule/contract.js';
import { copy, read, signal, wait } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, onOneHost } from '../algorithm.js';

const LANE = 0;

export const sharedDirectAllToAll: Algorithm = {
  collective: 'all-to-all',
  name: 'shared-direct',
  description: 'read your block out of every input where it lies; for buffers in shared memory',
  needs: 'shared-memory',
  supports: onOneHost,
  schedule({ size }) {
    function* program(rank: number): Generator<Instruction> {
      const peer = (k: number): number => (rank + k) % size;
      for (let k = 1; k < size; k++) yield signal({ lane: LANE, step: 0, to: peer(k) });
      yield copy({ lane: LANE, step: 0, rank, buffer: OUTPUT_ID, first: rank, otherBuffer: INPUT_ID });
      for (let k = 1; k < size; k++) {
        yield wait({ lane: LANE, step: k, from: peer(k) });
        yield read({
          lane: LANE,
          step: k,
          from: peer(k),
          buffer: OUTPUT_ID,
          first: peer(k),
          otherBuffer: INPUT_ID,
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
    return { terms: [{ level: 'memory', alpha: 2 * (p - 1), beta: (n * (p - 1)) / p }], gamma: 0 };
  },
};
