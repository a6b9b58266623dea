/**
 * From the members of a world to the topology value that collectives and planner use: which ranks share a host, a NUMA node, a NIC.
 */

import { listedTopology, type Placement, type Topology } from '../schedule/topology.js';
import type { Member } from './member.js';

/** A host of the world. */
export interface Host {
  readonly index: number;
  readonly name: string;
  /** Ascending. */
  readonly ranks: readonly number[];
}

/** Hosts in the order of their lowest rank. */
export function hostsOf(members: readonly Member[]): Host[] {
  const groups = new Map<string, Member[]>();
  for (const member of members) groups.set(member.host.id, [...(groups.get(member.host.id) ?? []), member]);
  return [...groups.values()].map((group, index) => ({
    index,
    name: group[0].host.name,
    ranks: group.map(({ rank }) => rank),
  }));
}

/** The NIC nearest to a rank: one of its NUMA node where there is one, and the ranks of a node share its NICs in turn. */
function nearestNic({ nics, numa }: Member, localRank: number): number {
  if (nics.length === 0) return -1;
  const near = nics
    .map((nic, index) => ({ index, near: numa < 0 || nic.numa < 0 || nic.numa === numa }))
    .filter((nic) => nic.near);
  const choice = near.length > 0 ? near : nics.map((_, index) => ({ index, near: true }));
  return choice[localRank % choice.length].index;
}

/** @param members all of them, by rank */
export function topologyOf(members: readonly Member[]): Topology {
  const hosts = hostsOf(members);
  const hostOf = new Map(hosts.flatMap(({ index, ranks }) => ranks.map((rank) => [rank, index] as const)));
  const placements = members.map((member): Placement => {
    const host = hostOf.get(member.rank) ?? 0;
    const localRank = hosts[host].ranks.indexOf(member.rank);
    return { host, numa: Math.max(0, member.numa), nic: nearestNic(member, localRank) };
  });
  return listedTopology(placements, Math.min(...members.map(({ nics }) => nics.length)));
}
