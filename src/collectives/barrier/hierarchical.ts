/**
 * Hierarchical barrier: signals to one rank per host, dissemination between these, signals back.
 *
 * Steps   2(g - 1) at the host's leader, ceil(log2 k) between hosts
 * Bytes   none
 * Wins    Many ranks per host: signals inside a host are cheap, and only one rank per host uses the network.
 * Paper   Mellor-Crummey, Scott, TOCS 1991; the two-level barriers of MVAPICH.
 */

import { staged, withReach } from '../../schedule/compose.js';
import { signal, wait } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction, type LaneSpec } from '../../schedule/schedule.js';
import { type Algorithm, busiestHost } from '../algorithm.js';
import { anyHosts, hostsOf } from '../hosts.js';
import { ceilLog2 } from '../powers.js';
import { betweenLeaders } from '../staged-hosts.js';
import { dissemination } from './dissemination.js';

const SYNC: readonly LaneSpec[] = [{ name: 'sync', reach: 'any' }];

export const hierarchicalBarrier: Algorithm = {
  collective: 'barrier',
  name: 'hierarchical',
  description: 'inside hosts, between their leaders, and back; for many ranks per host',
  supports: ({ topology }) => anyHosts(topology),
  schedule({ size, topology }) {
    if (topology === undefined) throw new RangeError('barrier:hierarchical needs a topology');
    const hosts = hostsOf(topology, 0);
    const steps = Math.max(1, busiestHost(topology) - 1);

    function* enter(rank: number): Generator<Instruction> {
      const [leader, ...others] = hosts.members(rank);
      if (rank !== leader) yield signal({ lane: 0, step: others.indexOf(rank), to: leader });
      else for (let k = 0; k < others.length; k++) yield wait({ lane: 0, step: k, from: others[k] });
    }

    function* leave(rank: number): Generator<Instruction> {
      const [leader, ...others] = hosts.members(rank);
      if (rank !== leader) yield wait({ lane: 0, step: others.indexOf(rank), from: leader });
      else for (let k = 0; k < others.length; k++) yield signal({ lane: 0, step: k, to: others[k] });
    }

    const stages = staged([
      { lanes: withReach(SYNC, 'host'), steps, instructions: enter },
      betweenLeaders(hosts, dissemination.schedule({ size: topology.hosts, bytes: 0 })),
      { lanes: withReach(SYNC, 'host'), steps, instructions: leave },
    ]);
    return defineSchedule({ collective: 'barrier', algorithm: 'hierarchical', size, chunks: 1, buffers: [], ...stages });
  },
  cost({ topology }) {
    return {
      terms: [
        { level: 'host', alpha: 2 * (busiestHost(topology) - 1), beta: 0 },
        { level: 'network', alpha: ceilLog2(topology?.hosts ?? 1), beta: 0 },
      ],
      gamma: 0,
    };
  },
};
