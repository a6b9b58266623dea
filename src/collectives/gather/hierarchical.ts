/**
 * Hierarchical gather: the blocks of a host to one of its ranks, which sends them on to the root as one message.
 *
 * Steps   g - 1 inside hosts, k - 1 at the root (g ranks per host, k hosts)
 * Bytes   n(g - 1)/p into every leader, n(k - 1)/k into the root's port
 * Wins    Many ranks per host with small blocks: k - 1 messages at the root instead of p - 1.
 * Paper   Kielmann et al.: MagPIe, PPoPP 1999.
 */

import { staged, withReach } from '../../schedule/compose.js';
import { INPUT_ID, OUTPUT_ID, userBuffers } from '../../schedule/contract.js';
import { copy, receive, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, requireSupport } from '../algorithm.js';
import { blocksOfHosts, hierarchicalCost, leaderScratch, regularHosts } from '../hosts.js';
import { IN, OUT, OUT_IN } from '../lanes.js';

export const hierarchicalGather: Algorithm = {
  collective: 'gather',
  name: 'hierarchical',
  description: 'to a leader in each host, whole hosts to the root; for many ranks per host and small blocks',
  supports: ({ topology }) => regularHosts(topology),
  schedule(shape) {
    requireSupport(hierarchicalGather, shape);
    const { size, root = 0, topology } = shape;
    const { g, leaders, members, first, buffer } = blocksOfHosts(topology, root, { root: OUTPUT_ID, alone: INPUT_ID });

    function* inside(rank: number): Generator<Instruction> {
      const [leader, ...others] = members(rank);
      if (rank !== leader) yield send({ lane: OUT, step: others.indexOf(rank), to: leader, first: rank });
      else if (buffer(rank) !== INPUT_ID) {
        yield copy({ lane: IN, step: 0, rank, buffer: buffer(rank), first: rank, otherBuffer: INPUT_ID });
        for (const [step, from] of others.entries()) yield receive({ lane: IN, step, from, buffer: buffer(rank), first: from });
      }
    }

    function* between(rank: number): Generator<Instruction> {
      const own = leaders.indexOf(rank);
      if (own > 0) yield send({ lane: OUT, step: own - 1, to: root, buffer: buffer(rank), first: first(rank), count: g });
      if (own !== 0) return;
      for (const [step, from] of leaders.slice(1).entries())
        yield receive({ lane: IN, step, from, buffer: OUTPUT_ID, first: first(from), count: g });
    }

    const { lanes, steps, program } = staged([
      { lanes: withReach(OUT_IN, 'host'), steps: Math.max(1, g - 1), instructions: inside },
      { lanes: withReach(OUT_IN, 'network'), steps: leaders.length - 1, instructions: between },
    ]);
    return defineSchedule({
      collective: 'gather',
      algorithm: 'hierarchical',
      size,
      root,
      chunks: size,
      buffers: [...userBuffers('gather', root), leaderScratch(g, leaders, first)],
      lanes,
      steps,
      program,
    });
  },
  cost: hierarchicalCost,
};
