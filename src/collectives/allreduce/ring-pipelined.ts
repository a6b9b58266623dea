/**
 * Ring all-reduce with chunk pipelining: each of the p chunks travels in S segments.
 *
 * Idea    A segment is combined while the next one is still arriving, so the arithmetic hides behind the wire. Two incoming lanes take turns; a
 *         segment is passed on as soon as it is combined, without waiting for the rest of its chunk.
 * Steps   2(p - 1)S messages per rank
 * Bytes   2n(p - 1)/p, as the ring. Exposed combining: n(p - 1)/(pS), while gamma <= beta.
 * Wins    Large vectors where combining is not free against the wire.
 * Paper   gloo's chunked ring; Patarasuk, Yuan, JPDC 2009 for the ring itself.
 */

import { DATA } from '../../schedule/contract.js';
import { after, receive, receiveReduce, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { inRingOrder } from '../order.js';

const OUT = 0;
const DEFAULT_SEGMENTS = 4;
const LANES = ['out', 'in even', 'in odd'].map((name) => ({ name, reach: 'any' as const }));

/** Operations lane `IN even` (0) or `IN odd` (1) has completed once message number m is in. */
function arrived(message: number, segments: number, parity: number): number {
  const [rounds, segment] = [Math.floor(message / segments), message % segments];
  const perRound = parity === 0 ? Math.ceil(segments / 2) : Math.floor(segments / 2);
  return rounds * perRound + Math.floor(segment / 2) + 1;
}

export const ringPipelined: Algorithm = {
  collective: 'allreduce',
  name: 'ring-pipelined',
  description: 'ring in segments, combining one while the next arrives; for large vectors when combining is not free',
  tunable: 'segments',
  supports: always,
  schedule({ size, segments = DEFAULT_SEGMENTS, topology }) {
    const half = size - 1;
    /** Ring step s, segment j: which chunk leaves and which arrives. */
    const chunk = (rank: number, back: number, j: number): number => ((rank - back + 2 * size) % size) * segments + j;

    function* at(rank: number, step: number): Generator<Instruction> {
      const [s, j] = [Math.floor(step / segments), step % segments];
      const parity = j % 2;
      const lane = 1 + parity;
      const [right, left] = [(rank + 1) % size, (rank - 1 + size) % size];
      const gathering = s >= half;
      const back = gathering ? s - half : s + 1;
      if (s > 0) yield after({ lane: OUT, step, on: lane, count: arrived(step - segments, segments, parity) });
      yield send({ lane: OUT, step, to: right, channel: parity, first: chunk(rank, back, j) });
      if (gathering) {
        yield after({ lane, step, on: OUT, count: step - half * segments + 1 });
        yield receive({ lane, step, from: left, channel: parity, first: chunk(rank, back + 1, j) });
      } else {
        yield receiveReduce({ lane, step, from: left, channel: parity, first: chunk(rank, back + 1, j), finish: s === half - 1 });
      }
    }

    const schedule = defineSchedule({
      collective: 'allreduce',
      algorithm: 'ring-pipelined',
      size,
      chunks: size * segments,
      buffers: [DATA],
      lanes: LANES,
      steps: 2 * half * segments,
      alike: () => 0,
      at,
    });
    return inRingOrder(schedule, topology);
  },
  cost(shape) {
    const { size: p, bytes: n, segments: s = DEFAULT_SEGMENTS } = shape;
    return flatCost(shape, 2 * (p - 1) * s, (2 * n * (p - 1)) / p, (n * (p - 1)) / (p * s), 1);
  },
};
