/**
 * Hierarchical reduce-scatter: inside the host, rank l combines what all of it have for the ranks l of all hosts; then ranks l exchange between hosts.
 *
 * Steps   g - 1 inside with a message for each host, k - 1 between (g ranks per host, k hosts)
 * Bytes   n(g - 1)/g inside, n(k - 1)/p between for each rank: a g-th of what leaves the host without
 * Wins    Several ranks per host: sums of a host leave it once.
 * Paper   Mikami et al.: Massively distributed SGD, arXiv:1811.05233, 2018 (2D torus all-reduce).
 */

import { staged, withReach } from '../../schedule/compose.js';
import { DATA } from '../../schedule/contract.js';
import { receiveReduce, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, requireSupport } from '../algorithm.js';
import { regularHosts } from '../hosts.js';
import { IN, OUT, OUT_IN } from '../lanes.js';

export const hierarchicalReduceScatter: Algorithm = {
  collective: 'reduce-scatter',
  name: 'hierarchical',
  description: 'combine inside the host, then exchange between ranks of the same place; for several ranks per host',
  supports: ({ topology }) => regularHosts(topology),
  schedule(shape) {
    requireSupport(hierarchicalReduceScatter, shape);
    const { size, topology } = shape;
    const g = topology?.ranksPerHost ?? 1;
    const k = size / g;

    function* inside(rank: number): Generator<Instruction> {
      const [base, own] = [rank - (rank % g), rank % g];
      for (let s = 1; s < g; s++) {
        const [to, from] = [(own + s) % g, (own - s + g) % g];
        for (let h = 0; h < k; h++) {
          yield send({ lane: OUT, step: s - 1, to: base + to, first: h * g + to });
          const finish = k === 1 && s === g - 1;
          yield receiveReduce({ lane: IN, step: s - 1, from: base + from, first: h * g + own, finish });
        }
      }
    }

    function* between(rank: number): Generator<Instruction> {
      for (let s = 1; s < k; s++) {
        const to = (rank + s * g) % size;
        yield send({ lane: OUT, step: s - 1, to, first: to });
        yield receiveReduce({ lane: IN, step: s - 1, from: (rank - s * g + size) % size, first: rank, finish: s === k - 1 });
      }
    }

    const { lanes, steps, program } = staged([
      { lanes: withReach(OUT_IN, 'host'), steps: g - 1, instructions: inside },
      { lanes: withReach(OUT_IN, 'network'), steps: k - 1, instructions: between },
    ]);
    return defineSchedule({
      collective: 'reduce-scatter',
      algorithm: 'hierarchical',
      size,
      chunks: size,
      buffers: [DATA],
      lanes,
      steps,
      program,
    });
  },
  cost({ size: p, bytes: n, topology }) {
    const g = topology?.ranksPerHost ?? 1;
    const k = p / g;
    const [inside, between] = [(n * (g - 1)) / g, (n * (k - 1)) / p];
    return {
      terms: [
        { level: 'host', alpha: k * (g - 1), beta: inside },
        { level: 'network', alpha: k - 1, beta: between, flows: g },
      ],
      gamma: inside + between,
    };
  },
};
