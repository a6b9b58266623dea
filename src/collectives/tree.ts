/**
 * Trees over positions 0 .. n - 1, rooted at 0: the shapes that broadcast, reduce, gather, scatter and barriers run on.
 *
 * In each of them a subtree is a run of consecutive positions, so what a subtree gathers is one range of chunks. With a root other than 0,
 * position = rank - root (mod n), and such a range may wrap.
 *
 *   star                binomial, n = 8                    fan tree, degree 2, n = 8
 *     0                   0                                  0
 *   1 2 3 4 ...           ├ 4 ─ 6 ─ 7                        ├ 1 ─ 2 ─ 3
 *                         │   └ 5                            │   └ 4
 *                         ├ 2 ─ 3                            └ 5 ─ 6
 *                         └ 1                                    └ 7
 */

import { ceilLog2 } from './powers.js';

export interface Tree {
  readonly size: number;
  /** -1 for the root. */
  parent(position: number): number;
  /** In the order in which a broadcast serves them: the largest subtree first. */
  children(position: number): readonly number[];
  /** Positions in the subtree: position .. position + count - 1. */
  count(position: number): number;
}

/**
 * Rounds after which `position` holds a broadcast from the root when each node serves one child per round. `arrival` of the parent, plus
 * the place among its children, from 1.
 */
export function arrival(tree: Tree, position: number): number {
  let rounds = 0;
  for (let at = position; at !== 0; at = tree.parent(at)) rounds += 1 + tree.children(tree.parent(at)).indexOf(at);
  return rounds;
}

/** Rounds of a broadcast over the whole tree; a reduction takes as many. */
export function rounds(tree: Tree): number {
  const below = (position: number): number => {
    let most = 0;
    tree.children(position).forEach((child, k) => {
      most = Math.max(most, k + 1 + below(child));
    });
    return most;
  };
  return below(0);
}

/** The root and n - 1 leaves. */
export function starTree(size: number): Tree {
  const leaves = Array.from({ length: size - 1 }, (_, k) => k + 1);
  return {
    size,
    parent: (position) => (position === 0 ? -1 : 0),
    children: (position) => (position === 0 ? leaves : []),
    count: (position) => (position === 0 ? size : 1),
  };
}

/** Position v hangs under v without its lowest set bit: ceil(log2 n) rounds reach everybody. */
export function binomialTree(size: number): Tree {
  const reach = (position: number): number => (position === 0 ? 2 ** ceilLog2(size) : position & -position);
  return {
    size,
    parent: (position) => (position === 0 ? -1 : position & (position - 1)),
    children(position) {
      const list: number[] = [];
      for (let bit = reach(position) / 2; bit >= 1; bit /= 2) if (position + bit < size) list.push(position + bit);
      return list;
    },
    count: (position) => Math.min(reach(position), size - position),
  };
}

/** Each node shares the positions after it among `degree` children as evenly as possible, the first children getting the longer runs. */
export function fanTree(size: number, degree = 4): Tree {
  if (!Number.isInteger(degree) || degree < 1) throw new RangeError(`degree must be an integer >= 1, got ${degree}`);
  interface Node {
    readonly parent: number;
    readonly count: number;
  }
  const split = (first: number, count: number): [number, number][] => {
    const list: [number, number][] = [];
    for (let k = 0, at = first + 1; k < degree; k++) {
      const share = Math.floor((count - 1) / degree) + (k < (count - 1) % degree ? 1 : 0);
      if (share > 0) list.push([at, share]);
      at += share;
    }
    return list;
  };
  const find = (position: number): Node => {
    let [parent, first, count] = [-1, 0, size];
    while (first !== position) {
      const child = split(first, count).find(([at, share]) => position >= at && position < at + share);
      if (child === undefined) throw new RangeError(`position must be 0 .. ${size - 1}, got ${position}`);
      parent = first;
      [first, count] = child;
    }
    return { parent, count };
  };
  return {
    size,
    parent: (position) => find(position).parent,
    children: (position) => split(position, find(position).count).map(([at]) => at),
    count: (position) => find(position).count,
  };
}

/**
 * Critical path of a gather over the tree (a scatter takes as long): each message costs `perMessage` and `perBlock` for every block it carries; a node
 * takes one at a time, the smallest subtree first.
 */
export function gatherPath(tree: Tree, perMessage: number, perBlock: number): number {
  const ready = (position: number): number => {
    const children = tree.children(position);
    let time = 0;
    for (let k = children.length - 1; k >= 0; k--)
      time = Math.max(time, ready(children[k])) + perMessage + perBlock * tree.count(children[k]);
    return time;
  };
  return ready(0);
}
