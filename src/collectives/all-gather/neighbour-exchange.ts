/**
 * Neighbour exchange: ranks swap with their left and right neighbours in turn, two blocks at a time.
 *
 * Idea    Ranks 2m and 2m + 1 are a pair. First the two swap their blocks; then each swaps pairs of blocks, alternately with its neighbour in the next
 *         pair and with its mate, always handing on what came last.
 *
 *           even rank of pair m     with mate      left: pair m-1    mate: pair m+1    left: pair m-2    ...
 *
 * Steps   p/2
 * Bytes   n(p - 1)/p sent and received by each rank
 * Wins    Large blocks at even p: half the ring's steps, and only neighbours talk.
 * Paper   Chen et al.: Performance evaluation of all-gather algorithms on terascale Linux cluster with fast Ethernet, HPC Asia 2005.
 */

import { DATA } from '../../schedule/contract.js';
import { after, receive, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, flatCost, requireSupport } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';

export const neighbourExchange: Algorithm = {
  collective: 'all-gather',
  name: 'neighbour-exchange',
  description: 'swap pairs of blocks with both neighbours in turn; half the steps of a ring at even sizes',
  supports: ({ size }) => (size % 2 === 0 || size === 1 ? true : 'needs an even number of ranks'),
  schedule(shape) {
    requireSupport(neighbourExchange, shape);
    const { size } = shape;
    const pairs = size / 2;
    function* at(rank: number, step: number): Generator<Instruction> {
      const odd = rank % 2;
      const mate = rank ^ 1;
      if (step === 0) {
        yield send({ lane: OUT, step, to: mate, first: rank });
        yield receive({ lane: IN, step, from: mate, first: mate });
        return;
      }
      /** The pair whose blocks arrive in step s; step 0 completes the own pair. Even ranks look left first, odd ones right. */
      const incoming = (s: number): number => {
        const far = s % 2 === 1 ? -(s + 1) / 2 : s / 2;
        return ((rank >> 1) + (odd ? -far : far) + pairs) % pairs;
      };
      const outside = odd ? (rank + 1) % size : (rank - 1 + size) % size;
      const peer = step % 2 === 1 ? outside : mate;
      yield after({ lane: OUT, step, on: IN, count: step });
      yield send({ lane: OUT, step, to: peer, first: 2 * incoming(step - 1), count: 2 });
      yield receive({ lane: IN, step, from: peer, first: 2 * incoming(step), count: 2 });
    }
    return defineSchedule({
      collective: 'all-gather',
      algorithm: 'neighbour-exchange',
      size,
      chunks: size,
      buffers: [DATA],
      lanes: OUT_IN,
      steps: size === 1 ? 0 : pairs,
      at,
      alike: (step) => (step === 0 ? 0 : 1 + (step % 2)),
    });
  },
  cost(shape) {
    const { size: p, bytes: n } = shape;
    return flatCost(shape, Math.floor(p / 2), (n * (p - 1)) / p, 0);
  },
};
