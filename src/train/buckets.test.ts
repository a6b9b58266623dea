import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cutBuckets, planBuckets } from './buckets.js';

/** Four layers of 1 MB, each ready 1 ms after the one behind it. */
const RANGES = [3, 2, 1, 0].map((layer, i) => ({ from: layer * 250_000, to: (layer + 1) * 250_000, readyMs: i + 1 }));

test('buckets cover the gradient exactly, from the end to the start', () => {
  for (const size of [1, 1_000_000, 1_500_000, 1e9]) {
    const buckets = cutBuckets(RANGES, size);
    assert.equal(buckets[0].to, 1_000_000);
    assert.equal(buckets[buckets.length - 1].from, 0);
    for (const [i, bucket] of buckets.entries()) {
      assert.equal(bucket.index, i);
      if (i > 0) assert.equal(bucket.to, buckets[i - 1].from);
    }
  }
  assert.deepEqual(
    cutBuckets(RANGES, 1_500_000).map(({ from, to }) => [from, to]),
    [
      [500_000, 1_000_000],
      [0, 500_000],
    ],
  );
});

test('a slow network wants several buckets, a fast one a single bucket', () => {
  const slow = planBuckets(RANGES, (bytes) => 0.01 + bytes / 2e6);
  assert.ok(slow.buckets.length >= 3, `${slow.buckets.length}`);
  const fast = planBuckets(RANGES, (bytes) => 0.01 + bytes / 1e12);
  assert.equal(fast.buckets.length, 1);
});

test('a high fixed cost speaks against many buckets', () => {
  const plan = planBuckets(RANGES, () => 5);
  assert.equal(plan.buckets.length, 1);
  assert.ok(plan.candidates.length > 1);
});

test('without a core to spare nothing can be hidden, and one bucket is best', () => {
  const cost = (bytes: number) => 0.01 + bytes / 2e6;
  assert.equal(planBuckets(RANGES, cost, { spareCore: false }).buckets.length, 1);
});

test('a given size is used as it is', () => {
  assert.equal(planBuckets(RANGES, () => 5, { bucketBytes: 1_000_000 }).buckets.length, 4);
  assert.throws(() => planBuckets(RANGES, () => 5, { bucketBytes: 0 }), RangeError);
});

test('ranges in another order are refused', () => {
  assert.throws(() => cutBuckets([...RANGES].reverse(), 1), RangeError);
});
