import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ImageDataset } from './image-dataset.js';

const images = { shape: [3, 1, 2], data: Uint8Array.of(0, 255, 51, 102, 153, 204) };
const labels = { shape: [3], data: Uint8Array.of(7, 8, 9) };
const data = new ImageDataset(images, labels, { mean: 0.5, deviation: 0.25 });

test('a batch holds the chosen images, normalised, and their labels', () => {
  const pixels = new Float32Array(4);
  const answers = new Int32Array(2);
  data.read(Uint32Array.of(2, 0), pixels, answers);
  [0.4, 1.2, -2, 2].forEach((expected, i) => {
    assert.ok(Math.abs(pixels[i] - expected) < 1e-6, `pixel ${i}: ${pixels[i]}`);
  });
  assert.deepEqual([...answers], [9, 7]);
});

test('a sample that is not there, arrays that are too short and labels that do not fit are refused', () => {
  assert.throws(() => data.read(Uint32Array.of(3), new Float32Array(2), new Int32Array(1)), /no sample 3 among 3/);
  assert.throws(() => data.read(Uint32Array.of(1), new Float32Array(1), new Int32Array(1)), /need 2 floats and 1 labels/);
  assert.throws(() => new ImageDataset(images, { shape: [2], data: labels.data }, { mean: 0, deviation: 1 }), /as many labels/);
});
