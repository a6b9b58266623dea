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

import { read, signal, wait, write } from '../../schedule/instruction.js';
import type { Instruction } from '../../schedule/schedule.js';
import type { Algorithm } from '../algorithm.js';
import { LANE, meet, SHARED_DIRECT, sharedSchedule, signalAll } from '../shared-direct.js';

export const sharedDirectBroadcast: Algorithm = {
  collective: 'broadcast',
  ...SHARED_DIRECT,
  description: 'all copy at once out of the root, and the root helps; for buffers in shared memory',
  schedule({ size, root = 0 }) {
    function* program(rank: number): Generator<Instruction> {
      if (rank !== root) {
        yield signal({ lane: LANE, step: 0, to: root });
        yield wait({ lane: LANE, step: 1, from: root });
        yield read({ lane: LANE, step: 1, from: root, first: (root + 1) % size, count: size - 1 });
        yield signal({ lane: LANE, step: size, to: root });
        yield wait({ lane: LANE, step: size, from: root });
        return;
      }
      yield* signalAll(root, size, 0);
      for (let k = 1; k < size; k++) {
        const to = (root + k) % size;
        yield wait({ lane: LANE, step: k, from: to });
        yield write({ lane: LANE, step: k, to, first: root });
      }
      yield* meet(root, size, size);
    }
    return sharedSchedule({ collective: 'broadcast', size, root, steps: size === 1 ? 0 : size + 1, program });
  },
  cost({ size: p, bytes: n }) {
    return { terms: [{ level: 'memory', alpha: 2 * (p - 1), beta: (n * (p - 1)) / p }], gamma: 0 };
  },
};
