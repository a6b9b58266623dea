import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Sampler } from './sampler.js';

test('each epoch has every sample once, in an order of its own', () => {
  const sampler = new Sampler({ count: 103, globalBatch: 10, seed: 4 });
  assert.equal(sampler.stepsPerEpoch, 11);
  const epoch = (number: number) => Array.from({ length: 11 }, (_, step) => [...sampler.batch(number, step)]).flat();
  const first = epoch(0);
  assert.deepEqual(
    first.toSorted((a, b) => a - b),
    Array.from({ length: 103 }, (_, i) => i),
  );
  assert.notDeepEqual(epoch(1), first);
  assert.deepEqual(epoch(0), first);
});

test('the shares of the ranks are the batch, however many ranks there are, and differ by at most one sample', () => {
  const sampler = new Sampler({ count: 23, globalBatch: 10 });
  for (const ranks of [1, 2, 3, 4, 7]) {
    for (let step = 0; step < sampler.stepsPerEpoch; step++) {
      const batch = [...sampler.batch(2, step)];
      const shares = Array.from({ length: ranks }, (_, rank) => [...sampler.share(2, step, rank, ranks)]);
      assert.deepEqual(shares.flat(), batch);
      const sizes = shares.map((share) => share.length);
      assert.ok(Math.max(...sizes) - Math.min(...sizes) <= 1);
    }
  }
});

test('without shuffling the order is that of the data', () => {
  assert.deepEqual([...new Sampler({ count: 5, globalBatch: 3, shuffle: false }).batch(0, 1)], [3, 4]);
});
