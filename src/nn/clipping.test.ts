import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clipByGlobalNorm, globalNorm } from './clipping.js';

test('a long gradient is shortened to the bound and keeps its direction', () => {
  const gradient = Float32Array.of(3, 4, 0);
  assert.equal(clipByGlobalNorm(gradient, 1), 5);
  assert.ok(Math.abs(globalNorm(gradient) - 1) < 1e-6);
  assert.ok(Math.abs(gradient[0] / gradient[1] - 0.75) < 1e-6);
});

test('a short gradient stays as it is', () => {
  const gradient = Float32Array.of(3, 4);
  assert.equal(clipByGlobalNorm(gradient, 6), 5);
  assert.deepEqual([...gradient], [3, 4]);
  assert.throws(() => clipByGlobalNorm(gradient, 0), /maxNorm must be above 0/);
});
