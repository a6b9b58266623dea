import assert from 'node:assert/strict';
import { test } from 'node:test';
import { constantRate, cosineRate, stepRate, warmUp } from './learning-rate.js';

test('schedules pass through the points of their definition', () => {
  assert.equal(constantRate(0.1)(1000), 0.1);
  const falling = stepRate(1, { every: 10, factor: 0.5 });
  assert.deepEqual([falling(0), falling(9), falling(10), falling(25)], [1, 1, 0.5, 0.25]);
  const cosine = cosineRate(1, { steps: 100, last: 0.2 });
  assert.equal(cosine(0), 1);
  assert.ok(Math.abs(cosine(50) - 0.6) < 1e-12);
  assert.ok(Math.abs(cosine(100) - 0.2) < 1e-12 && Math.abs(cosine(500) - 0.2) < 1e-12);
});

test('warm-up rises to the start of what follows and then follows it from its beginning', () => {
  const rate = warmUp(stepRate(1, { every: 3, factor: 0.1 }), { steps: 4 });
  assert.deepEqual([0, 1, 2, 3, 4, 6].map(rate), [0.25, 0.5, 0.75, 1, 1, 1]);
  assert.ok(Math.abs(rate(7) - 0.1) < 1e-12);
  assert.throws(() => warmUp(rate, { steps: 0 }), /steps must be an integer of at least 1/);
});
