/**
 * Pipelined chain: the vector travels down a chain of ranks in k segments, every rank passing on one while the next arrives.
 *
 * Steps   p - 2 + k
 * Bytes   (p - 2 + k) n/k on the critical path; each rank sends n at most
 * Wins    Large vectors: the time tends to n beta. Best k = sqrt((p - 2) n beta / alpha).
 * Paper   The pipelined broadcasts of NCCL; analysis in Sanders, Sibeyn: A bandwidth latency tradeoff for broadcast and reduction, IPL 2003.
 */

import { DATA } from '../../schedule/contract.js';
import { after, receive, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';
import { rootedInOrder } from '../order.js';

const DEFAULT_SEGMENTS = 8;

export const chain: Algorithm = {
  collective: 'broadcast',
  name: 'chain',
  description: 'segments travel down a chain; for large vectors',
  tunable: 'segments',
  supports: always,
  schedule({ size, root = 0, segments = DEFAULT_SEGMENTS, topology }) {
    // Host by host, so that each NIC carries the vector once.
    return rootedInOrder(root, topology, (start) => {
      const rankOf = (v: number): number => (v + start) % size;

      function* at(rank: number, step: number): Generator<Instruction> {
        const v = (rank - start + size) % size;
        const [incoming, outgoing] = [step - v + 1, step - v];
        if (v > 0 && incoming >= 0 && incoming < segments)
          yield receive({ lane: IN, step, from: rankOf(v - 1), first: incoming });
        if (v < size - 1 && outgoing >= 0 && outgoing < segments) {
          if (v > 0) yield after({ lane: OUT, step, on: IN, count: outgoing + 1 });
          yield send({ lane: OUT, step, to: rankOf(v + 1), first: outgoing });
        }
      }

      return defineSchedule({
        collective: 'broadcast',
        algorithm: 'chain',
        size,
        root: start,
        chunks: segments,
        buffers: [DATA],
        lanes: OUT_IN,
        steps: size === 1 ? 0 : size - 2 + segments,
        at,
      });
    });
  },
  cost(shape) {
    const { size: p, bytes: n, segments: k = DEFAULT_SEGMENTS } = shape;
    if (p === 1) return flatCost(shape, 0, 0, 0);
    return flatCost(shape, p - 2 + k, ((p - 2 + k) * n) / k, 0, 1);
  },
};
