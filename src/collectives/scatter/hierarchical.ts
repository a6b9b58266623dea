/**
 * Hierarchical scatter: the blocks of a host in one message to one of its ranks, which hands them out. A gather backwards.
 *
 * Steps   k - 1 at the root, g - 1 inside hosts (g ranks per host, k hosts)
 * Bytes   n(k - 1)/k out of the root's port, n(g - 1)/p out of every leader
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

export const hierarchicalScatter: Algorithm = {
  collective: 'scatter',
  name: 'hierarchical',
  description: 'whole hosts to their leaders, these hand out; for many ranks per host and small blocks',
  supports: ({ topology }) => regularHosts(topology),
  schedule(shape) {
    requireSupport(hierarchicalScatter, shape);
    const { size, root = 0, topology } = shape;
    const { g, leaders, members, first, buffer } = blocksOfHosts(topology, root, { root: INPUT_ID, alone: OUTPUT_ID });

    function* between(rank: number): Generator<Instruction> {
      const own = leaders.indexOf(rank);
      if (own > 0) yield receive({ lane: IN, step: own - 1, from: root, buffer: buffer(rank), first: first(rank), count: g });
      if (own !== 0) return;
      for (const [step, to] of leaders.slice(1).entries()) yield send({ lane: OUT, step, to, first: first(to), count: g });
    }

    function* inside(rank: number): Generator<Instruction> {
      const [leader, ...others] = members(rank);
      if (rank !== leader) yield receive({ lane: IN, step: others.indexOf(rank), from: leader, buffer: OUTPUT_ID, first: rank });
      else if (buffer(rank) !== OUTPUT_ID) {
        for (const [step, to] of others.entries()) yield send({ lane: OUT, step, to, buffer: buffer(rank), first: to });
        yield copy({ lane: IN, step: 0, rank, buffer: OUTPUT_ID, first: rank, otherBuffer: buffer(rank) });
      }
    }

    const { lanes, steps, program } = staged([
      { lanes: withReach(OUT_IN, 'network'), steps: leaders.length - 1, instructions: between },
      { lanes: withReach(OUT_IN, 'host'), steps: Math.max(1, g - 1), instructions: inside },
    ]);
    return defineSchedule({
      collective: 'scatter',
      algorithm: 'hierarchical',
      size,
      root,
      chunks: size,
      buffers: [...userBuffers('scatter', root), leaderScratch(g, leaders, first)],
      lanes,
      steps,
      program,
    });
  },
  cost: hierarchicalCost,
};
