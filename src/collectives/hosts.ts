/** Hosts as hierarchical algorithms see them: groups with a leader. */

import type { Topology } from '../schedule/topology.js';

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
