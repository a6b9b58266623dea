/**
 * A call as C reads it: a block of 2,048 bytes, the first half written here, the second half C's own form of it.
 *
 *   Float64 index
 *   0 collective  1 method  2 which  3 op  4 type  5 root  6 divisor  7 identity  8 count  9 program  10 timeout, ms  11 buffers  12 bell
 *   13 done (32-bit word)  14 times wanted     16 status  17 culprit  18 bytes sent  19 bytes accessed  20 messages  21..25 the other rank's signature
 *   26 began  27 all had entered  28 ended (ms of the monotonic clock, where wanted)
 *   32 + 10 b   address, bytes, offsets, handle, first, window, exposed, in, out
 *
 * native/addon.c draws the same picture. A block is filled once and run any number of times.
 */

import type { Collective } from '../../schedule/schedule.js';
import { REDUCTION_NAMES, TYPE_NAMES } from '../element.js';
import { CollectiveError, RankLost } from '../errors.js';

export const BLOCK_BYTES = 2048;
export const AT = {
  comm: 0,
  timeout: 10,
  bell: 12,
  done: 26,
  status: 16,
  culprit: 17,
  sent: 18,
  accessed: 19,
  messages: 20,
  theirs: 21,
  timed: 14,
  times: 26,
};

/** In this order C knows them. */
const COLLECTIVES: readonly Collective[] = [
  'allreduce',
  'sharded-allreduce',
  'reduce-scatter',
  'all-gather',
  'broadcast',
  'reduce',
  'gather',
  'scatter',
  'all-to-all',
  'barrier',
  'scan',
  'send-receive',
];

/** How C runs it: in the entry slots, an all-reduce or all-to-all between the vectors in one pass, or an encoded program. */
export type Method = 'slots' | 'direct' | 'program';
const METHODS: readonly Method[] = ['slots', 'direct', 'program'];

export interface CallBuffer {
  /** 0: scratch. */
  readonly address: number;
  readonly bytes: number;
  /** Address of Float64 offsets, or 0: even. */
  readonly offsets: number;
  readonly handle: number;
  readonly first: number;
  readonly window: number;
  readonly exposed: boolean;
  readonly input: boolean;
  readonly output: boolean;
}

export interface CallFields {
  readonly collective: Collective;
  readonly method: Method;
  readonly op: number;
  readonly type: number;
  readonly root: number;
  readonly divisor: number;
  /** 31-bit number of the algorithm and its shape. */
  readonly identity: number;
  readonly count: number;
  readonly program: number;
  readonly buffers: readonly CallBuffer[];
}

export function fillBlock(block: Float64Array, comm: number, bell: number, f: CallFields): void {
  block.set([comm, METHODS.indexOf(f.method), COLLECTIVES.indexOf(f.collective), f.op, f.type, f.root, f.divisor]);
  block.set([f.identity, f.count, f.program, 0, f.buffers.length, bell], 7);
  f.buffers.forEach((b, i) => {
    const flags = [b.exposed, b.input, b.output].map(Number);
    block.set([b.address, b.bytes, b.offsets, b.handle, b.first, b.window, ...flags], 32 + 10 * i);
  });
}

/** The error a finished call stands for; undefined when it succeeded. */
export function callError(block: Float64Array, what: string, rank: number): Error | undefined {
  const culprit = block[AT.culprit];
  switch (block[AT.status]) {
    case 0:
      return undefined;
    case 1:
      return new RankLost(culprit, what);
    case 2:
      return new CollectiveError('COLL_MISMATCH', mismatch(block, rank, culprit));
    case 3:
      return new CollectiveError(
        'COLL_TIMEOUT',
        `${what} did not end within ${block[AT.timeout]} ms; the communicator is broken`,
      );
    case 4:
      return new CollectiveError('COLL_ABORTED', `${what}: rank ${culprit} aborted the communicator`);
    case 5:
      return new CollectiveError('COLL_CLOSED', `${what}: rank ${culprit} closed the communicator`);
    default:
      return new CollectiveError('COLL_SYSTEM', `${what} failed with errno ${culprit}`);
  }
}

function mismatch(block: Float64Array, rank: number, other: number): string {
  const own = [block[2] | (block[3] << 8) | (block[4] << 16) | (block[1] << 24), block[5], block[8] | 0, 0, block[7]];
  own[3] = Math.floor(block[8] / 2 ** 32);
  const theirs = [...block.subarray(AT.theirs, AT.theirs + 5)];
  return `rank ${rank} called ${describe(own)}, rank ${other} called ${describe(theirs)}${sameWords(own, theirs)}`;
}

function describe([what, root, low, high]: number[]): string {
  const name = COLLECTIVES[what & 0xff];
  const count = (low >>> 0) + high * 2 ** 32;
  const reduces = !['all-gather', 'broadcast', 'gather', 'scatter', 'all-to-all', 'barrier', 'send-receive'].includes(name);
  const op = reduces ? `, ${REDUCTION_NAMES[(what >> 8) & 0xff]}` : '';
  return `${name}(${count} x ${TYPE_NAMES[(what >> 16) & 0xff]}${op}, root ${root}, ${METHODS[what >> 24]})`;
}

function sameWords(own: readonly number[], theirs: readonly number[]): string {
  return own[4] !== theirs[4] ? ', with another algorithm or other counts' : '';
}
