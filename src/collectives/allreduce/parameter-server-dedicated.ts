/**
 * Parameter servers on hosts of their own: W workers push to K servers, then pull. Exists for simulation and proof.
 *
 * Steps   2 max(W, K)
 * Bytes   2 max(n, Wn/K): a worker's port carries n each way, a server's Wn/K; (W - 1)n/K combined, the first is kept as it comes
 * Wins    When K >= W spare hosts are at hand: n each way against the ring's 2n(p - 1)/p. Sharded servers need no second aggregation.
 * Paper   Li et al., OSDI 2014.
 */

import { DATA } from '../../schedule/contract.js';
import { after, receive, receiveReduce, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, requireSupport } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';

const SUM = 1;

export const parameterServerDedicated: Algorithm = {
  collective: 'allreduce',
  name: 'parameter-server-dedicated',
  description: 'push to and pull from servers on hosts of their own; a model',
  needs: 'dedicated-servers',
  supports: ({ size, servers = size }) => (servers >= 1 ? true : `servers must be >= 1, got ${servers} for ${size} workers`),
  schedule(shape) {
    requireSupport(parameterServerDedicated, shape);
    const { size, servers = size } = shape;
    const rounds = Math.max(size, servers);

    function* at(node: number, step: number): Generator<Instruction> {
      const s = step % rounds;
      const pulling = step >= rounds;
      if (node < size) {
        const server = (node + s) % rounds;
        if (server >= servers) return;
        if (!pulling) yield send({ lane: OUT, step, to: size + server, first: server });
        else {
          yield after({ lane: IN, step, on: OUT, count: servers });
          yield receive({ lane: IN, step, from: size + server, first: server });
        }
        return;
      }
      const chunk = node - size;
      const worker = (chunk - s + rounds) % rounds;
      if (worker >= size) return;
      // Rounds in which this server was idle do not count: workers come in the order chunk, chunk - 1, ...
      const place = chunk < size ? s - (s > chunk ? rounds - size : 0) : s - (chunk - size + 1);
      const message = { lane: pulling ? OUT : IN, step, buffer: SUM, first: chunk };
      if (pulling) {
        if (place === 0) yield after({ lane: OUT, step, on: IN, count: size });
        yield send({ ...message, to: worker });
      } else if (place === 0) yield receive({ ...message, from: worker });
      else yield receiveReduce({ ...message, from: worker, finish: place === size - 1 });
    }

    return defineSchedule({
      collective: 'allreduce',
      algorithm: 'parameter-server-dedicated',
      size,
      nodes: size + servers,
      chunks: servers,
      buffers: [
        DATA,
        {
          name: 'sum',
          kind: 'scratch',
          window: (node) => (node < size ? { first: 0, count: 0 } : { first: node - size, count: 1 }),
        },
      ],
      lanes: OUT_IN,
      steps: 2 * rounds,
      at,
    });
  },
  cost({ size: w, bytes: n, servers: k = w }) {
    return {
      terms: [{ level: 'flat', alpha: 2 * Math.max(w, k), beta: 2 * Math.max(n, (w * n) / k) }],
      gamma: ((w - 1) * n) / k,
    };
  },
};
