/**
 * Parameter-server shaped all-reduce, servers among the ranks: K ranks serve one chunk each; everybody pushes to them, then pulls.
 *
 * Idea    In round s a rank serves the rank s behind it and pushes to the rank s ahead, so no server is met by two at once (no incast).
 * Steps   2(p - 1)
 * Bytes   2n(p - 1)/K at a server; with K = p exactly the ring's 2n(p - 1)/p, only K = 1 costs 2n(p - 1)
 * Wins    On a full-bisection network where a ring's neighbour would make it wait; the shape of sharded optimisers.
 * Paper   Li et al.: Scaling distributed machine learning with the parameter server, OSDI 2014.
 */

import { DATA } from '../../schedule/contract.js';
import { after, receive, receiveReduce, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, flatCost, requireSupport } from '../algorithm.js';
import { IN, OUT, OUT_IN } from '../lanes.js';

export const parameterServer: Algorithm = {
  collective: 'allreduce',
  name: 'parameter-server',
  description: 'push each chunk to its server, pull it back; servers are ranks; for full-bisection networks',
  supports: ({ size, servers = size }) => (servers >= 1 && servers <= size ? true : `servers must be 1 .. ${size}`),
  schedule(shape) {
    requireSupport(parameterServer, shape);
    const { size, servers = size } = shape;
    /** The chunk a rank serves, or -1. Servers are spread evenly over the ranks. */
    const serves = (rank: number): number => {
      const chunk = Math.ceil((rank * servers) / size);
      return Math.floor((chunk * size) / servers) === rank && chunk < servers ? chunk : -1;
    };

    function* at(rank: number, step: number): Generator<Instruction> {
      const pulling = step >= size - 1;
      const s = pulling ? step - (size - 1) + 1 : step + 1;
      const [ahead, behind] = [(rank + s) % size, (rank - s + size) % size];
      const own = serves(rank);
      const pushes = servers - (own === -1 ? 0 : 1);
      if (!pulling) {
        if (serves(ahead) !== -1) yield send({ lane: OUT, step, to: ahead, first: serves(ahead) });
        if (own !== -1) yield receiveReduce({ lane: IN, step, from: behind, first: own, finish: s === size - 1 });
        return;
      }
      if (own !== -1) {
        if (s === 1) yield after({ lane: OUT, step, on: IN, count: size - 1 });
        yield send({ lane: OUT, step, to: ahead, first: own });
      }
      if (serves(behind) !== -1) {
        if (pushes > 0) yield after({ lane: IN, step, on: OUT, count: pushes });
        yield receive({ lane: IN, step, from: behind, first: serves(behind) });
      }
    }

    return defineSchedule({
      collective: 'allreduce',
      algorithm: 'parameter-server',
      size,
      chunks: servers,
      buffers: [DATA],
      lanes: OUT_IN,
      steps: 2 * (size - 1),
      at,
    });
  },
  cost(shape) {
    const { size: p, bytes: n, servers: k = p } = shape;
    return flatCost(shape, 2 * (p - 1), (2 * n * (p - 1)) / k, (n * (p - 1)) / k);
  },
};
