/**
 * What each collective promises: which buffers it has, what they hold at the start and what they must hold at the end.
 *
 * A chunk's content is described symbolically: which chunk it is, and whose contributions have been combined into it (a bit set over
 * ranks). A reduction of two contents is legal when they are the same chunk and share no contributor. `undefined` is a content
 * nobody may rely on: scratch at the start, or a user buffer that the collective is going to fill.
 *
 *   collective       buffers         start                        end
 *   allreduce        data            own contribution             all contributions, every rank
 *   sharded-         shards, output  rank r: its V/p vectors      output: all V combined in one fixed order; shards
 *     allreduce                      of V, V = contributions      are destroyed
 *   reduce-scatter   data            own contribution             rank r: chunk r combined; the rest is destroyed
 *   all-gather       data            rank r: chunk r              chunk c of rank c, every rank
 *   broadcast        data            the root's                   the root's, every rank
 *   reduce           data            own contribution             root: all; elsewhere destroyed
 *   gather           input, output   rank r: chunk r in input     root: chunk c of rank c in output
 *   scatter          input, output   root: all chunks in input    rank r: chunk r in output
 *   all-to-all       input, output   chunk d goes to rank d       chunk s came from rank s
 *   barrier          none            -                            nobody leaves before everybody has entered
 *   scan             data            own contribution             contributions of ranks 0 .. r
 *   send-receive     input, output   own block                    the block of rank r - distance (mod size)
 *
 * The chunks of a sharded all-reduce are numbered shard * S + part, S = chunks / contributions parts to a vector; the output holds chunks
 * 0 .. S - 1. Contents there are "part, set of shards".
 *
 * `input` is never written. In-place is the native form; a caller who wants his input kept copies it first.
 */

import type { BufferSpec, ChunkRange, Collective, Schedule } from './schedule.js';

/** Symbolic content of one chunk of one buffer. */
export interface Content {
  /** Which chunk of the contributors' vectors this is. */
  readonly chunk: number;
  /** Bit r set: rank r's contribution is in it. */
  readonly ranks: bigint;
  /** The finishing reduction has been applied (`avg` has scaled). */
  readonly finished: boolean;
}

/** Buffer 0 of in-place collectives. */
export const DATA: BufferSpec = { name: 'data', kind: 'user' };

/** Whole-vector scratch, laid out like `data`. */
export const SCRATCH: BufferSpec = { name: 'scratch', kind: 'scratch' };

/** Buffer ids of the collectives with separate buffers. */
export const INPUT_ID = 0;
/** The number of the buffer that a collective leaves its result in. */
export const OUTPUT_ID = 1;

/** The user buffers of a collective; algorithms append their scratch. @param root the root rank, where there is one. */
export function userBuffers(collective: Exclude<Collective, 'sharded-allreduce'>, root = 0): readonly BufferSpec[] {
  const own = (rank: number): ChunkRange => ({ first: rank, count: 1 });
  switch (collective) {
    case 'barrier':
      return [];
    case 'gather':
      return [
        { name: 'input', kind: 'user', window: own },
        { name: 'output', kind: 'user', window: onlyAt(root) },
      ];
    case 'scatter':
      return [
        { name: 'input', kind: 'user', window: onlyAt(root) },
        { name: 'output', kind: 'user', window: own },
      ];
    case 'all-to-all':
    case 'send-receive':
      return [
        { name: 'input', kind: 'user' },
        { name: 'output', kind: 'user' },
      ];
    default:
      return [DATA];
  }
}

const WHOLE = -1;

function onlyAt(root: number): (rank: number) => ChunkRange {
  return (rank) => ({ first: 0, count: rank === root ? WHOLE : 0 });
}

/** The chunks buffer `id` holds at `node`. Helper nodes hold no user data. */
export function windowOf(schedule: Schedule, id: number, node: number): ChunkRange {
  const spec = schedule.buffers[id];
  if (spec === undefined)
    throw new RangeError(`there is no buffer ${id}: '${schedule.algorithm}' has ${schedule.buffers.length}`);
  if (spec.kind === 'user' && node >= schedule.size) return { first: 0, count: 0 };
  const window = spec.window?.(node) ?? { first: 0, count: WHOLE };
  return window.count === WHOLE ? { first: window.first, count: schedule.chunks } : window;
}

/** What a user buffer holds before the collective; `undefined` for scratch and for places yet to be filled. */
export function initialContent(schedule: Schedule, node: number, buffer: number, chunk: number): Content | undefined {
  const { size, root } = schedule;
  if (node >= size || schedule.buffers[buffer].kind === 'scratch') return undefined;
  const own: Content = { chunk, ranks: bit(node), finished: false };
  switch (schedule.collective) {
    case 'allreduce':
    case 'reduce-scatter':
    case 'reduce':
    case 'scan':
      return own;
    case 'all-gather':
      return chunk === node ? own : undefined;
    case 'broadcast':
      return node === root ? own : undefined;
    case 'gather':
      return buffer === INPUT_ID && chunk === node ? own : undefined;
    case 'scatter':
      return buffer === INPUT_ID && node === root ? own : undefined;
    case 'all-to-all':
    case 'send-receive':
      return buffer === INPUT_ID ? own : undefined;
    case 'sharded-allreduce': {
      const parts = schedule.chunks / schedule.contributions;
      return buffer === INPUT_ID ? { chunk: chunk % parts, ranks: bit(Math.floor(chunk / parts)), finished: false } : undefined;
    }
    case 'barrier':
      return undefined;
  }
}

/** What a user buffer must hold afterwards; `undefined`: anything. */
export function finalContent(schedule: Schedule, rank: number, buffer: number, chunk: number): Content | undefined {
  const { size, root } = schedule;
  const all: Content = { chunk, ranks: everyone(schedule.contributions), finished: schedule.contributions > 1 };
  switch (schedule.collective) {
    case 'allreduce':
      return all;
    case 'sharded-allreduce':
      return buffer === OUTPUT_ID ? all : undefined;
    case 'reduce-scatter':
      return chunk === rank ? all : undefined;
    case 'reduce':
      return rank === root ? all : undefined;
    case 'scan':
      return { chunk, ranks: everyone(rank + 1), finished: false };
    case 'all-gather':
      return { chunk, ranks: bit(chunk), finished: false };
    case 'broadcast':
      return { chunk, ranks: bit(root), finished: false };
    case 'gather':
      return buffer === OUTPUT_ID && rank === root ? { chunk, ranks: bit(chunk), finished: false } : undefined;
    case 'scatter':
      return buffer === OUTPUT_ID && chunk === rank ? { chunk, ranks: bit(root), finished: false } : undefined;
    case 'all-to-all':
      return buffer === OUTPUT_ID ? { chunk: rank, ranks: bit(chunk), finished: false } : undefined;
    case 'send-receive':
      return buffer === OUTPUT_ID ? { chunk, ranks: bit((rank - root + size) % size), finished: false } : undefined;
    case 'barrier':
      return undefined;
  }
}

/** The bit set of ranks 0 .. count - 1. */
export function everyone(count: number): bigint {
  return (1n << BigInt(count)) - 1n;
}

function bit(rank: number): bigint {
  return 1n << BigInt(rank);
}
