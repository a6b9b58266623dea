/**
 * Canonical tree: the same bits for every number of ranks that divides the number of shards.
 *
 * Floating-point sums depend on the order of additions, so an ordinary all-reduce gives other bits on other numbers of ranks. Here the work is
 * cut into V shards whatever the number of ranks; each rank brings the vectors of V/p consecutive shards, and all V are added along ONE binary
 * tree over the shard index: [lo, hi) is [lo, mid) + [mid, hi), mid the largest power of two below the length from lo. Who adds where
 * changes with p; what is added to what does not.
 *
 *   V = 6       ((0+1) + (2+3)) + (4+5)         p = 3: ranks hold 0 1 | 2 3 | 4 5     one vector each travels
 *                                               p = 2: ranks hold 0 1 2 | 3 4 5       (0+1), 2 | 3, (4+5): two each
 *
 * Idea    Each rank first adds what of the tree lies within its own shards. Every rank owns 1/p of the elements; the owner receives the partial
 *         sums for them in shard order and evaluates the rest of the tree with a small stack. A ring all-gather spreads the results.
 * Steps   wavefront of (2p - 3) messages per partial sum, then p - 1
 * Bytes   n(p - 1)/p per partial sum (one when V/p runs along the tree, e.g. powers of two), then n(p - 1)/p
 * Wins    Never on time; when runs must be compared bit by bit, or ranks come and go.
 * Paper   Fixed-tree summation; see Demmel, Nguyen: Parallel reproducible summation, IEEE TC 2015, for the problem.
 */

import { embed, staged } from '../../schedule/compose.js';
import { after, copy, receive, receiveReduce, reduce, send } from '../../schedule/instruction.js';
import { type BufferSpec, defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, flatCost, requireSupport } from '../algorithm.js';
import { ringAllGather } from '../all-gather/ring.js';
import { ceilLog2 } from '../powers.js';

const [LOCAL, OUT, IN] = [0, 1, 2];
const SHARDS = 0;
const OUTPUT = 1;
const LANES = ['local', 'out', 'in'].map((name) => ({ name, reach: 'any' as const }));

/** Where the canonical tree cuts [lo, hi), hi - lo >= 2. */
export function canonicalCut(lo: number, hi: number): number {
  return lo + 2 ** (ceilLog2(hi - lo) - 1);
}

/** The largest nodes of the tree over [lo, hi) that lie inside [from, to), left to right. */
function canonicalCover(from: number, to: number, lo: number, hi: number): [number, number][] {
  if (to <= lo || hi <= from) return [];
  if (from <= lo && hi <= to) return [[lo, hi]];
  const mid = canonicalCut(lo, hi);
  return [...canonicalCover(from, to, lo, mid), ...canonicalCover(from, to, mid, hi)];
}

