/**
 * Bruck all-to-all: blocks travel in hops of 1, 2, 4, ... ranks, many blocks to a message.
 *
 * Idea    A block for the rank d ahead takes a hop of 2^k for every set bit k of d. In step k each rank packs all blocks whose remaining distance has bit
 *         k and sends them to the rank 2^k ahead as one message.
 * Steps   ceil(log2 p)
 * Bytes   (n/p) sum of popcount(d), d < p: (n/2) log2 p at powers of two, less elsewhere (p = 6: 1.167n); packing copies as much again
 * Wins    Small blocks on many ranks.
 * Paper   Bruck et al., TPDS 1997.
 */

import { INPUT_ID, OUTPUT_ID, userBuffers } from '../../schedule/contract.js';
import { after, copy, receive, send } from '../../schedule/instruction.js';
import { type ChunkRange, defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';
import { ceilLog2 } from '../powers.js';

/** Blocks by remaining journey: slot d holds a block that started d ranks before its destination. */
const TRAVEL = 2;
const PACKED = 3;
const LANDED = 4;

/** Runs of distances below p that have bit k set. */
function runs(size: number, k: number): ChunkRange[] {
  const list: ChunkRange[] = [];
  for (let first = 1 << k; first < size; first += 2 << k) list.push({ first, count: Math.min(1 << k, size - first) });
  return list;
}

function hops(size: number): number {
  let sum = 0;
  for (let d = 0; d < size; d++) for (let rest = d; rest > 0; rest &= rest - 1) sum++;
  return sum;
}

export const bruckAllToAll: Algorithm = {
  collective: 'all-to-all',
  name: 'bruck',
  description: 'hops of 1, 2, 4, ... with many blocks to a message; fewest steps, for small blocks',
  supports: always,
  schedule({ size }) {
    const rounds = ceilLog2(size);
    const half = Math.max(1, ...Array.from({ length: rounds }, (_, k) => runs(size, k).reduce((sum, run) => sum + run.count, 0)));

    function* program(rank: number): Generator<Instruction> {
      // Slot d of TRAVEL is the block for the rank d ahead; the copy wraps in the input only, so it is two copies.
      let done = 0;
      const ahead = size - rank;
      yield copy({ lane: IN, step: 0, rank, buffer: TRAVEL, first: 0, count: ahead, otherBuffer: INPUT_ID, otherFirst: rank });
      done++;
      if (rank > 0) {
        yield copy({ lane: IN, step: 0, rank, buffer: TRAVEL, first: ahead, count: rank, otherBuffer: INPUT_ID, otherFirst: 0 });
        done++;
      }
      for (let k = 0; k < rounds; k++) {
        const set = runs(size, k);
        const count = set.reduce((sum, run) => sum + run.count, 0);
        const peer = { to: (rank + (1 << k)) % size, from: (rank - (1 << k) + size) % size };
        // The packed message of the previous step must have left before it is packed again.
        if (k > 0) yield after({ lane: IN, step: k, on: OUT, count: k });
        let at = 0;
        for (const run of set) {
          yield copy({
            lane: IN,
            step: k,
            rank,
            buffer: PACKED,
            first: at,
            count: run.count,
            otherBuffer: TRAVEL,
            otherFirst: run.first,
          });
          at += run.count;
          done++;
        }
        yield after({ lane: OUT, step: k, on: IN, count: done });
        yield send({ lane: OUT, step: k, to: peer.to, buffer: PACKED, first: 0, count });
        yield receive({ lane: IN, step: k, from: peer.from, buffer: LANDED, first: 0, count });
        done++;
        at = 0;
        for (const run of set) {
          yield copy({
            lane: IN,
            step: k,
            rank,
            buffer: TRAVEL,
            first: run.first,
            count: run.count,
            otherBuffer: LANDED,
            otherFirst: at,
          });
          at += run.count;
          done++;
        }
      }
      for (let d = 0; d < size; d++) {
        const source = (rank - d + size) % size;
        yield copy({
          lane: IN,
          step: Math.max(0, rounds - 1),
          rank,
          buffer: OUTPUT_ID,
          first: source,
          otherBuffer: TRAVEL,
          otherFirst: d,
        });
      }
    }

    const packed = { kind: 'scratch' as const, window: () => ({ first: 0, count: half }) };
    return defineSchedule({
      collective: 'all-to-all',
      algorithm: 'bruck',
      size,
      chunks: size,
      buffers: [
        ...userBuffers('all-to-all'),
        { name: 'travel', kind: 'scratch' },
        { name: 'packed', ...packed },
        { name: 'landed', ...packed },
      ],
      lanes: OUT_IN,
      steps: Math.max(1, rounds),
      program,
    });
  },
  cost(shape) {
    const { size: p, bytes: n } = shape;
    const sent = (n * hops(p)) / p;
    return { ...flatCost(shape, ceilLog2(p), sent, 0), copied: 2 * n + 2 * sent };
  },
};
