/**
 * The order of rings and trees, derived from where the ranks live.
 *
 * A ring is as slow as its slowest edge, and each host's NIC should carry one edge in and one out. So ranks are visited host by host, inside a host
 * NUMA node by NUMA node: a ring over h hosts then has exactly h edges between hosts, the least there can be.
 *
 * With several NICs, one ring per NIC: ring k enters and leaves every host at a rank near NIC k, so that all NICs work at once and each
 * carries the edges of one ring. Inside the host the ring visits the other ranks between these two.
 *
 *   host with ranks a b | c d  (NICs 0 near a b, 1 near c d)     ring 0:  .. → a ─ c ─ d ─ b → ..     ring 1:  .. → c ─ a ─ b ─ d → ..
 */

import { relabel } from '../schedule/compose.js';
import type { Schedule } from '../schedule/schedule.js';
import { distance, type Topology } from '../schedule/topology.js';

/** Ranks in the order of one ring. */
export function ringOrder(topology: Topology): number[] {
  const order: number[] = [];
  for (let host = 0; host < topology.hosts; host++) order.push(...byNuma(topology, topology.ranksOf(host)));
  return order;
}

/** One ring per NIC (at least one): each enters and leaves hosts near its own NIC. */
export function ringOrders(topology: Topology): number[][] {
  const rings = Math.max(1, topology.nicsPerHost);
  return Array.from({ length: rings }, (_, nic) => {
    const order: number[] = [];
    for (let host = 0; host < topology.hosts; host++) order.push(...nearNicAtBothEnds(topology, topology.ranksOf(host), nic));
    return order;
  });
}

/**
 * Ranks in an order for trees rooted at `root`: the root, then its NUMA node, its host, and the other hosts one after the other. A tree whose
 * subtrees are runs of positions then crosses between hosts as rarely as its shape allows.
 */
export function treeOrder(topology: Topology, root = 0): number[] {
  const home = topology.placement(root).host;
  const order: number[] = [];
  for (let k = 0; k < topology.hosts; k++) {
    const ranks = byNuma(topology, topology.ranksOf((home + k) % topology.hosts));
    if (k === 0) ranks.sort((a, b) => distance(topology, root, a) - distance(topology, root, b));
    order.push(...ranks);
  }
  return order;
}

/** The schedule with its positions laid along the ring order of the topology, where one is known: neighbours in rank become neighbours in place. */
export function inRingOrder(schedule: Schedule, topology: Topology | undefined): Schedule {
  return topology === undefined ? schedule : relabel(schedule, ringOrder(topology));
}

/** The same for rooted schedules: made for root 0 and laid along the tree order, or made for the root as it is. */
export function rootedInOrder(root: number, topology: Topology | undefined, make: (root: number) => Schedule): Schedule {
  return topology === undefined ? make(root) : relabel(make(0), treeOrder(topology, root));
}

/** Edges of a cyclic order that leave a host; the figure `explain` prints. */
export function hostCrossings(topology: Topology, order: readonly number[]): number {
  return order.filter((rank, k) => distance(topology, rank, order[(k + 1) % order.length]) === 3).length;
}

function byNuma(topology: Topology, ranks: readonly number[]): number[] {
  return [...ranks].sort((a, b) => topology.placement(a).numa - topology.placement(b).numa || a - b);
}

function nearNicAtBothEnds(topology: Topology, ranks: readonly number[], nic: number): number[] {
  const near = byNuma(topology, ranks).filter((rank) => topology.placement(rank).nic === nic);
  const rest = byNuma(topology, ranks).filter((rank) => topology.placement(rank).nic !== nic);
  return near.length < 2 ? [...near, ...rest] : [...near.slice(0, -1), ...rest, ...near.slice(-1)];
}
