/**
 * What one rank does when data flows over a tree: down (broadcast, scatter) or up (reduce, gather).
 *
 * The tree knows positions; with another root the ranks are rotated: rank = position + root (mod p). Going down, a node serves the child
 * with the largest subtree first; going up is the same picture backwards, so the smallest subtree comes first.
 */

import { INPUT_ID, OUTPUT_ID } from '../schedule/contract.js';
import { after, copy, receive, receiveReduce, send } from '../schedule/instruction.js';
import type { ChunkRange, Instruction } from '../schedule/schedule.js';
import { IN, OUT } from './lanes.js';
import { arrival, type Tree } from './tree.js';

const SCRATCH_ID = 2;

/** Broadcast of `count` chunks of buffer 0. */
export function* broadcastOver(tree: Tree, rank: number, root: number, count: number): Generator<Instruction> {
  const { size } = tree;
  const position = (rank - root + size) % size;
  const rankOf = (at: number): number => (at + root) % size;
  const own = arrival(tree, position);
  if (position !== 0) yield receive({ lane: IN, step: own - 1, from: rankOf(tree.parent(position)), first: 0, count });
  const children = tree.children(position);
  for (let k = 0; k < children.length; k++) {
    const step = own + k;
    if (k === 0 && position !== 0) yield after({ lane: OUT, step, on: IN, count: 1 });
    yield send({ lane: OUT, step, to: rankOf(children[k]), first: 0, count });
  }
}

/** Reduction of `count` chunks of buffer 0 to the root. @param total rounds(tree), which is computed once for all ranks. */
export function* reduceOver(tree: Tree, total: number, rank: number, root: number, count: number): Generator<Instruction> {
  const { size } = tree;
  const position = (rank - root + size) % size;
  const rankOf = (at: number): number => (at + root) % size;
  const own = arrival(tree, position);
  const children = tree.children(position);
  for (let k = children.length - 1; k >= 0; k--) {
    yield receiveReduce({
      lane: IN,
      step: total - own - k - 1,
      from: rankOf(children[k]),
      first: 0,
      count,
      finish: position === 0 && k === 0,
    });
  }
  if (position === 0) return;
  if (children.length > 0) yield after({ lane: OUT, step: total - own, on: IN, count: children.length });
  yield send({ lane: OUT, step: total - own, to: rankOf(tree.parent(position)), first: 0, count });
}

/** Chunks of scratch an inner node of a gather or scatter tree needs: its subtree. Leaves and the root need none. */
export function subtreeWindow(tree: Tree, root: number): (rank: number) => ChunkRange {
  return (rank) => {
    const position = (rank - root + tree.size) % tree.size;
    const count = tree.count(position);
    return { first: rank, count: position === 0 || count === 1 ? 0 : count };
  };
}

/** Gather to the root: every node sends its subtree's chunks, one range, in one message. @param total rounds(tree). */
export function* gatherOver(tree: Tree, total: number, rank: number, root: number): Generator<Instruction> {
  const { size } = tree;
  const position = (rank - root + size) % size;
  const rankOf = (at: number): number => (at + root) % size;
  const own = arrival(tree, position);
  const children = tree.children(position);
  const leaf = children.length === 0 && position !== 0;
  const buffer = position === 0 ? OUTPUT_ID : leaf ? INPUT_ID : SCRATCH_ID;
  const count = tree.count(position);
  if (!leaf) yield copy({ lane: IN, step: 0, rank, buffer, first: rank, otherBuffer: INPUT_ID });
  for (let k = children.length - 1; k >= 0; k--) {
    const child = children[k];
    yield receive({
      lane: IN,
      step: total - own - k - 1,
      from: rankOf(child),
      buffer,
      first: rankOf(child),
      count: tree.count(child),
    });
  }
  if (position === 0) return;
  if (!leaf) yield after({ lane: OUT, step: total - own, on: IN, count: children.length + 1 });
  yield send({ lane: OUT, step: total - own, to: rankOf(tree.parent(position)), buffer, first: rank, count });
}

/** Scatter from the root: a gather backwards. */
export function* scatterOver(tree: Tree, rank: number, root: number): Generator<Instruction> {
  const { size } = tree;
  const position = (rank - root + size) % size;
  const rankOf = (at: number): number => (at + root) % size;
  const own = arrival(tree, position);
  const children = tree.children(position);
  const leaf = children.length === 0 && position !== 0;
  const buffer = position === 0 ? INPUT_ID : leaf ? OUTPUT_ID : SCRATCH_ID;
  if (position !== 0) {
    yield receive({
      lane: IN,
      step: own - 1,
      from: rankOf(tree.parent(position)),
      buffer,
      first: rank,
      count: tree.count(position),
    });
  }
  for (let k = 0; k < children.length; k++) {
    const step = own + k;
    if (k === 0 && position !== 0) yield after({ lane: OUT, step, on: IN, count: 1 });
    yield send({ lane: OUT, step, to: rankOf(children[k]), buffer, first: rankOf(children[k]), count: tree.count(children[k]) });
  }
  if (!leaf) yield copy({ lane: IN, step: Math.max(0, own - 1), rank, buffer: OUTPUT_ID, first: rank, otherBuffer: buffer });
}
