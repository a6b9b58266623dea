/**
 * Two binary trees over the same ranks, such that (almost) every rank is a leaf in one of them.
 *
 * The first tree is the in-order binary tree on positions 1 .. p - 1 hung under position 0: odd positions are leaves, a position with lowest set bit b
 * has children b/2 to its left and right, or the nearest that exists. The second is the first on other positions: mirrored for even p,
 * shifted by one for odd p, which turns leaves into inner nodes and back. For odd p > 1 exactly one rank, 0, is inner in both:
 * p - 1 is even, so there are not enough leaves to go round.
 *
 *   p = 8      first    0 ─ 4 ┬ 2 ┬ 1         second   7 ─ 3 ┬ 5 ┬ 6
 *                             │   └ 3                        │   └ 4
 *                             └ 6 ┬ 5                        └ 1 ┬ 2
 *                                 └ 7                            └ 0
 */

import { ceilLog2 } from './powers.js';

export interface BinaryTree {
  /** -1 for the root. */
  parent(rank: number): number;
  /** At most two. */
  children(rank: number): readonly number[];
  /** Edges from the root. */
  depth(rank: number): number;
  /** Of the deepest rank. */
  readonly height: number;
}

export function doubleTree(size: number): readonly [BinaryTree, BinaryTree] {
  const same = (v: number): number => v;
  const mirrored = (v: number): number => size - 1 - v;
  const there = size % 2 === 0 ? mirrored : (v: number): number => (v + 1) % size;
  const back = size % 2 === 0 ? mirrored : (v: number): number => (v - 1 + size) % size;
  return [inOrderTree(size, same, same), inOrderTree(size, there, back)];
}

function inOrderTree(size: number, rankOf: (position: number) => number, positionOf: (rank: number) => number): BinaryTree {
  const parent = (v: number): number => {
    if (v === 0) return -1;
    const bit = v & -v;
    const up = (v ^ bit) | (bit << 1);
    return up < size ? up : v ^ bit;
  };
  const children = (v: number): number[] => {
    const list: number[] = [];
    const half = v === 0 ? 2 ** ceilLog2(size) / 2 : (v & -v) / 2;
    if (v !== 0 && half >= 1) list.push(v - half);
    let right = half;
    while (right >= 1 && v + right >= size) right = Math.floor(right / 2);
    if (right >= 1) list.push(v + right);
    return list;
  };
  const depth = (v: number): number => (v === 0 ? 0 : 1 + depth(parent(v)));
  let height = 0;
  for (let v = 0; v < size; v++) height = Math.max(height, depth(v));
  return {
    parent(rank) {
      const up = parent(positionOf(rank));
      return up === -1 ? -1 : rankOf(up);
    },
    children: (rank) => children(positionOf(rank)).map(rankOf),
    depth: (rank) => depth(positionOf(rank)),
    height,
  };
}
