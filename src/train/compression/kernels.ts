/**
 * The C kernels of gradient exchange as functions of typed arrays: weighted sums and encodings. native/compress.h says what each does; the order of
 * KERNEL is the order of its enumeration.
 *
 * Encoders work in place: afterwards `x` holds what the encoding could not express, so that encoded + x is what x was.
 */
import { addressOf, KERNEL as NN, result, run } from '../../nn/kernels.js';

const KERNEL = {
  weightedSum: 64,
  f16Encode: 65,
  f16Decode: 66,
  bf16Encode: 67,
  bf16Decode: 68,
  absMax: 69,
  int8Encode: 70,
  int8Decode: 71,
  oneBitEncode: 72,
  oneBitDecode: 73,
  topK: 74,
  threshold: 75,
  sparseAdd: 76,
  randomKEncode: 77,
  randomKDecode: 78,
  orthonormalize: 79,
  apply: 80,
} as const;

/** Numbers of a kernel call, as native/kernel-table.h has it. */
const CALL = 16;
/** Where the arguments of applyUpdate lie: the call of the optimizer, then the lists. */
let scratch = new Float64Array(64);

/** y = sum of factors[i] * sources[i], in the order of i. All are as long as y. */
export function weightedSum(y: Float32Array, sources: readonly Float32Array[], factors: readonly number[]): void {
  const places = Float64Array.from(sources, addressOf);
  const weights = Float64Array.from(factors);
  run(KERNEL.weightedSum, addressOf(y), y.length, addressOf(places), addressOf(weights), places.length);
}

/**
 * An update of parameters in one pass: gradients are added up, the optimizer steps, and new parameters are written to where workers have theirs.
 * `call` is the kernel call of the optimizer (number, arguments), whose addresses of parameters, gradient and state begin at argument `first`, before the length.
 * Sources and targets are addresses of vectors of that length. Without sources the gradient is taken as it is.
 */
export function applyUpdate(
  call: readonly number[],
  first: number,
  sources: readonly number[],
  factors: readonly number[],
  targets: readonly number[],
): void {
  const lists = [sources, factors, targets];
  const numbers = CALL + lists.reduce((sum, { length }) => sum + length, 0);
  if (scratch.length < numbers) scratch = new Float64Array(2 * numbers);
  scratch.set(call);
  let at = CALL;
  const [from, weights, to] = lists.map((list) => {
    scratch.set(list, at);
    at += list.length;
    return addressOf(scratch) + 8 * (at - list.length);
  });
  const pointers = call.length - 2 - first;
  run(KERNEL.apply, addressOf(scratch), first, pointers, from, weights, sources.length, to, targets.length);
}

/** IEEE binary16, to nearest, ties to even; what is too large becomes infinite. */
export function f16Encode(x: Float32Array, out: Uint16Array): void {
  run(KERNEL.f16Encode, addressOf(x), addressOf(out), x.length);
}

/** y = halves, or y += halves */
export function f16Decode(halves: Uint16Array, y: Float32Array, add: boolean): void {
  run(KERNEL.f16Decode, addressOf(halves), addressOf(y), y.length, add ? 1 : 0);
}

/** bfloat16, to nearest, ties to even. */
export function bf16Encode(x: Float32Array, out: Uint16Array): void {
  run(KERNEL.bf16Encode, addressOf(x), addressOf(out), x.length);
}

/** y = halves, or y += halves */
export function bf16Decode(halves: Uint16Array, y: Float32Array, add: boolean): void {
  run(KERNEL.bf16Decode, addressOf(halves), addressOf(y), y.length, add ? 1 : 0);
}

/** The greatest magnitude; 0 of nothing. */
export function absMax(x: Float32Array): number {
  run(KERNEL.absMax, addressOf(x), x.length);
  return result(0);
}

/** x / unit to nearest, ties to even, within -127 .. 127. A unit of 0 gives zeros. */
export function int8Encode(x: Float32Array, out: Int8Array, unit: number): void {
  run(KERNEL.int8Encode, addressOf(x), addressOf(out), x.length, unit, 127);
}

/** y = unit * bytes, or y += unit * bytes */
export function int8Decode(bytes: Int8Array, y: Float32Array, unit: number, add: boolean): void {
  run(KERNEL.int8Decode, addressOf(bytes), addressOf(y), y.length, unit, add ? 1 : 0);
}

/** Bit i says x[i] >= 0; `means` become those of the numbers below 0 and of the others. */
export function oneBitEncode(x: Float32Array, bits: Uint32Array, means: Float32Array): void {
  run(KERNEL.oneBitEncode, addressOf(x), addressOf(bits), x.length, addressOf(means));
}

/** y = means[bit], or y += means[bit] */
export function oneBitDecode(bits: Uint32Array, means: Float32Array, y: Float32Array, add: boolean): void {
  run(KERNEL.oneBitDecode, addressOf(bits), addressOf(means), addressOf(y), y.length, add ? 1 : 0);
}

/** The numbers of the greatest magnitude, as many as `index` has room for (at most x.length), by ascending index. */
export function topK(x: Float32Array, index: Uint32Array, value: Float32Array): void {
  run(KERNEL.topK, addressOf(x), x.length, index.length, addressOf(index), addressOf(value));
}

/** The first numbers of a magnitude of at least `limit`, as many as there is room for. Returns how many. */
export function thresholdSelect(x: Float32Array, limit: number, index: Uint32Array, value: Float32Array): number {
  run(KERNEL.threshold, addressOf(x), x.length, limit, index.length, addressOf(index), addressOf(value));
  return result(0);
}

/** y[index] += value. Throws a RangeError for an index outside y: what came is no encoding of y. */
export function sparseAdd(index: Uint32Array, value: Float32Array, y: Float32Array): void {
  run(KERNEL.sparseAdd, addressOf(index), addressOf(value), index.length, addressOf(y), y.length);
  if (result(0) !== 0) throw new RangeError(`a sparse gradient names an element outside the ${y.length} that there are`);
}

/** One number of each of value.length equal stretches (at most x.length), chosen by seed and step. */
export function randomKEncode(x: Float32Array, value: Float32Array, seed: number, step: number): void {
  run(KERNEL.randomKEncode, addressOf(x), x.length, value.length, seed, step, addressOf(value));
}

/** y = 0, and value where `randomKEncode` with this seed and step took from. */
export function randomKDecode(value: Float32Array, y: Float32Array, seed: number, step: number): void {
  run(KERNEL.randomKDecode, addressOf(value), value.length, seed, step, addressOf(y), y.length);
}

/** Makes the columns of a row-major matrix orthonormal; one that lay in those before it becomes 0. */
export function orthonormalize(matrix: Float32Array, rows: number, columns: number): void {
  run(KERNEL.orthonormalize, addressOf(matrix), rows, columns);
}

/** y += x */
export function addInto(y: Float32Array, x: Float32Array): void {
  run(NN.addScaled, addressOf(y), addressOf(x), 1, y.length);
}

/** c = op(a) op(b), row-major: a is m x k, b is k x n, each before its transposition. */
export function multiply(
  a: Float32Array,
  transposeA: boolean,
  b: Float32Array,
  transposeB: boolean,
  c: Float32Array,
  [m, n, k]: readonly [number, number, number],
): void {
  const strideA = transposeA ? m : k;
  const strideB = transposeB ? k : n;
  const [ta, tb] = [transposeA ? 1 : 0, transposeB ? 1 : 0];
  run(NN.sgemm, ta, tb, m, n, k, 1, addressOf(a), strideA, addressOf(b), strideB, 0, addressOf(c), n);
}
