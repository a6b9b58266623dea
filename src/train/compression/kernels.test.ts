import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Random } from '../../nn/index.js';
import * as kernels from './kernels.js';
import * as reference from './reference.test.fixture.js';

const SEED = Number(process.env['VERBENA_SEED'] ?? 7);
const LENGTHS = [1, 2, 31, 32, 33, 1000, 4097];

/** Numbers of very different sizes, with ties, zeros and equal magnitudes. */
function numbers(n: number, stream: number): Float32Array {
  const random = new Random(SEED, stream);
  return Float32Array.from({ length: n }, (_, i) => {
    const x = random.normal() * 10 ** Math.floor(random.uniform() * 6 - 4);
    return i % 11 === 3 ? 0 : i % 7 === 2 ? Math.round(x * 4) / 4 : x;
  });
}

/** Every float that is a tie, a border or special for 16 bits. */
function borders(): Float32Array {
  const bits: number[] = [];
  for (let exponent = 96; exponent < 150; exponent++) {
    for (const fraction of [
      0, 1, 0xfff, 0x1000, 0x1001, 0x2000, 0x3000, 0x7fff, 0x8000, 0x8001, 0x18000, 0x7fefff, 0x7ff000, 0x7fffff,
    ]) {
      bits.push((exponent << 23) | fraction, ((exponent << 23) | fraction | 0x80000000) >>> 0);
    }
  }
  bits.push(0, 0x80000000, 1, 0x7f7fffff, 0xff7fffff, 0x00800000, 0x007fffff);
  return Float32Array.from(bits, reference.floatOf);
}

const sameBits = (actual: Float32Array, expected: Float32Array, what: string) => {
  const a = new Uint32Array(actual.buffer, actual.byteOffset, actual.length);
  const b = new Uint32Array(expected.buffer, expected.byteOffset, expected.length);
  const at = a.findIndex((bits, i) => bits !== b[i] && !(actual[i] === 0 && expected[i] === 0));
  assert.equal(at, -1, `${what}: element ${at} is ${actual[at]}, not ${expected[at]} (seed ${SEED})`);
};

