/**
 * Places for the nodes of a schedule that are not ranks: switches that reduce, and servers on hosts of their own.
 *
 * A reducing switch goes to the switch of the network with the fewest hops to all it talks to, lower ones before those above them; among equals to one of
 * its own children's places rather than to a place taken by strangers. Servers go to the endpoints behind the last rank.
 */
import type { Schedule } from '../../schedule/schedule.js';
import { PlanRefusal } from '../refusal.js';
import { distancesTo } from '../topology/network.js';
import type { Fabric } from './fabric.js';

export type HelperKind = 'switches' | 'endpoints';

export function placeHelpers(fabric: Fabric, schedule: Schedule, kind: HelperKind): void {
  const { network } = fabric;
  if (schedule.size !== fabric.ranks) {
    throw new PlanRefusal(
      `the schedule is for ${schedule.size} ranks and the fabric has ${fabric.ranks}`,
      `${fabric.ranks} ranks`,
    );
  }
  if (kind === 'endpoints') {
    for (let node = schedule.size; node < schedule.nodes; node++) {
      const vertex = fabric.vertexOf(schedule.size - 1) + 1 + node - schedule.size;
      if (vertex >= network.endpoints) {
        throw new PlanRefusal(
          `${schedule.nodes - schedule.size} servers need endpoints of their own, and ${network.name} has ${network.endpoints} endpoints`,
          `${network.endpoints - (schedule.nodes - schedule.size)} ranks`,
        );
      }
      fabric.place(node, vertex);
    }
    return;
  }
  if (schedule.nodes > schedule.size && network.vertices === network.endpoints) {
    throw new PlanRefusal(
      `${network.name} has no switches that could reduce: its endpoints forward by themselves`,
      'leaf-spine or fat-tree',
    );
  }
  const placed = new Set<number>();
  const waiting = new Set<number>();
  for (let node = schedule.size; node < schedule.nodes; node++) waiting.add(node);
  const peers = new Map<number, Set<number>>();
  for (const node of waiting) {
    const talksTo = new Set<number>();
    for (const instruction of schedule.program(node)) {
      if (instruction.op !== 'after' && instruction.op !== 'multicast') talksTo.add(instruction.peer);
    }
    peers.set(node, talksTo);
  }
  while (waiting.size > 0) {
    // the node most of whose peers are placed: leaves of the tree first
    let best = -1;
    let bestShare = -1;
    for (const node of waiting) {
      const all = peers.get(node) as Set<number>;
      let known = 0;
      for (const peer of all) if (!waiting.has(peer)) known++;
      const share = known / Math.max(1, all.size);
      if (share > bestShare) [best, bestShare] = [node, share];
    }
    const known = [...(peers.get(best) as Set<number>)].filter((peer) => !waiting.has(peer));
    fabric.place(best, nearestSwitch(fabric, known, placed));
    waiting.delete(best);
  }
}

function nearestSwitch(fabric: Fabric, peers: readonly number[], placed: Set<number>): number {
  const { network } = fabric;
  const away = new Float64Array(network.vertices);
  const peerVertices = new Set(peers.map((peer) => fabric.vertexOf(peer)));
  for (const vertex of peerVertices) {
    const distance = distancesTo(network, vertex);
    for (let v = network.endpoints; v < network.vertices; v++) away[v] += distance[v] < 0 ? 1e6 : distance[v];
  }
  let best = network.endpoints;
  const cost = (v: number): number => 2 * away[v] + (placed.has(v) && !peerVertices.has(v) ? 1 : 0);
  for (let v = network.endpoints; v < network.vertices; v++) if (cost(v) < cost(best)) best = v;
  placed.add(best);
  return best;
}
