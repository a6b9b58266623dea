import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countsSplit, evenSplit, pieces, rangeLength, windowLength } from './split.js';

test('an even split gives the first n mod k chunks one element more and covers everything', () => {
  for (const [n, k] of [
    [11, 4],
    [2, 4],
    [0, 3],
    [12, 4],
    [1, 1],
  ]) {
    const split = evenSplit(n, k);
    const lengths = Array.from({ length: k }, (_, c) => rangeLength(split, c, 1));
    assert.deepEqual(
      lengths,
      Array.from({ length: k }, (_, c) => Math.floor(n / k) + (c < n % k ? 1 : 0)),
    );
    assert.equal(split.offset(k), n);
  }
});

test('a range that wraps is two pieces, cut at the last chunk', () => {
  const split = evenSplit(11, 4);
  assert.deepEqual(pieces(split, { first: 0, count: 4 }, 2, 3), [
    { offset: 6, length: 5 },
    { offset: 0, length: 3 },
  ]);
  assert.equal(rangeLength(split, 2, 3), 8);
});

test('a windowed buffer stores its chunks in cyclic order from its first one', () => {
  const split = countsSplit([5, 1, 0, 2]);
  const window = { first: 3, count: 2 };
  assert.equal(windowLength(split, window), 7);
  assert.deepEqual(pieces(split, window, 3, 2), [
    { offset: 0, length: 2 },
    { offset: 2, length: 5 },
  ]);
  assert.throws(() => pieces(split, window, 1, 1), /outside the window/);
});

test('bad counts are refused', () => {
  assert.throws(() => evenSplit(-1, 2), RangeError);
  assert.throws(() => evenSplit(4, 0), RangeError);
  assert.throws(() => countsSplit([1, 0.5]), RangeError);
});
