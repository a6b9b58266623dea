/**
 * The topology value: where ranks live. Hosts, NUMA nodes inside them, and the NICs, as data that discovery fills in or a test invents.
 *
 * Algorithms need two things of it: groups of ranks that share a host (hierarchical forms), and how near two ranks are (the order of
 * rings and trees). Everything is answered by functions of the rank, so a regular cluster of 16,384 ranks needs no table.
 */

/** Where one rank runs. */
export interface Placement {
  /** Index of its host, 0 .. hosts - 1. */
  readonly host: number;
  /** NUMA node inside the host, from 0. */
  readonly numa: number;
  /** Index of the NIC nearest to it inside its host; -1: none. */
  readonly nic: number;
}

export interface Topology {
  readonly size: number;
  readonly hosts: number;
  /** NICs per host, >= 0; rings over several NICs use the smallest host's number. */
  readonly nicsPerHost: number;
  /** @throws RangeError when there is no such rank. */
  placement(rank: number): Placement;
  /** Ranks of a host, ascending. */
  ranksOf(host: number): readonly number[];
  /** Ranks per host where all hosts have the same number of consecutive ranks; otherwise undefined. */
  readonly ranksPerHost: number | undefined;
}

/** Hosts that are all alike. */
export interface RegularCluster {
  readonly hosts: number;
  /** Consecutive ranks on each host. Default 1. */
  readonly ranksPerHost?: number;
  /** NUMA nodes per host, sharing its ranks evenly. Default 1. */
  readonly numaPerHost?: number;
  /** NICs per host, NIC k near NUMA node floor(k * numa / nics). Default 1. */
  readonly nicsPerHost?: number;
}

/** All hosts alike, ranks placed block by block. @throws RangeError on sizes below 1. */
export function regularTopology({ hosts, ranksPerHost = 1, numaPerHost = 1, nicsPerHost = 1 }: RegularCluster): Topology {
  for (const [name, value] of Object.entries({ hosts, ranksPerHost, numaPerHost })) {
    if (!Number.isInteger(value) || value < 1) throw new RangeError(`${name} must be an integer >= 1, got ${value}`);
  }
  if (!Number.isInteger(nicsPerHost) || nicsPerHost < 0)
    throw new RangeError(`nicsPerHost must be an integer >= 0, got ${nicsPerHost}`);
  const size = hosts * ranksPerHost;
  return {
    size,
    hosts,
    nicsPerHost,
    ranksPerHost,
    placement(rank) {
      if (!(rank >= 0 && rank < size)) throw new RangeError(`rank must be 0 .. ${size - 1}, got ${rank}`);
      const local = rank % ranksPerHost;
      return {
        host: Math.floor(rank / ranksPerHost),
        numa: Math.floor((local * numaPerHost) / ranksPerHost),
        nic: nicsPerHost === 0 ? -1 : Math.floor((local * nicsPerHost) / ranksPerHost),
      };
    },
    ranksOf: (host) => Array.from({ length: ranksPerHost }, (_, local) => host * ranksPerHost + local),
  };
}

/** Any placement, one entry per rank. Hosts are numbered 0 .. without gaps. @throws RangeError when they are not. */
export function listedTopology(placements: readonly Placement[], nicsPerHost = 1): Topology {
  const groups: number[][] = [];
  placements.forEach(({ host }, rank) => {
    groups[host] ??= [];
    groups[host].push(rank);
  });
  if (placements.length === 0) throw new RangeError('a topology has at least one rank');
  for (let host = 0; host < groups.length; host++)
    if (groups[host] === undefined) throw new RangeError(`host ${host} has no ranks: number hosts without gaps`);
  const ranksPerHost = groups[0].length;
  const regular = groups.every(
    (ranks, host) =>
      ranks.length === ranksPerHost && ranks[0] === host * ranksPerHost && ranks.at(-1) === ranks[0] + ranksPerHost - 1,
  );
  return {
    size: placements.length,
    hosts: groups.length,
    nicsPerHost,
    ranksPerHost: regular ? ranksPerHost : undefined,
    placement(rank) {
      if (placements[rank] === undefined) throw new RangeError(`rank must be 0 .. ${placements.length - 1}, got ${rank}`);
      return placements[rank];
    },
    ranksOf: (host) => groups[host],
  };
}

/** How far apart two ranks are: 0 the same rank, 1 the same NUMA node, 2 the same host, 3 another host. */
export function distance(topology: Topology, a: number, b: number): 0 | 1 | 2 | 3 {
  if (a === b) return 0;
  const [from, to] = [topology.placement(a), topology.placement(b)];
  if (from.host !== to.host) return 3;
  return from.numa === to.numa ? 1 : 2;
}
