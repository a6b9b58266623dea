/** Hosts as hierarchical algorithms see them: groups with a leader. */

import type { BufferSpec } from '../schedule/schedule.js';
import type { Topology } from '../schedule/topology.js';
import type { Cost, Shape } from './algorithm.js';

/** True when every host has the same number of consecutive ranks; otherwise what is missing. */
export function regularHosts(topology: Topology | undefined): true | string {
  if (topology === undefined) return 'needs a topology';
  if (topology.ranksPerHost === undefined) return 'needs the same number of consecutive ranks on every host';
  return true;
}

/** True when there is a topology at all. */
export function anyHosts(topology: Topology | undefined): true | string {
  return topology === undefined ? 'needs a topology' : true;
}

export interface Hosts {
  /** One rank per host; `root` leads its own host and stands first. */
  readonly leaders: readonly number[];
  /** Ranks of the host of `rank`, its leader first. */
  members(rank: number): readonly number[];
}

/** Groups the ranks by host. @param root leads its host; hosts are listed from the root's on. */
export function hostsOf(topology: Topology, root: number): Hosts {
  const home = topology.placement(root).host;
  const groups = Array.from({ length: topology.hosts }, (_, h) => {
    const ranks = topology.ranksOf(h);
    return h === home ? [root, ...ranks.filter((rank) => rank !== root)] : [...ranks];
  });
  const leaders = groups.map((_, k) => groups[(home + k) % groups.length][0]);
  return { leaders, members: (rank) => groups[topology.placement(rank).host] };
}

/** Scratch of the hierarchical gather and scatter: the buffer behind input and output. */
const SCRATCH_ID = 2;

/** Blocks of ranks, as a gather or scatter over leaders moves them. */
interface HostBlocks extends Hosts {
  /** Ranks per host. */
  readonly g: number;
  /** The first block of the host of `rank`; its blocks are one range of g. */
  first(rank: number): number;
  /** Where a leader has the blocks of its host. */
  buffer(leader: number): number;
}

/** @param at the root's buffer, and that of a leader that is alone in its host; others have scratch. */
export function blocksOfHosts(topology: Topology | undefined, root: number, at: { root: number; alone: number }): HostBlocks {
  if (topology?.ranksPerHost === undefined) throw new RangeError('needs regular hosts');
  const g = topology.ranksPerHost;
  return {
    ...hostsOf(topology, root),
    g,
    first: (rank) => rank - (rank % g),
    buffer: (leader) => (leader === root ? at.root : g === 1 ? at.alone : SCRATCH_ID),
  };
}

/** Leaders but the root keep the blocks of their host here. */
export function leaderScratch(g: number, leaders: readonly number[], first: (rank: number) => number): BufferSpec {
  const needs = (rank: number) => g > 1 && leaders.indexOf(rank) > 0;
  return { name: 'scratch', kind: 'scratch', window: (rank) => ({ first: first(rank), count: needs(rank) ? g : 0 }) };
}

/** Of a gather or scatter over leaders. */
export function hierarchicalCost({ size: p, bytes: n, topology }: Shape): Cost {
  const g = topology?.ranksPerHost ?? 1;
  const k = p / g;
  return {
    terms: [
      { level: 'host', alpha: g - 1, beta: (n * (g - 1)) / p },
      { level: 'network', alpha: k - 1, beta: (n * (k - 1)) / k },
    ],
    gamma: 0,
    copied: n / p,
  };
}
