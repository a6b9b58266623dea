import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseIdx } from './idx.js';

const file = (...bytes: number[]) => Uint8Array.from(bytes);

test('an IDX array is read with its shape', () => {
  const { shape, data } = parseIdx(file(0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6));
  assert.deepEqual(shape, [2, 3]);
  assert.deepEqual([...data], [1, 2, 3, 4, 5, 6]);
});

test('a file that is none, has another type or the wrong length is refused', () => {
  assert.throws(() => parseIdx(file(1, 0, 8, 1)), /no IDX file/);
  assert.throws(() => parseIdx(file(0, 0, 13, 1, 0, 0, 0, 0)), /IDX type 13/);
  assert.throws(() => parseIdx(file(0, 0, 8, 2, 0, 0)), /cut off/);
  assert.throws(() => parseIdx(file(0, 0, 8, 1, 0, 0, 0, 3, 1, 2)), /\[3\] has 3 bytes; the file has 2/);
});
