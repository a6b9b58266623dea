import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Model } from '../model.js';
import { embedding } from './embedding.js';
import { linear } from './linear.js';

test('an id outside the table names the sample and the position', () => {
  const model = new Model({ input: [3], layers: [embedding({ vocabulary: 4, columns: 2 })], maxBatch: 2 });
  assert.throws(
    () => model.forward(Int32Array.of(0, 1, 2, 3, 4, 0), 2),
    /0\.embedding: sample 1, position 1: the id is outside 0 \.\. 3/,
  );
});

test('an embedding behind another layer is refused', () => {
  const layers = [linear(3), embedding({ vocabulary: 4, columns: 2 })];
  assert.throws(() => new Model({ input: [3], layers, maxBatch: 1 }), /must be the first layer, not 1\.embedding/);
});
