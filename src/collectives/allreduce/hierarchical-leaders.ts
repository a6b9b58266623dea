/**
 * Hierarchical all-reduce with leaders: reduce to one rank per host, ring between these, broadcast inside each host.
 *
 * Steps   2 ceil(log2 g) inside, 2(k - 1) between
 * Bytes   2n ceil(log2 g) inside; 2n(k - 1)/k through one rank's port per host: g times what `hierarchical` puts on a rank
 * Wins    Hosts of different sizes, or where only one rank per host can reach the network.
 * Paper   The node-leader scheme of MVAPICH and Open MPI's hierarchical components.
 */

import { staged } from '../../schedule/compose.js';
import { DATA } from '../../schedule/contract.js';
import { defineSchedule } from '../../schedule/schedule.js';
import { type Algorithm, busiestHost, requireSupport } from '../algorithm.js';
import { binomialBroadcast } from '../broadcast/binomial.js';
import { anyHosts, hostsOf } from '../hosts.js';
import { ceilLog2 } from '../powers.js';
import { binomialReduce } from '../reduce/binomial.js';
import { betweenLeaders, insideHosts } from '../staged-hosts.js';
import { ring } from './ring.js';

export const hierarchicalLeaders: Algorithm = {
  collective: 'allreduce',
  name: 'hierarchical-leaders',
  description: 'reduce to a leader per host, ring between leaders, broadcast in the host; for uneven hosts',
  supports: ({ topology }) => anyHosts(topology),
  schedule(shape) {
    requireSupport(hierarchicalLeaders, shape);
    const { size, topology } = shape;
    if (topology === undefined) throw new RangeError('needs a topology');
    const hosts = hostsOf(topology, 0);
    const k = topology.hosts;
    const largest = busiestHost(topology);
    const { lanes, steps, program } = staged([
      insideHosts(hosts, (g) => binomialReduce.schedule({ size: g, bytes: 0 }), largest, { width: k, finish: k === 1 }),
      betweenLeaders(hosts, ring.schedule({ size: k, bytes: 0 }), { finish: true }),
      insideHosts(hosts, (g) => binomialBroadcast.schedule({ size: g, bytes: 0 }), largest, { width: k }),
    ]);
    return defineSchedule({
      collective: 'allreduce',
      algorithm: 'hierarchical-leaders',
      size,
      chunks: k,
      buffers: [DATA],
      lanes,
      steps,
      program,
    });
  },
  cost({ bytes: n, topology }) {
    const k = topology?.hosts ?? 1;
    const levels = ceilLog2(busiestHost(topology));
    return {
      terms: [
        { level: 'host', alpha: 2 * levels, beta: 2 * n * levels },
        { level: 'network', alpha: 2 * (k - 1), beta: (2 * n * (k - 1)) / k },
      ],
      gamma: n * levels + (n * (k - 1)) / k,
    };
  },
};
