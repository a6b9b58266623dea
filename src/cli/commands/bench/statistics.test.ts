import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { median, percentile, summarize } from './statistics.js';

describe('Statistics', () => {
  it('interpolate percentiles', () => {
    const values = [4, 1, 3, 2];
    assert.equal(percentile(values, 0), 1);
    assert.equal(percentile(values, 1), 4);
    assert.equal(median(values), 2.5);
    assert.ok(Math.abs(percentile(values, 0.99) - 3.97) < 1e-12);
    assert.ok(Number.isNaN(median([])));
  });

  it('do not let one disturbed round move the median', () => {
    const quiet = [1, 1.1, 1.2];
    const summary = summarize([quiet, quiet, [50, 60, 70], quiet, quiet]);
    assert.equal(summary.p50, 1.1);
    assert.equal(summary.min, 1);
    assert.equal(summary.max, 70);
    assert.equal(summary.batches, 15);
    assert.equal(summary.rounds, 5);
  });

  it('refuse to sum up nothing', () => {
    assert.throws(() => summarize([]), RangeError);
    assert.throws(() => summarize([[], []]), RangeError);
  });
});
