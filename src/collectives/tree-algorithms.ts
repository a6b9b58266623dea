/**
 * Algorithms that are "a collective over a tree": only the tree differs between the linear, binomial and fan forms of broadcast, reduce, gather and
 * scatter. The files of the algorithms name the tree and the cost; this builds the rest.
 */

import { DATA, userBuffers } from '../schedule/contract.js';
import { defineSchedule, type Schedule } from '../schedule/schedule.js';
import type { Shape } from './algorithm.js';
import { OUT_IN } from './lanes.js';
import { rootedInOrder } from './order.js';
import { rounds, type Tree } from './tree.js';
import { broadcastOver, gatherOver, reduceOver, scatterOver, subtreeWindow } from './tree-steps.js';

/** Positions follow the topology where it is known (order.ts); otherwise the ranks, rotated so that the root comes first. */
export function broadcastSchedule(algorithm: string, tree: Tree, { size, root = 0, topology }: Shape): Schedule {
  return rootedInOrder(root, topology, (start) =>
    defineSchedule({
      collective: 'broadcast',
      algorithm,
      size,
      root: start,
      chunks: 1,
      buffers: [DATA],
      lanes: OUT_IN,
      steps: rounds(tree),
      program: (rank) => broadcastOver(tree, rank, start, 1),
    }),
  );
}

export function reduceSchedule(algorithm: string, tree: Tree, { size, root = 0, topology }: Shape): Schedule {
  const total = rounds(tree);
  return rootedInOrder(root, topology, (start) =>
    defineSchedule({
      collective: 'reduce',
      algorithm,
      size,
      root: start,
      chunks: 1,
      buffers: [DATA],
      lanes: OUT_IN,
      steps: total,
      program: (rank) => reduceOver(tree, total, rank, start, 1),
    }),
  );
}

export function gatherSchedule(algorithm: string, tree: Tree, { size, root = 0 }: Shape): Schedule {
  const total = rounds(tree);
  return defineSchedule({
    collective: 'gather',
    algorithm,
    size,
    root,
    chunks: size,
    buffers: [...userBuffers('gather', root), { name: 'scratch', kind: 'scratch', window: subtreeWindow(tree, root) }],
    lanes: OUT_IN,
    steps: Math.max(1, total),
    program: (rank) => gatherOver(tree, total, rank, root),
  });
}

export function scatterSchedule(algorithm: string, tree: Tree, { size, root = 0 }: Shape): Schedule {
  return defineSchedule({
    collective: 'scatter',
    algorithm,
    size,
    root,
    chunks: size,
    buffers: [...userBuffers('scatter', root), { name: 'scratch', kind: 'scratch', window: subtreeWindow(tree, root) }],
    lanes: OUT_IN,
    steps: Math.max(1, rounds(tree)),
    program: (rank) => scatterOver(tree, rank, root),
  });
}
