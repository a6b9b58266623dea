/**
 * Hierarchical broadcast: the root to one rank per host, these to their hosts; binomial trees both times.
 *
 * Steps   ceil(log2 k) between hosts, ceil(log2 g) inside
 * Bytes   n per step; each NIC carries the vector in once
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
import { binomialBroadcast } from './binomial.js';

export const hierarchicalBroadcast: Algorithm = {
  collective: 'broadcast',
  name: 'hierarchical',
  description: 'between hosts first, then inside them; for several ranks per host',
  supports: ({ topology }) => anyHosts(topology),
  schedule({ size, root = 0, topology }) {
    if (topology === undefined) throw new RangeError('broadcast:hierarchical needs a topology');
    const hosts = hostsOf(topology, root);
    const { lanes, steps, program } = staged([
      betweenLeaders(hosts, binomialBroadcast.schedule({ size: topology.hosts, bytes: 0 })),
      insideHosts(hosts, (g) => binomialBroadcast.schedule({ size: g, bytes: 0 }), busiestHost(topology)),
    ]);
    return defineSchedule({
      collective: 'broadcast',
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
        { level: 'network', alpha: between, beta: n * between },
        { level: 'host', alpha: inside, beta: n * inside },
      ],
      gamma: 0,
    };
  },
};
