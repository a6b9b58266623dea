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

import { DATA } from '../../schedule/contract.js';
import { readReduce, signal, wait, write } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, onOneHost } from '../algorithm.js';

const LANE = 0;

export const sharedDirect: Algorithm = {
  collective: 'allreduce',
  name: 'shared-direct',
  description: 'combine your chunk out of all peers in place; for buffers in shared memory',
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
      for (let k = 1; k < size; k++) yield write({ lane: LANE, step: size - 1 + k, to: peer(k), first: rank });
      for (let k = 1; k < size; k++) yield signal({ lane: LANE, step: 2 * size - 1, to: peer(k) });
      for (let k = 1; k < size; k++) yield wait({ lane: LANE, step: 2 * size - 1, from: peer(k) });
    }
    return defineSchedule({
      collective: 'allreduce',
      algorithm: 'shared-direct',
      size,
      chunks: size,
      buffers: [DATA],
      lanes: [{ name: 'memory', reach: 'memory' }],
      steps: size === 1 ? 0 : 2 * size,
      program,
    });
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
