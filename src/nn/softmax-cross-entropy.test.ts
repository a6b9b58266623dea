import assert from 'node:assert/strict';
import { test } from 'node:test';
import { softmaxCrossEntropy } from './softmax-cross-entropy.js';

test('the loss is the negative logarithm of the label share, and its gradient the slope', () => {
  const logits = Float32Array.of(1, 2, 0.5, -1, 0, 3);
  const labels = Int32Array.of(1, 0);
  const gradient = new Float32Array(6);
  const { lossSum, correct } = softmaxCrossEntropy(logits, labels, 2, gradient);
  const share = (row: number[], label: number) => Math.exp(row[label]) / row.reduce((sum, x) => sum + Math.exp(x), 0);
  assert.ok(Math.abs(lossSum + Math.log(share([1, 2, 0.5], 1)) + Math.log(share([-1, 0, 3], 0))) < 1e-6);
  assert.equal(correct, 1);
  for (let i = 0; i < 6; i++) {
    const moved = (by: number) => softmaxCrossEntropy(logits.with(i, logits[i] + by), labels, 2).lossSum / 2;
    const slope = (moved(1e-2) - moved(-1e-2)) / 2e-2;
    assert.ok(Math.abs(slope - gradient[i]) < 1e-3, `logit ${i}: ${gradient[i]}, difference ${slope}`);
  }
});

test('huge logits do not overflow', () => {
  const { lossSum } = softmaxCrossEntropy(Float32Array.of(1e30, -1e30), Int32Array.of(0), 1);
  assert.equal(lossSum, 0);
});

test('a label that is no class is named', () => {
  assert.throws(() => softmaxCrossEntropy(new Float32Array(4), Int32Array.of(0, 2), 2), /label 2 of sample 1 is not in 0 \.\. 1/);
});
