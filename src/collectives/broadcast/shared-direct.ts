/**
 * Shared-memory broadcast: everybody takes its part of the work straight out of the root's buffer, the root included.
 *
 * Idea    Readers fetch p - 1 of p chunks themselves; the root, who would only wait meanwhile, writes the remaining chunk into everybody's buffer. So
 *         with two ranks both copy half a vector at once.
 * Steps   2 synchronisations of the root with each of the others
 * Bytes   n(p - 1)/p read by each of the others, n(p - 1)/p written by the root
 * Wins    Inside a host when the buffers are in shared memory and the vector is not tiny.
 * Paper   Graham, Shipman: MPI support for multi-core architectures: optimized shared memory collectives, EuroPVM/MPI 2008.
 */

import { DATA } from '../../schedule/contract.js';
import { read, signal, wait, write } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, onOneHost } from '../algorithm.js';

const LANE = 0;

export const sharedDirectBroadcast: Algorithm = {
  collective: 'broadcast',
  name: 'shared-direct',
  description: 'all copy at once out of the root, and the root helps; for buffers in shared memory',
  needs: 'shared-memory',
  supports: onOneHost,
  schedule({ size, root = 0 }) {
    function* program(rank: number): Generator<Instruction> {
      const last = size - 1;
      const peer = (k: number): number => (root + k) % size;
      if (rank !== root) {
        yield signal({ lane: LANE, step: 0, to: root });
        yield wait({ lane: LANE, step: 1, from: root });
        yield read({ lane: LANE, step: 1, from: root, first: (root + 1) % size, count: last });
        yield signal({ lane: LANE, step: size, to: root });
        yield wait({ lane: LANE, step: size, from: root });
        return;
      }
      for (let k = 1; k < size; k++) yield signal({ lane: LANE, step: 0, to: peer(k) });
      for (let k = 1; k < size; k++) {
        yield wait({ lane: LANE, step: k, from: peer(k) });
        yield write({ lane: LANE, step: k, to: peer(k), first: root });
      }
      for (let k = 1; k < size; k++) yield signal({ lane: LANE, step: size, to: peer(k) });
      for (let k = 1; k < size; k++) yield wait({ lane: LANE, step: size, from: peer(k) });
    }
    return defineSchedule({
      collective: 'broadcast',
      algorithm: 'shared-direct',
      size,
      root,
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