describe('kernels of gradient exchange', () => {
  for (const n of LENGTHS) {
    it(`weighted sums of ${n} floats have the bits of the reference`, () => {
      const sources = [numbers(n, 1), numbers(n, 2), numbers(n, 3)];
      const factors = [0.25, 1 / 3, 5 / 12];
      const y = new Float32Array(n).fill(9);
      kernels.weightedSum(y, sources, factors);
      sameBits(y, reference.weightedSum(sources, factors, n), 'sum');
      kernels.weightedSum(y, [], []);
      assert.ok(y.every((value) => value === 0));
    });
  }

  it('f16 and bf16 round to nearest, ties to even, and keep the rest', () => {
    const forms = [
      ['f16', kernels.f16Encode, kernels.f16Decode, reference.halfValue],
      ['bf16', kernels.bf16Encode, kernels.bf16Decode, reference.bfloatValue],
    ] as const;
    for (const [name, encode, decode, value] of forms) {
      for (const input of [borders(), numbers(5001, 4)]) {
        const x = input.slice();
        const halves = new Uint16Array(x.length);
        encode(x, halves);
        const y = new Float32Array(x.length);
        decode(halves, y, false);
        sameBits(y, Float32Array.from(input, value), name);
        const finite = (i: number) => Number.isFinite(y[i]);
        sameBits(
          x.map((rest, i) => (finite(i) ? rest : 0)),
          input.map((was, i) => (finite(i) ? was - y[i] : 0)),
          `${name} rest`,
        );
        decode(halves, y, true);
        sameBits(
          y,
          Float32Array.from(input, (one) => 2 * value(one)),
          `${name}, twice`,
        );
      }
      const nan = Float32Array.of(Number.NaN, Number.POSITIVE_INFINITY);
      const halves = new Uint16Array(2);
      encode(nan, halves);
      const y = new Float32Array(2);
      decode(halves, y, false);
      assert.deepEqual([...y], [Number.NaN, Number.POSITIVE_INFINITY], name);
    }
  });

  for (const n of LENGTHS) {
    it(`int8, one-bit, top-k, threshold and random-k of ${n} floats agree with the reference`, () => {
      const input = numbers(n, 5);
      const most = kernels.absMax(input);
      assert.equal(
        most,
        input.reduce((m, value) => Math.max(m, Math.abs(value)), 0),
      );

      for (const unit of [Math.fround(most / 127), Math.fround(most / 50), 0]) {
        const [x, expectedRest] = [input.slice(), input.slice()];
        const bytes = new Int8Array(n);
        kernels.int8Encode(x, bytes, unit);
        assert.deepEqual(bytes, reference.int8(expectedRest, unit));
        sameBits(x, expectedRest, 'int8 rest');
        const y = new Float32Array(n);
        kernels.int8Decode(bytes, y, unit, false);
        sameBits(
          y,
          Float32Array.from(bytes, (q) => q * unit),
          'int8',
        );
      }

      {
        const [x, expectedRest] = [input.slice(), input.slice()];
        const bits = new Uint32Array(Math.ceil(n / 32));
        const means = new Float32Array(2);
        kernels.oneBitEncode(x, bits, means);
        const expected = reference.oneBit(expectedRest);
        assert.deepEqual([...means], expected.means);
        sameBits(x, expectedRest, 'one-bit rest');
        const y = new Float32Array(n).fill(1);
        kernels.oneBitDecode(bits, means, y, true);
        sameBits(
          y,
          Float32Array.from(expected.bits, (up) => 1 + expected.means[up ? 1 : 0]),
          'one-bit',
        );
      }

      for (const k of new Set([1, Math.ceil(n / 100), Math.ceil(n / 3), n])) {
        const [x, expectedRest] = [input.slice(), input.slice()];
        const [index, value] = [new Uint32Array(k), new Float32Array(k)];
        kernels.topK(x, index, value);
        const expected = reference.topK(expectedRest, k);
        assert.deepEqual([...index], expected.index, `seed ${SEED}`);
        assert.deepEqual([...value], expected.value);
        sameBits(x, expectedRest, 'top-k rest');
        kernels.sparseAdd(index, value, x);
        sameBits(x, input, 'top-k put back');

        const taken = input.slice();
        const values = new Float32Array(k);
        kernels.randomKEncode(taken, values, SEED, 12);
        const places = reference.randomPlaces(n, k, SEED, 12);
        assert.deepEqual(
          [...values],
          places.map((at) => input[at]),
          `seed ${SEED}`,
        );
        const y = new Float32Array(n).fill(3);
        kernels.randomKDecode(values, y, SEED, 12);
        sameBits(
          Float32Array.from(y, (one, i) => one + taken[i]),
          input,
          'random-k and its rest',
        );
      }

      for (const room of [n, Math.ceil(n / 10)]) {
        const [x, expectedRest] = [input.slice(), input.slice()];
        const [index, value] = [new Uint32Array(room), new Float32Array(room)];
        const count = kernels.thresholdSelect(x, 0.1, index, value);
        const expected = reference.threshold(expectedRest, 0.1, room);
        assert.deepEqual([...index.subarray(0, count)], expected.index);
        assert.deepEqual([...value.subarray(0, count)], expected.value);
        sameBits(x, expectedRest, 'threshold rest');
      }
    });
  }

  it('a sparse gradient that names an element outside is refused', () => {
    assert.throws(() => kernels.sparseAdd(Uint32Array.of(4), Float32Array.of(1), new Float32Array(4)), RangeError);
  });

  it('orthonormal columns span what the columns spanned, and a dependent column vanishes', () => {
    const [rows, columns] = [50, 4];
    const matrix = numbers(rows * columns, 6);
    for (let r = 0; r < rows; r++) matrix[r * columns + 2] = 2 * matrix[r * columns] - matrix[r * columns + 1];
    const before = matrix.slice();
    kernels.orthonormalize(matrix, rows, columns);
    const dot = (a: Float32Array, i: number, b: Float32Array, j: number) => {
      let sum = 0;
      for (let r = 0; r < rows; r++) sum += a[r * columns + i] * b[r * columns + j];
      return sum;
    };
    for (let i = 0; i < columns; i++) {
      for (let j = 0; j < columns; j++) {
        const expected = i === j && i !== 2 ? 1 : 0;
        assert.ok(Math.abs(dot(matrix, i, matrix, j) - expected) < 1e-5, `${i}, ${j}: ${dot(matrix, i, matrix, j)}`);
      }
      const length = Math.sqrt(dot(before, i, before, i));
      let inside = 0;
      for (let j = 0; j < columns; j++) inside += dot(before, i, matrix, j) ** 2;
      assert.ok(Math.abs(Math.sqrt(inside) - length) < 1e-4 * length, `column ${i}`);
    }
  });
});
