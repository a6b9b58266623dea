/**
 * The typed door to native/dataset.h. A call is a block of numbers: which kernel, then addresses and lengths; results come back in the block.
 *
 * `now` runs on this thread, `run` on a thread of Node's pool while the event loop goes on. Memory that is passed stays referenced until the call is over,
 * because its address alone would not keep it.
 */

import { getSystemErrorName } from 'node:util';
import { loadAddon } from '../native/load.js';
import { DatasetError } from './errors.js';

export const KERNEL = {
  checksum: 0,
  recordsPartition: 1,
  recordsSort: 2,
  recordsMerge: 3,
  recordsGenerate: 4,
  recordsCheck: 5,
  hashIds: 6,
  scatter: 7,
  aggregate: 8,
  join: 9,
  order: 10,
  gather: 11,
  wordsOpen: 12,
  wordsAddText: 13,
  wordsAddEntries: 14,
  wordsCount: 15,
  wordsSizes: 16,
  wordsWrite: 17,
  wordsClose: 18,
  read: 19,
} as const;

export type Kernel = (typeof KERNEL)[keyof typeof KERNEL];

const BLOCK = 80;

/** Address of the first byte of memory. Stays right as long as the buffer is referenced. */
export function addressOf(view: ArrayBufferView): number {
  return view.byteLength === 0 ? 0 : loadAddon().addressOf(view.buffer as ArrayBuffer) + view.byteOffset;
}

type Argument = number | ArrayBufferView;

function blockOf(kernel: Kernel, args: readonly Argument[]): Float64Array {
  const block = new Float64Array(BLOCK);
  block[0] = kernel;
  for (let i = 0; i < args.length; i++) {
    const argument = args[i];
    block[i + 1] = typeof argument === 'number' ? argument : addressOf(argument);
  }
  return block;
}

function check(kernel: Kernel, errno: number): void {
  if (errno === 0) return;
  const name = getSystemErrorName(-errno);
  const what = Object.keys(KERNEL).find((key) => KERNEL[key as keyof typeof KERNEL] === kernel);
  if (name === 'ENOMEM') throw new DatasetError('DATASET_MEMORY', `${what}: the system has no memory for it`);
  throw Object.assign(new Error(`${what}: ${name}`), { code: name });
}

/** Runs a kernel on this thread. Returns its block: results from 1 on. */
export function now(kernel: Kernel, ...args: Argument[]): Float64Array {
  const block = blockOf(kernel, args);
  check(kernel, loadAddon().datasetCall(block));
  return block;
}

const underWay = new Set<readonly Argument[]>();

/** Runs a kernel on a thread of the pool. */
export async function run(kernel: Kernel, ...args: Argument[]): Promise<Float64Array> {
  const block = blockOf(kernel, args);
  underWay.add(args);
  try {
    check(kernel, await loadAddon().datasetRun(block));
  } finally {
    underWay.delete(args);
  }
  return block;
}

const SMALL = new Float64Array(BLOCK);

/** 52 bits over all bytes. */
export function checksum(bytes: Uint8Array): number {
  SMALL[0] = KERNEL.checksum;
  SMALL[1] = addressOf(bytes);
  SMALL[2] = bytes.byteLength;
  loadAddon().datasetCall(SMALL);
  return SMALL[1];
}
