/**
 * Hierarchical all-reduce: reduce-scatter inside each host, all-reduce between hosts, all-gather inside each host.
 *
 * Idea    After the first stage local rank l of every host holds chunk l of its host's sum; the ranks with the same l form a ring between hosts
 *         for that chunk alone. Every rank uses the network, for 1/g of the vector. In segments the stages overlap: the hosts' memory works on
 *         one segment while the network works on another.
 * Steps   2(g - 1) inside, 2(k - 1) between (g ranks per host, k hosts), per segment
 * Bytes   2n(g - 1)/g inside; between hosts 2(n/g)(k - 1)/k per rank
 * Wins    Several ranks per host with a NIC each, or memory much faster than the network.
 * Paper   Mikami et al.: Massively distributed SGD, arXiv:1811.05233, 2018 (2D torus all-reduce).
 */

import { embed, staged, withReach } from '../../schedule/compose.js';
import { DATA } from '../../schedule/contract.js';
import { defineSchedule } from '../../schedule/schedule.js';
import { type Algorithm, requireSupport } from '../algorithm.js';
import { ringAllGather } from '../all-gather/ring.js';
import { regularHosts } from '../hosts.js';
import { ringReduceScatter } from '../reduce-scatter/ring.js';
import { ring } from './ring.js';

export const hierarchicalAllreduce: Algorithm = {
  collective: 'allreduce',
  name: 'hierarchical',
  description: 'reduce-scatter in the host, all-reduce between hosts, all-gather in the host; for several ranks per host',
  tunable: 'segments',
  supports: ({ topology }) => regularHosts(topology),
  schedule(shape) {
    requireSupport(hierarchicalAllreduce, shape);
    const { size, segments = 1, topology } = shape;
    const g = topology?.ranksPerHost ?? 1;
    const k = size / g;
    const inside = (rank: number): number[] => Array.from({ length: g }, (_, l) => Math.floor(rank / g) * g + l);
    const across = (rank: number): number[] => Array.from({ length: k }, (_, h) => h * g + (rank % g));
    const scatter = ringReduceScatter.schedule({ size: g, bytes: 0 });
    const between = ring.schedule({ size: k, bytes: 0 });
    const gather = ringAllGather.schedule({ size: g, bytes: 0 });
    const { lanes, steps, program } = staged(
      [
        {
          lanes: withReach(scatter.lanes, 'host'),
          steps: scatter.steps,
          instructions: (rank, s) =>
            embed(scatter, rank % g, { members: inside(rank), base: s * size, width: k, finish: k === 1 }),
        },
        {
          lanes: withReach(between.lanes, 'network'),
          steps: between.steps,
          instructions: (rank, s) =>
            embed(between, Math.floor(rank / g), { members: across(rank), base: s * size + (rank % g) * k, finish: true }),
        },
        {
          lanes: withReach(gather.lanes, 'host'),
          steps: gather.steps,
          instructions: (rank, s) => embed(gather, rank % g, { members: inside(rank), base: s * size, width: k }),
        },
      ],
      segments,
    );
    return defineSchedule({
      collective: 'allreduce',
      algorithm: 'hierarchical',
      size,
      chunks: size * segments,
      buffers: [DATA],
      lanes,
      steps,
      program,
    });
  },
  cost({ size: p, bytes: n, segments: s = 1, topology }) {
    const g = topology?.ranksPerHost ?? 1;
    const k = p / g;
    const inner = { level: 'host' as const, alpha: 2 * (g - 1) * s, beta: (2 * n * (g - 1)) / g };
    const outer = { level: 'network' as const, alpha: 2 * (k - 1) * s, beta: (2 * (n / g) * (k - 1)) / k, flows: g };
    return { terms: [inner, outer], gamma: (n * (g - 1)) / g + ((n / g) * (k - 1)) / k, overlap: s };
  },
};
