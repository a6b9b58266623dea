/**
 * Double binary tree: two trees, each reduces and broadcasts half of the vector, in segments.
 *
 * Idea    In one binary tree half of the ranks are leaves and use half of their port. A second tree in which the leaves are inner nodes
 *         takes the other half of the vector (double-tree.ts). Segments flow up and, as soon as the root has one, down again.
 * Steps   about 4 messages per segment at an inner node, and twice the height, up and down, for the first
 * Bytes   the busiest rank sends 2n: to its parent and two children in one tree, to its parent in the other; half of n each
 * Wins    Middle vectors on many ranks: the latency of a tree at nearly the ring's bytes.
 * Paper   Sanders, Speck, Träff: Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel Computing 2009.
 */

import { DATA } from '../../schedule/contract.js';
import { after, receive, receiveReduce, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, always, flatCost } from '../algorithm.js';
import { doubleTree } from '../double-tree.js';
import { inRingOrder } from '../order.js';
import { ceilLog2 } from '../powers.js';

const DEFAULT_SEGMENTS = 4;
const [UP_IN, UP_OUT, DOWN_IN, DOWN_OUT] = [0, 1, 2, 3];
const LANES = [0, 1].flatMap((t) =>
  ['up in', 'up out', 'down in', 'down out'].map((name) => ({ name: `tree ${t} ${name}`, reach: 'any' as const })),
);

export const doubleBinaryTree: Algorithm = {
  collective: 'allreduce',
  name: 'double-binary-tree',
  description: 'two trees with half the vector each, in segments; for middle vectors on many ranks',
  tunable: 'segments',
  supports: always,
  schedule({ size, segments = DEFAULT_SEGMENTS, topology }) {
    const trees = doubleTree(size);
    const height = Math.max(trees[0].height, trees[1].height);

    function* program(rank: number): Generator<Instruction> {
      for (let s = 0; s < segments; s++) {
        for (let t = 0; t < 2; t++) yield* segment(rank, t, s);
      }
    }

    function* segment(rank: number, t: number, s: number): Generator<Instruction> {
      const tree = trees[t];
      const [parent, children, depth] = [tree.parent(rank), tree.children(rank), tree.depth(rank)];
      const lane = (which: number): number => 4 * t + which;
      const first = t * segments + s;
      const full = children.length * (s + 1);
      const [up, down] = [height - depth + s, height + depth + s];
      for (let k = 0; k < children.length; k++) {
        const finish = parent === -1 && k === children.length - 1;
        yield receiveReduce({ lane: lane(UP_IN), step: up - 1, channel: t, from: children[k], first, finish });
      }
      if (parent !== -1) {
        if (full > 0) yield after({ lane: lane(UP_OUT), step: up, on: lane(UP_IN), count: full });
        yield send({ lane: lane(UP_OUT), step: up, channel: t, to: parent, first });
        yield after({ lane: lane(DOWN_IN), step: down - 1, on: lane(UP_OUT), count: s + 1 });
        yield receive({ lane: lane(DOWN_IN), step: down - 1, channel: t, from: parent, first });
      }
      if (children.length === 0) return;
      if (parent === -1) yield after({ lane: lane(DOWN_OUT), step: down, on: lane(UP_IN), count: full });
      else yield after({ lane: lane(DOWN_OUT), step: down, on: lane(DOWN_IN), count: s + 1 });
      for (const child of children) yield send({ lane: lane(DOWN_OUT), step: down, channel: t, to: child, first });
    }

    const schedule = defineSchedule({
      collective: 'allreduce',
      algorithm: 'double-binary-tree',
      size,
      chunks: 2 * segments,
      buffers: [DATA],
      lanes: LANES,
      steps: size === 1 ? 0 : 2 * height + segments - 1,
      program,
    });
    return inRingOrder(schedule, topology);
  },
  cost(shape) {
    const { size: p, bytes: n, segments: s = DEFAULT_SEGMENTS } = shape;
    if (p === 1) return flatCost(shape, 0, 0, 0);
    if (p === 2) return flatCost(shape, 2 * s, n, n / 2);
    const height = ceilLog2(p);
    // First segment: two messages per level up and down, one at the root. Every further one: four at an inner node.
    const messages = 4 * (height - 1) + 2 + 4 * (s - 1);
    const reductions = 2 * (height - 1) + 1 + 2 * (s - 1);
    return flatCost(shape, messages, (messages * n) / (2 * s), (reductions * n) / (2 * s));
  },
};
