import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../nn/index.js';
import { cutBySpeed, cutEvenly } from './batch-cut.js';

const sharesOf = (cut: readonly number[]) => cut.slice(1).map((end, i) => end - cut[i]);

test('even shares differ by at most one sample', () => {
  assert.deepEqual(sharesOf(cutEvenly(11, 4)), [2, 3, 3, 3]);
});

test('a rank that is twice as fast gets twice as many samples, within the limit', () => {
  assert.deepEqual(sharesOf(cutBySpeed(99, [2, 1], 96)), [66, 33]);
  assert.deepEqual(sharesOf(cutBySpeed(99, [2, 1], 60)), [60, 39]);
  assert.deepEqual(sharesOf(cutBySpeed(100, [1, 1], 40)), [50, 50], 'more than all may have: evenly');
  assert.deepEqual(sharesOf(cutBySpeed(5, [100, 1, 1], 4)), [3, 1, 1]);
});

test('large shares are whole grains: a little faster is nothing, much faster is something', () => {
  assert.deepEqual(sharesOf(cutBySpeed(256, [1.05, 1], 192)), [128, 128]);
  assert.deepEqual(sharesOf(cutBySpeed(256, [1.3, 1], 192)), [144, 112]);
});

test('shares are a cut of the samples, with one for everybody and none above the limit, for any speeds', (t) => {
  const seed = Number(process.env['VERBENA_SEED'] ?? Date.now() % 1_000_000);
  t.diagnostic(`seed ${seed}`);
  const random = new Random(seed);
  const upTo = (n: number) => 1 + Math.floor(n * random.uniform());
  for (let round = 0; round < 2000; round++) {
    const ranks = upTo(9);
    const limit = upTo(40);
    const count = ranks + Math.floor((limit * ranks - ranks + 1) * random.uniform());
    const speeds = Array.from({ length: ranks }, () => 10 ** (4 * random.uniform()));
    const cut = cutBySpeed(count, speeds, limit);
    const message = `seed ${seed}: ${count} samples, speeds ${speeds}, limit ${limit}: ${cut}`;
    assert.equal(cut[0], 0, message);
    assert.equal(cut[ranks], count, message);
    for (const share of sharesOf(cut)) assert.ok(share >= 1 && share <= limit, message);
  }
});
