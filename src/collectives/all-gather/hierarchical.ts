/**
 * Hierarchical all-gather: gather to one rank per host, ring of host blocks between these, broadcast inside each host.
 *
 * Steps   g - 1 inside, k - 1 between, ceil(log2 g) inside (g ranks per host, k hosts)
 * Bytes   n(g - 1)/p into the leader, n(k - 1)/k between leaders, n ceil(log2 g) inside
 * Wins    Many ranks per host with small blocks: k - 1 messages on the network instead of p - 1.
 * Paper   Träff: Efficient allgather for regular SMP-clusters, EuroPVM/MPI 2006.
 */

import { embed, staged, withReach } from '../../schedule/compose.js';
import { DATA } from '../../schedule/contract.js';
import { receive, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, requireSupport } from '../algorithm.js';
import { binomialBroadcast } from '../broadcast/binomial.js';
import { hostsOf, regularHosts } from '../hosts.js';
import { IN, OUT, OUT_IN } from '../lanes.js';
import { ceilLog2 } from '../powers.js';
import { betweenLeaders } from '../staged-hosts.js';
import { ringAllGather } from './ring.js';

export const hierarchicalAllGather: Algorithm = {
  collective: 'all-gather',
  name: 'hierarchical',
  description: 'gather in the host, ring of host blocks, broadcast in the host; for many ranks per host and small blocks',
  supports: ({ topology }) => regularHosts(topology),
  schedule(shape) {
    requireSupport(hierarchicalAllGather, shape);
    const { size, topology } = shape;
    if (topology?.ranksPerHost === undefined) throw new RangeError('needs regular hosts');
    const g = topology.ranksPerHost;
    const hosts = hostsOf(topology, 0);
    const spread = binomialBroadcast.schedule({ size: g, bytes: 0 });

    function* gather(rank: number): Generator<Instruction> {
      const local = rank % g;
      if (local > 0) yield send({ lane: OUT, step: local - 1, to: rank - local, first: rank });
      else for (let l = 1; l < g; l++) yield receive({ lane: IN, step: l - 1, from: rank + l, first: rank + l });
    }

    const { lanes, steps, program } = staged([
      { lanes: withReach(OUT_IN, 'host'), steps: g - 1, instructions: gather },
      betweenLeaders(hosts, ringAllGather.schedule({ size: topology.hosts, bytes: 0 }), { width: g }),
      {
        lanes: withReach(spread.lanes, 'host'),
        steps: spread.steps,
        instructions: (rank) => embed(spread, rank % g, { members: hosts.members(rank), width: size }),
      },
    ]);
    return defineSchedule({
      collective: 'all-gather',
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
    const levels = ceilLog2(g);
    return {
      terms: [
        { level: 'host', alpha: g - 1 + levels, beta: (n * (g - 1)) / p + n * levels },
        { level: 'network', alpha: k - 1, beta: (n * (k - 1)) / k },
      ],
      gamma: 0,
    };
  },
};
