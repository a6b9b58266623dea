/**
 * Shared-memory reduce-scatter: everybody combines its own chunk straight out of all peers' buffers.
 *
 * Idea    The first half of the shared-memory all-reduce: chunk r is read by rank r alone, nothing is passed on.
 * Steps   2 synchronisations with p - 1 peers
 * Bytes   n(p - 1)/p read and combined by each rank
 * Wins    Inside a host when the buffers are in shared memory.
 */

import { DATA } from '../../schedule/contract.js';
import { readReduce, signal, wait } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, onOneHost } from '../algorithm.js';

const LANE = 0;

export const sharedDirectReduceScatter: Algorithm = {
  collective: 'reduce-scatter',
  name: 'shared-direct',
  description: 'combine your chunk out of all peers; for buffers in shared memory',
  needs: 'shared-memory',
  supports: onOneHost,
  schedule({ size }) {
    function* program(rank: number): Generator<Instruction> {
      const peer = (k: number): number => (rank + k) % size;
      for (let k = 1; k < size; k++) yield signal({ lane: LANE, step: 0, to: peer(k) });
      for (let k = 1; k < size; k++) {
        yield wait({ lane: LANE, step: k, from: peer(k) });
        yield readReduce({ lane: LANE, step: k, from: peer(k), first: rank, finish: k === size - 1 });
      }
      for (let k = 1; k < size; k++) yield signal({ lane: LANE, step: size, to: peer(k) });
      for (let k = 1; k < size; k++) yield wait({ lane: LANE, step: size, from: peer(k) });
    }
    return defineSchedule({
      collective: 'reduce-scatter',
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
    const moved = (n * (p - 1)) / p;
    return { terms: [{ level: 'memory', alpha: 2 * (p - 1), beta: moved }], gamma: moved };
  },
};