export const canonicalTree: Algorithm = {
  collective: 'sharded-allreduce',
  name: 'canonical-tree',
  description: 'fixed shards, one summation tree; the same bits for every number of ranks',
  needs: 'shards',
  supports: ({ size, shards = size }) =>
    shards % size === 0 && shards >= size ? true : `shards (${shards}) must be a multiple of the ranks (${size})`,
  schedule(shape) {
    requireSupport(canonicalTree, shape);
    const { size, shards = size } = shape;
    const share = shards / size;
    const depth = ceilLog2(shards);
    const cover = (rank: number): [number, number][] => canonicalCover(rank * share, (rank + 1) * share, 0, shards);

    /** Adds the shards of a node lying in one rank into the slot of its first shard. */
    function* add(rank: number, lo: number, hi: number): Generator<Instruction> {
      if (hi - lo < 2) return;
      const mid = canonicalCut(lo, hi);
      yield* add(rank, lo, mid);
      yield* add(rank, mid, hi);
      const finish = hi - lo === shards;
      yield reduce({ lane: LOCAL, step: 0, rank, buffer: SHARDS, first: lo * size, count: size, otherFirst: mid * size, finish });
    }

    function* fold(rank: number): Generator<Instruction> {
      let local = 0;
      for (const [lo, hi] of cover(rank)) {
        yield* add(rank, lo, hi);
        local += hi - lo - 1;
      }
      if (local > 0) {
        yield after({ lane: OUT, step: 0, on: LOCAL, count: local });
        yield after({ lane: IN, step: 0, on: LOCAL, count: local });
      }
      if (size === 1) {
        yield copy({ lane: IN, step: 0, rank, buffer: OUTPUT, first: 0, count: 1, otherBuffer: SHARDS });
        return;
      }
      for (let owner = 0; owner < size; owner++) {
        if (owner === rank) continue;
        for (const [lo] of cover(rank))
          yield send({ lane: OUT, step: rank + owner, to: owner, buffer: SHARDS, first: lo * size + owner });
      }
      yield* evaluate(rank, 0, shards, 0, false);
    }

    /** Owner `rank` brings node [lo, hi) onto level `level` of its stack, or adds it to what is there. Level 0 is the output itself. */
    function* evaluate(rank: number, lo: number, hi: number, level: number, adding: boolean): Generator<Instruction> {
      const holder = Math.floor(lo / share);
      const finish = adding && hi === shards && level === 0;
      const step = rank + holder;
      const place = { lane: IN, step, buffer: OUTPUT + level, first: rank, finish };
      if (hi <= (holder + 1) * share) {
        if (holder === rank) {
          const source = { rank, otherBuffer: SHARDS, otherFirst: lo * size + rank };
          yield adding ? reduce({ ...place, ...source }) : copy({ ...place, ...source });
        } else yield adding ? receiveReduce({ ...place, from: holder }) : receive({ ...place, from: holder });
        return;
      }
      const target = adding ? level + 1 : level;
      const mid = canonicalCut(lo, hi);
      yield* evaluate(rank, lo, mid, target, false);
      yield* evaluate(rank, mid, hi, target, true);
      if (!adding) return;
      const last = Math.floor((hi - 1) / share);
      yield reduce({ ...place, step: rank + last, rank, otherBuffer: OUTPUT + target, otherFirst: rank });
    }

    const gather = ringAllGather.schedule({ size, bytes: 0 });
    const members = Array.from({ length: size }, (_, rank) => rank);
    const { lanes, steps, program } = staged([
      { lanes: LANES, steps: 2 * size - 1, instructions: fold },
      { lanes: gather.lanes, steps: gather.steps, instructions: (rank) => embed(gather, rank, { members, buffers: [OUTPUT] }) },
    ]);
    const stack: BufferSpec[] = Array.from({ length: depth }, (_, k) => ({
      name: `stack ${k + 1}`,
      kind: 'scratch',
      window: (rank: number) => ({ first: rank, count: size === 1 ? 0 : 1 }),
    }));
    return defineSchedule({
      collective: 'sharded-allreduce',
      algorithm: 'canonical-tree',
      size,
      contributions: shards,
      chunks: shards * size,
      buffers: [
        { name: 'shards', kind: 'user', window: (rank) => ({ first: rank * share * size, count: share * size }) },
        { name: 'output', kind: 'user', window: () => ({ first: 0, count: size }) },
        ...stack,
      ],
      lanes,
      steps,
      program,
    });
  },
  cost(shape) {
    const { size: p, bytes: n, shards = p } = shape;
    const share = shards / p;
    if (p === 1) return flatCost(shape, 0, 0, n * (shards - 1));
    let most = 1;
    let partials = 0;
    for (let rank = 0; rank < p; rank++) {
      const count = canonicalCover(rank * share, (rank + 1) * share, 0, shards).length;
      most = Math.max(most, count);
      partials += count;
    }
    return flatCost(
      shape,
      most * (2 * p - 3) + p - 1,
      (n / p) * (most * (2 * p - 3) + p - 1),
      n * (share - 1) + (n / p) * (partials - 1),
    );
  },
};
