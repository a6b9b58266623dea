/** A whole program on the public names of the nn layer: a model with every kind of vector layer learns two interleaved half circles. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as nn from '../../src/nn/index.js';

const COUNT = 256;

function moons(seed: number): { points: Float32Array; labels: Int32Array } {
  const random = new nn.Random(seed);
  const points = new Float32Array(2 * COUNT);
  const labels = new Int32Array(COUNT);
  for (let i = 0; i < COUNT; i++) {
    const angle = Math.PI * random.uniform();
    labels[i] = i % 2;
    points[2 * i] = (labels[i] === 0 ? Math.cos(angle) : 1 - Math.cos(angle)) + 0.1 * random.normal();
    points[2 * i + 1] = (labels[i] === 0 ? Math.sin(angle) : 0.5 - Math.sin(angle)) + 0.1 * random.normal();
  }
  return { points, labels };
}

const LAYERS = () => [
  nn.linear(16),
  nn.batchNorm(),
  nn.relu(),
  nn.linear(16),
  nn.layerNorm(),
  nn.gelu(),
  nn.dropout(0.1),
  nn.linear(2),
];

const OPTIMIZERS: Record<string, [make: (model: nn.Model) => nn.Optimizer, rate: number]> = {
  sgd: [(model) => new nn.Sgd(model, { momentum: 0.9, nesterov: true, weightDecay: 1e-4 }), 0.05],
  adam: [(model) => new nn.Adam(model), 0.01],
  adamw: [(model) => new nn.AdamW(model), 0.01],
  lamb: [(model) => new nn.Lamb(model), 0.02],
};

for (const [name, [make, rate]] of Object.entries(OPTIMIZERS)) {
  test(`${name} learns two moons with norms, dropout, warm-up and clipping`, (context) => {
    const blas: nn.BlasChoice = nn.selectBlas('auto');
    context.diagnostic(`matrix product: ${blas.implementation}, vectors of ${blas.lanes}`);
    const { points, labels } = moons(1);
    const model = new nn.Model({ input: [2], layers: LAYERS(), maxBatch: COUNT, seed: 3 });
    const optimizer = make(model);
    const learningRate = nn.warmUp(nn.cosineRate(rate, { steps: 190 }), { steps: 10 });
    const gradient = new Float32Array(2 * COUNT);
    for (let step = 0; step < 200; step++) {
      const logits = model.forward(points, COUNT, { training: true, step });
      nn.softmaxCrossEntropy(logits, labels, COUNT, gradient);
      model.backward(gradient);
      nn.clipByGlobalNorm(model.gradients, 5);
      optimizer.step(learningRate(step));
    }
    const unseen = moons(2);
    const { correct } = nn.softmaxCrossEntropy(model.forward(unseen.points, COUNT), unseen.labels, COUNT);
    assert.ok(correct / COUNT > 0.95, `${name}: ${correct} of ${COUNT} right`);
  });
}
