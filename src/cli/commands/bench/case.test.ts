import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { batchValue, ratioOf } from './case.js';

describe('Values and ratios', () => {
  it('of latency are microseconds, half of a round trip', () => {
    assert.equal(batchValue({ metric: 'latency', size: 8 }, 1000, 0.3, true), 0.15);
    assert.equal(batchValue({ metric: 'latency', size: 8 }, 1000, 0.3), 0.3);
  });

  it('of bandwidth are 10^9 bytes a second, of rate messages a second', () => {
    assert.equal(batchValue({ metric: 'bandwidth', size: 1e6 }, 1000, 100), 10);
    assert.equal(batchValue({ metric: 'rate', size: 8 }, 1000, 1), 1e6);
  });

  it('say how many times better we are: their time over ours, our bandwidth over theirs', () => {
    assert.equal(ratioOf('latency', 0.15, 0.3), 2);
    assert.equal(ratioOf('bandwidth', 20, 10), 2);
    assert.equal(ratioOf('rate', 5, 10), 0.5);
  });
});
