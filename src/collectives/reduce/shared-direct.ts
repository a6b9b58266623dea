/**
 * Shared-memory reduce: everybody combines its own chunk out of all peers' buffers and puts it into the root's.
 *
 * Idea    The work is spread over all ranks, though only the root wants the result.
 * Steps   2 synchronisations with p - 1 peers
 * Bytes   n(p - 1)/p read and combined, n/p written by each rank but the root
 * Wins    Inside a host when the buffers are in shared memory.
 */

import { DATA } from '../../schedule/contract.js';
import { readReduce, signal, wait, write } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, onOneHost } from '../algorithm.js';

const LANE = 0;

export const sharedDirectReduce: Algorithm = {
  collective: 'reduce',
  name: 'shared-direct',
  description: 'all combine a chunk each and put it into the root; for buffers in shared memory',
  needs: 'shared-memory',
  supports: onOneHost,
  schedule({ size, root = 0 }) {
    function* program(rank: number): Generator<Instruction> {
      const peer = (k: number): number => (rank + k) % size;
      for (let k = 1; k < size; k++) yield signal({ lane: LANE, step: 0, to: peer(k) });
      for (let k = 1; k < size; k++) {
        yield wait({ lane: LANE, step: k, from: peer(k) });
        yield readReduce({ lane: LANE, step: k, from: peer(k), first: rank, finish: k === size - 1 });
      }
      if (rank !== root && size > 1) yield write({ lane: LANE, step: size, to: root, first: rank });
      for (let k = 1; k < size; k++) yield signal({ lane: LANE, step: size + 1, to: peer(k) });
      for (let k = 1; k < size; k++) yield wait({ lane: LANE, step: size + 1, from: peer(k) });
    }
    return defineSchedule({
      collective: 'reduce',
      algorithm: 'shared-direct',
      size,
      root,
      chunks: size,
      buffers: [DATA],
      lanes: [{ name: 'memory', reach: 'memory' }],
      steps: size === 1 ? 0 : size + 2,
      program,
    });
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
