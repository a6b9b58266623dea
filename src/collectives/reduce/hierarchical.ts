/**
 * Hierarchical reduce: to one rank per host, then from these to the root; binomial trees both times.
 *
 * Steps   ceil(log2 g) inside hosts, ceil(log2 k) between
 * Bytes   n per step; each NIC carries one vector out
 * Wins    Several ranks per host, whatever the order of ranks.
 * Paper   Kielmann et al.: MagPIe, PPoPP 1999.
 */

import { staged } from '../../schedule/compose.js';
import { DATA } from '../../schedule/contract.js';
import { defineSchedule } from '../../schedule/schedule.js';
import { type Algorithm, busiestHost } from '../algorithm.js';
import { anyHosts, hostsOf } from '../hosts.js';
import { ceilLog2 } from '../powers.js';
import { betweenLeaders, insideHosts } from '../staged-hosts.js';
import { binomialReduce } from './binomial.js';

export const hierarchicalReduce: Algorithm = {
  collective: 'reduce',
  name: 'hierarchical',
  description: 'inside hosts first, then between them; for several ranks per host',
  supports: ({ topology }) => anyHosts(topology),
  schedule({ size, root = 0, topology }) {
    if (topology === undefined) throw new RangeError('reduce:hierarchical needs a topology');
    const hosts = hostsOf(topology, root);
    const { lanes, steps, program } = staged([
      insideHosts(hosts, (g) => binomialReduce.schedule({ size: g, bytes: 0 }), busiestHost(topology), {
        finish: topology.hosts === 1,
      }),
      betweenLeaders(hosts, binomialReduce.schedule({ size: topology.hosts, bytes: 0 }), { finish: true }),
    ]);
    return defineSchedule({
      collective: 'reduce',
      algorithm: 'hierarchical',
      size,
      root,
      chunks: 1,
      buffers: [DATA],
      lanes,
      steps,
      program,
    });
  },
  cost({ bytes: n, topology }) {
    const [between, inside] = [ceilLog2(topology?.hosts ?? 1), ceilLog2(busiestHost(topology))];
    return {
      terms: [
        { level: 'host', alpha: inside, beta: n * inside },
        { level: 'network', alpha: between, beta: n * between },
      ],
      gamma: n * (inside + between),
    };
  },
};
