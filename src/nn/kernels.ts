/**
 * The doorway to the C kernels: one native call that reads a kernel's number and arguments from a shared block.
 *
 * Arguments are numbers only: sizes, factors, and addresses of memory. So the same call works on a plain Float32Array and on arena memory
 * that peers have mapped, nothing is copied, and a call costs a fraction of a microsecond. Whoever passes an address keeps the typed array
 * behind it alive. native/kernel-table.h holds the same list of kernels, native/kernel-table.c the order of their arguments.
 */
import type { Address } from '../native/addon.js';
import { loadAddon } from '../native/load.js';

/** Numbers of the kernels. */
export const KERNEL = {
  selectBlas: 0,
  sgemm: 1,
  convolutionScratch: 2,
  convolutionForward: 3,
  convolutionBackwardInput: 4,
  convolutionBackwardWeights: 5,
  reluForward: 6,
  reluBackward: 7,
  geluForward: 8,
  geluBackward: 9,
  biasForward: 10,
  biasBackward: 11,
  maxPoolForward: 12,
  maxPoolBackward: 13,
  averagePoolForward: 14,
  averagePoolBackward: 15,
  layerNormForward: 16,
  layerNormBackward: 17,
  batchNormSums: 18,
  batchNormForward: 19,
  batchNormBackwardSums: 20,
  batchNormBackward: 21,
  softmaxCrossEntropy: 22,
  embeddingForward: 23,
  embeddingBackward: 24,
  dropout: 25,
  gatherBytes: 26,
  sumOfSquares: 27,
  scale: 28,
  addScaled: 29,
  sgd: 30,
  adam: 31,
  lambDirection: 32,
} as const;

/** Where the kernels' part of the addon's command block starts, in numbers. */
const BLOCK = 16;

let command: Float64Array | undefined;
let block: Float64Array | undefined;
let invoke: () => void;

/** The implementation of the matrix product: the machine's BLAS library, or the own one with vectors of so many floats. */
export interface BlasChoice {
  readonly implementation: 'library' | 'own';
  readonly lanes: number;
}

/**
 * Chooses the matrix product of this process. 'auto': the library where libopenblas.so.0 or libblas.so.3 is found, else the own one.
 * The first kernel call chooses by the environment variable VERBENA_BLAS (auto, own or library; default auto).
 * Throws when 'library' is asked for and there is none.
 */
export function selectBlas(want: 'auto' | 'own' | 'library'): BlasChoice {
  if (want !== 'auto' && want !== 'own' && want !== 'library') {
    throw new RangeError(`unknown BLAS '${String(want)}': give auto, own or library`);
  }
  const call = block ?? open();
  call[BLOCK] = KERNEL.selectBlas;
  call[BLOCK + 1] = want === 'own' ? 0 : 1;
  invoke();
  const implementation = call[BLOCK + 1] === 1 ? 'library' : 'own';
  if (want === 'library' && implementation === 'own') {
    throw new Error('no BLAS library found (libopenblas.so.0, libblas.so.3): apt-get install libopenblas0-pthread, or use own');
  }
  return { implementation, lanes: call[BLOCK + 2] };
}

function open(): Float64Array {
  const addon = loadAddon();
  block = new Float64Array(addon.command());
  invoke = addon.kernel;
  try {
    selectBlas((process.env['VERBENA_BLAS'] as 'auto' | undefined) || 'auto');
    return block;
  } catch (error) {
    block = undefined; // a wrong choice stays an error at every call
    throw error;
  }
}

/** Runs a kernel with its arguments in the order of native/kernel-table.c. */
export function run(
  kernel: number,
  a0 = 0,
  a1 = 0,
  a2 = 0,
  a3 = 0,
  a4 = 0,
  a5 = 0,
  a6 = 0,
  a7 = 0,
  a8 = 0,
  a9 = 0,
  a10 = 0,
  a11 = 0,
  a12 = 0,
  a13 = 0,
  a14 = 0,
): void {
  const call = block ?? open();
  call[BLOCK] = kernel;
  call[BLOCK + 1] = a0;
  call[BLOCK + 2] = a1;
  call[BLOCK + 3] = a2;
  call[BLOCK + 4] = a3;
  call[BLOCK + 5] = a4;
  call[BLOCK + 6] = a5;
  call[BLOCK + 7] = a6;
  call[BLOCK + 8] = a7;
  call[BLOCK + 9] = a8;
  call[BLOCK + 10] = a9;
  call[BLOCK + 11] = a10;
  call[BLOCK + 12] = a11;
  call[BLOCK + 13] = a12;
  call[BLOCK + 14] = a13;
  call[BLOCK + 15] = a14;
  invoke();
}

/** The i-th result of the last `run`. */
export function result(i: number): number {
  return block === undefined ? Number.NaN : block[BLOCK + 1 + i];
}

/** Where the array's first element lies. */
export function addressOf(array: ArrayBufferView): Address {
  return loadAddon().addressOf(array.buffer as ArrayBuffer) + array.byteOffset;
}

/** Copies `count` floats from an address into an array that has room for them. */
export function copyFloats(from: Address, to: Float32Array, count: number): void {
  copyBytes(from, addressOf(to), count * 4);
}

/** Copies memory of this process. Chooses no matrix product: a thread that only copies has no say in that. */
export function copyBytes(from: Address, to: Address, bytes: number): void {
  const addon = loadAddon();
  command ??= new Float64Array(addon.command());
  command[0] = to;
  command[1] = from;
  command[2] = bytes;
  addon.copy();
}

/** A float array and its address. */
export class Block {
  readonly data: Float32Array;
  readonly address: Address;

  constructor(data: Float32Array) {
    this.data = data;
    this.address = addressOf(data);
  }

  /** `count` zeros in memory of their own. */
  static zeros(count: number): Block {
    return new Block(new Float32Array(count));
  }
}
