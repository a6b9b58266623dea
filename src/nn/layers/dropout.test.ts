import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Model } from '../model.js';
import { dropout } from './dropout.js';

const model = new Model({ input: [50], layers: [dropout(0.5)], maxBatch: 2, seed: 9 });
const ones = new Float32Array(100).fill(1);

test('a sample drops the same numbers wherever it stands in the batch', () => {
  const both = model.forward(ones, 2, { training: true, samples: Uint32Array.of(7, 8), step: 1 }).slice();
  const alone = model.forward(ones, 1, { training: true, samples: Uint32Array.of(8), step: 1 }).slice();
  assert.deepEqual(both.subarray(50), alone);
  assert.notDeepEqual(both.subarray(0, 50), alone);
});

test('another step drops other numbers', () => {
  const first = model.forward(ones, 1, { training: true, step: 1 }).slice();
  assert.notDeepEqual(model.forward(ones, 1, { training: true, step: 2 }), first);
});

test('evaluation drops nothing', () => {
  assert.deepEqual(model.forward(ones, 2), ones);
});

test('a rate outside [0, 1) is refused', () => {
  assert.throws(() => dropout(1), /dropout rate must be in \[0, 1\), not 1/);
});
