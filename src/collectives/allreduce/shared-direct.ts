/**
 * Shared-memory direct: each rank combines its own chunk straight out of all peers' buffers, and stores the result into all of them.
 *
 * Idea    Chunk r of every buffer is touched by rank r alone, so two synchronisations are enough: "my buffer is ready" before, "I am done with
 *         yours" after. Nothing is copied to pass it on, no landing space is used. An executor may fuse the reads and the writes of a chunk
 *         into one pass over cache-sized pieces: load from all, combine, store to all.
 * Steps   2 synchronisations with p - 1 peers
 * Bytes   n(p - 1)/p read and n(p - 1)/p written in peers' memory by each rank; n(p - 1)/p combined
 * Wins    Always inside a host when the buffers are in shared memory and the vector is not tiny.
 * Paper   The intra-node algorithms of MVAPICH and XHC (Katevenis et al., Cluster 2022) are relatives.
 */

import { write } from '../../schedule/instruction.js';
import type { Instruction } from '../../schedule/schedule.js';
import type { Algorithm } from '../algorithm.js';
import { combineOwn, LANE, meet, SHARED_DIRECT, sharedSchedule } from '../shared-direct.js';

export const sharedDirect: Algorithm = {
  collective: 'allreduce',
  ...SHARED_DIRECT,
  description: 'combine your chunk out of all peers in place; for buffers in shared memory',
  schedule({ size }) {
    function* program(rank: number): Generator<Instruction> {
      yield* combineOwn(rank, size);
      for (let k = 1; k < size; k++) yield write({ lane: LANE, step: size - 1 + k, to: (rank + k) % size, first: rank });
      yield* meet(rank, size, 2 * size - 1);
    }
    return sharedSchedule({ collective: 'allreduce', size, steps: size === 1 ? 0 : 2 * size, program });
  },
  cost({ size: p, bytes: n }) {
    const part = (n * (p - 1)) / p;
    const terms = [
      { level: 'memory', alpha: 2 * (p - 1), beta: part },
      { level: 'memory-update', alpha: 0, beta: part },
    ] as const;
    return { terms, gamma: part };
  },
};
