/**
 * Hierarchical all-to-all: inside the host, blocks go to the rank that will carry them; then ranks with the same local number exchange between hosts.
 *
 * Idea    Rank (h, l) is the carrier for everything its host sends to local number l anywhere. First an exchange inside the host brings these
 *         blocks together; a transposition sorts them by host; then one message to each other host carries the blocks of all g ranks.
 * Steps   g - 1 inside, k - 1 between (g ranks per host, k hosts), against p - 1
 * Bytes   n(g - 1)/g inside, n(k - 1)/k between: what must leave the host leaves it once, in messages g times as large
 * Wins    Small blocks on many ranks per host.
 * Paper   Rajbhandari et al.: DeepSpeed-MoE, ICML 2022 (hierarchical all-to-all).
 */

import { staged, withReach } from '../../schedule/compose.js';
import { INPUT_ID, OUTPUT_ID, userBuffers } from '../../schedule/contract.js';
import { after, copy, receive, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, requireSupport } from '../algorithm.js';
import { hostsOf, regularHosts } from '../hosts.js';
import { IN, OUT, OUT_IN } from '../lanes.js';

const PACKED = 2;
const CARRIED = 3;

export const hierarchicalAllToAll: Algorithm = {
  collective: 'all-to-all',
  name: 'hierarchical',
  description: 'bring together inside the host, exchange between hosts; for small blocks and many ranks per host',
  supports: ({ topology }) => regularHosts(topology),
  schedule(shape) {
    requireSupport(hierarchicalAllToAll, shape);
    const { size, topology } = shape;
    if (topology?.ranksPerHost === undefined) throw new RangeError('needs regular hosts');
    const g = topology.ranksPerHost;
    const k = topology.hosts;
    const hosts = hostsOf(topology, 0);

    /** PACKED[l * k + h] is the block for (h, l); carrier l takes the run of k blocks from l * k. CARRIED[l * k + h]: from local l for host h. */
    function* inside(rank: number): Generator<Instruction> {
      const own = rank % g;
      for (let l = 0; l < g; l++) {
        for (let h = 0; h < k; h++)
          yield copy({ lane: IN, step: 0, rank, buffer: PACKED, first: l * k + h, otherBuffer: INPUT_ID, otherFirst: h * g + l });
      }
      yield copy({ lane: IN, step: 0, rank, buffer: CARRIED, first: own * k, count: k, otherBuffer: PACKED });
      if (g > 1) yield after({ lane: OUT, step: 0, on: IN, count: size });
      for (let s = 1; s < g; s++) {
        const [to, from] = [(own + s) % g, (own - s + g) % g];
        const members = hosts.members(rank);
        yield send({ lane: OUT, step: s - 1, to: members[to], buffer: PACKED, first: to * k, count: k });
        yield receive({ lane: IN, step: s - 1, from: members[from], buffer: CARRIED, first: from * k, count: k });
      }
    }

    /** PACKED[h * g + l]: from local l for host h: one run of g blocks per host, which is also their place in the output there. */
    function* between(rank: number): Generator<Instruction> {
      const [host, own] = [Math.floor(rank / g), rank % g];
      for (let h = 0; h < k; h++) {
        for (let l = 0; l < g; l++)
          yield copy({ lane: IN, step: 0, rank, buffer: PACKED, first: h * g + l, otherBuffer: CARRIED, otherFirst: l * k + h });
      }
      yield copy({ lane: IN, step: 0, rank, buffer: OUTPUT_ID, first: host * g, count: g, otherBuffer: PACKED });
      if (k > 1) yield after({ lane: OUT, step: 0, on: IN, count: size });
      for (let s = 1; s < k; s++) {
        const [to, from] = [(host + s) % k, (host - s + k) % k];
        yield send({ lane: OUT, step: s - 1, to: to * g + own, buffer: PACKED, first: to * g, count: g });
        yield receive({ lane: IN, step: s - 1, from: from * g + own, buffer: OUTPUT_ID, first: from * g, count: g });
      }
    }

    const { lanes, steps, program } = staged([
      { lanes: withReach(OUT_IN, 'host'), steps: Math.max(1, g - 1), instructions: inside },
      { lanes: withReach(OUT_IN, 'network'), steps: Math.max(1, k - 1), instructions: between },
    ]);
    return defineSchedule({
      collective: 'all-to-all',
      algorithm: 'hierarchical',
      size,
      chunks: size,
      buffers: [...userBuffers('all-to-all'), { name: 'packed', kind: 'scratch' }, { name: 'carried', kind: 'scratch' }],
      lanes,
      steps,
      program,
    });
  },
  cost({ size: p, bytes: n, topology }) {
    const g = topology?.ranksPerHost ?? 1;
    const k = p / g;
    return {
      terms: [
        { level: 'host', alpha: g - 1, beta: (n * (g - 1)) / g },
        { level: 'network', alpha: k - 1, beta: (n * (k - 1)) / k, flows: g },
      ],
      gamma: 0,
      copied: 2 * n + n / g + n / k,
    };
  },
};
