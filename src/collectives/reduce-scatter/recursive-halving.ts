/**
 * Recursive halving: partners at distance q/2, q/4, ... exchange the half the other is responsible for.
 *
 * Idea    The first half of Rabenseifner's all-reduce, with p chunks. Where p is no power of two, r = p - q ranks fold into their neighbours (powers.ts):
 *         such a pair then owns two chunks, and the folded rank gets its own at the end.
 * Steps   log2 q, and 2 more when p is not a power of two
 * Bytes   n(p - 1)/p at powers of two; otherwise n for the fold, the halves, and one chunk back
 * Wins    Small and middle vectors at powers of two.
 * Paper   Thakur, Rabenseifner, Gropp, IJHPCA 2005.
 */

import { DATA } from '../../schedule/contract.js';
import { after, receive, receiveReduce, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';
import { floorLog2, fold } from '../powers.js';

export const recursiveHalving: Algorithm = {
  collective: 'reduce-scatter',
  name: 'recursive-halving',
  description: 'exchange halves, quarters, ...; few steps, for small vectors and powers of two',
  supports: always,
  schedule({ size }) {
    const { active, extra, virtual, real } = fold(size);
    const rounds = floorLog2(size);
    const start = extra > 0 ? 1 : 0;
    /** First chunk of virtual rank v; the first `extra` of them own two. */
    const chunkOf = (v: number): number => (v < extra ? 2 * v : v + extra);

    function* program(rank: number): Generator<Instruction> {
      const v = virtual(rank);
      if (v === -1) {
        yield send({ lane: OUT, step: 0, to: rank + 1, first: 0, count: size });
        yield after({ lane: IN, step: 0, on: OUT, count: 1 });
        yield receive({ lane: IN, step: start + rounds, from: rank + 1, first: rank });
        return;
      }
      let received = 0;
      if (v < extra) {
        yield receiveReduce({ lane: IN, step: 0, from: rank - 1, first: 0, count: size, finish: active === 1 });
        received++;
      }
      for (let k = 0, half = active / 2; k < rounds; k++, half /= 2) {
        const step = start + k;
        const partner = real(v ^ half);
        const mine = v & -half;
        const theirs = mine ^ half;
        if (received > 0) yield after({ lane: OUT, step, on: IN, count: received });
        yield send({ lane: OUT, step, to: partner, first: chunkOf(theirs), count: chunkOf(theirs + half) - chunkOf(theirs) });
        yield receiveReduce({
          lane: IN,
          step,
          from: partner,
          first: chunkOf(mine),
          count: chunkOf(mine + half) - chunkOf(mine),
          finish: half === 1,
        });
        received++;
      }
      if (v < extra) {
        yield after({ lane: OUT, step: start + rounds, on: IN, count: received });
        yield send({ lane: OUT, step: start + rounds, to: rank - 1, first: rank - 1 });
      }
    }

    return defineSchedule({
      collective: 'reduce-scatter',
      algorithm: 'recursive-halving',
      size,
      chunks: size,
      buffers: [DATA],
      lanes: OUT_IN,
      steps: rounds + 2 * start,
      program,
    });
  },
  cost(shape) {
    const { size: p, bytes: n } = shape;
    const { active: q, extra } = fold(p);
    const rounds = floorLog2(p);
    if (extra === 0) return flatCost(shape, rounds, (n * (p - 1)) / p, (n * (p - 1)) / p);
    // The partner's half of each exchange is the longer one when its virtual ranks own two chunks.
    let chunks = 0;
    for (let half = q / 2; half >= 1; half /= 2) chunks += half + Math.min(half, extra);
    const part = (n * chunks) / p;
    return flatCost(shape, rounds + 2, n + part + n / p, n + part);
  },
};
