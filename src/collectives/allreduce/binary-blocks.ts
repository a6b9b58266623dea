/**
 * Binary blocks: halving-doubling for any p without folding.
 *
 * Idea    p is a sum of powers of two; ranks form one block per power, the largest first. Each block reduce-scatters by halving on its own. Then the
 *         smallest block hands its chunks to the next larger, which adds them and hands on, up to the largest; the complete chunks come back the
 *         same way, and each block all-gathers by doubling.
 *
 *           p = 11 = 8 + 2 + 1      block 8 ◄── block 2 ◄── block 1        (and back)
 *
 *         A rank of a block of 2^i holds 2^(j-i) chunks of the next block of 2^j, so it sends that many messages: p = 2^k + 1 is the bad case.
 * Steps   2 log2 q for the largest block, and 2q/q' where a block of q' joins one of q
 * Bytes   2n(q - 1)/q in the largest block, plus one chunk each way from its neighbour block
 * Wins    Middle vectors at sizes such as 6, 12, 24, where folding would move 2n more.
 * Paper   Rabenseifner, Träff: More efficient reduction algorithms for non-power-of-two number of processors, EuroPVM/MPI 2004.
 */

import { DATA } from '../../schedule/contract.js';
import { after, receive, receiveReduce, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';
import { inRingOrder } from '../order.js';
import { floorLog2 } from '../powers.js';

/** Blocks of p, the largest first: size and first rank. */
function binaryBlocks(size: number): { readonly size: number; readonly start: number }[] {
  const blocks: { size: number; start: number }[] = [];
  for (let bit = 2 ** floorLog2(size), start = 0; bit >= 1; bit /= 2) {
    if ((size & bit) === 0) continue;
    blocks.push({ size: bit, start });
    start += bit;
  }
  return blocks;
}

interface Timing {
  readonly alpha: number;
  readonly beta: number;
  readonly gamma: number;
}

/**
 * When the largest block holds everything, in messages, bytes and bytes combined; blocks are joined from the smallest on. A rank of the smaller block
 * serves q / smaller ranks of the next in turn. Exact for one or two blocks; with more, the joins overlap a little and this is a bound.
 */
function joined(sizes: readonly number[], n: number): Timing {
  let before: Timing = { alpha: 0, beta: 0, gamma: 0 };
  let smaller = 0;
  for (const q of [...sizes].reverse()) {
    const part = (n * (q - 1)) / q;
    const messages = smaller === 0 ? 0 : q / smaller;
    before = {
      alpha: Math.max(Math.log2(q), before.alpha) + messages,
      beta: Math.max(part, before.beta) + (messages * n) / q,
      gamma: Math.max(part, before.gamma) + (smaller === 0 ? 0 : n / q),
    };
    smaller = q;
  }
  return before;
}

export const binaryBlocksAllreduce: Algorithm = {
  collective: 'allreduce',
  name: 'binary-blocks',
  description: 'halving-doubling in blocks of powers of two, joined chunk by chunk; for middle vectors at other sizes',
  supports: always,
  schedule({ size, topology }) {
    const blocks = binaryBlocks(size);
    const chunks = blocks[0].size;
    const rounds = floorLog2(size);
    const joins = blocks.length - 1;

    function* program(rank: number): Generator<Instruction> {
      const index = blocks.findIndex(({ size: q, start }) => rank >= start && rank < start + q);
      const { size: q, start } = blocks[index];
      const v = rank - start;
      const width = chunks / q;
      const levels = Math.log2(q);
      const larger = index > 0 ? blocks[index - 1] : undefined;
      const smaller = index < joins ? blocks[index + 1] : undefined;
      let sent = 0;
      let received = 0;

      for (let k = 0, half = q / 2; k < levels; k++, half /= 2) {
        const mine = v & -half;
        if (received > 0) yield after({ lane: OUT, step: k, on: IN, count: received });
        yield send({ lane: OUT, step: k, to: start + (v ^ half), first: (mine ^ half) * width, count: half * width });
        const finish = half === 1 && blocks.length === 1;
        yield receiveReduce({ lane: IN, step: k, from: start + (v ^ half), first: mine * width, count: half * width, finish });
        sent++;
        received++;
      }
      // Up: take from the smaller block, hand to the larger.
      const up = rounds + joins - 1 - index;
      if (smaller !== undefined) {
        const from = smaller.start + Math.floor((v * smaller.size) / q);
        yield receiveReduce({ lane: IN, step: up, from, first: v * width, count: width, finish: index === 0 });
        received++;
      }
      if (larger !== undefined) {
        const part = chunks / larger.size;
        const step = up + 1;
        if (received > 0) yield after({ lane: OUT, step, on: IN, count: received });
        for (let k = 0; k < larger.size / q; k++) {
          yield send({ lane: OUT, step, to: larger.start + (v * larger.size) / q + k, first: v * width + k * part, count: part });
          sent++;
        }
      }
      // Down: complete chunks come back.
      const down = rounds + joins + index;
      if (larger !== undefined) {
        const part = chunks / larger.size;
        yield after({ lane: IN, step: down - 1, on: OUT, count: sent });
        for (let k = 0; k < larger.size / q; k++) {
          yield receive({
            lane: IN,
            step: down - 1,
            from: larger.start + (v * larger.size) / q + k,
            first: v * width + k * part,
            count: part,
          });
          received++;
        }
      } else if (sent > 0) yield after({ lane: IN, step: down, on: OUT, count: sent });
      if (smaller !== undefined) {
        yield after({ lane: OUT, step: down, on: IN, count: received });
        yield send({
          lane: OUT,
          step: down,
          to: smaller.start + Math.floor((v * smaller.size) / q),
          first: v * width,
          count: width,
        });
      }
      for (let k = 0, half = 1; k < levels; k++, half *= 2) {
        const mine = v & -half;
        const step = rounds + 2 * joins + k;
        yield after({ lane: OUT, step, on: IN, count: received });
        yield send({ lane: OUT, step, to: start + (v ^ half), first: mine * width, count: half * width });
        yield receive({ lane: IN, step, from: start + (v ^ half), first: (mine ^ half) * width, count: half * width });
        received++;
      }
    }

    const schedule = defineSchedule({
      collective: 'allreduce',
      algorithm: 'binary-blocks',
      size,
      chunks,
      buffers: [DATA],
      lanes: OUT_IN,
      steps: 2 * rounds + 2 * joins,
      program,
    });
    return inRingOrder(schedule, topology);
  },
  cost(shape) {
    const { alpha, beta, gamma } = joined(
      binaryBlocks(shape.size).map((block) => block.size),
      shape.bytes,
    );
    return flatCost(shape, 2 * alpha, 2 * beta, gamma);
  },
};
