/**
 * Every layer's backward against differences of its forward.
 *
 * A model of the layer alone is projected on a random vector r: L = sum of r x output. Backward of r must give dL/dp for each parameter and each
 * input; the difference quotient (L(p + h) - L(p - h)) / 2h must agree to f32 rounding.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LayerSpec, Shape } from '../layer.js';
import { sizeOf } from '../layer.js';
import { Model } from '../model.js';
import { Random } from '../random.js';
import { gelu, relu } from './activation.js';
import { batchNorm } from './batch-norm.js';
import { conv2d } from './conv2d.js';
import { dropout } from './dropout.js';
import { embedding } from './embedding.js';
import { flatten } from './flatten.js';
import { layerNorm } from './layer-norm.js';
import { linear } from './linear.js';
import { averagePool, maxPool } from './pooling.js';

const seed = Number(process.env['VERBENA_SEED'] ?? 42);
const BATCH = 3;
const H = 1e-2;

/** Distinct multiples of 0.1, none within H of zero or of each other: no kink of a ReLU or a maximum lies between p - h and p + h. */
function apart(count: number, random: Random): Float32Array {
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  random.shuffle(order);
  return Float32Array.from(order, (place) => (place - count / 2 + 0.25) * 0.1 * Math.min(1, 40 / count));
}

interface Case {
  title: string;
  input: Shape;
  layers: LayerSpec[];
  ids?: number;
}

const cases: Case[] = [
  { title: 'linear', input: [5], layers: [linear(4)] },
  { title: 'linear over the last dimension, without bias', input: [2, 5], layers: [linear(3, { bias: false })] },
  { title: 'conv2d with padding', input: [2, 5, 6], layers: [conv2d({ filters: 3, kernel: 3, padding: 1 })] },
  { title: 'conv2d without padding', input: [1, 6, 6], layers: [conv2d({ filters: 2, kernel: 5 })] },
  { title: 'conv2d with stride 2', input: [2, 7, 6], layers: [conv2d({ filters: 3, kernel: 3, padding: 1, stride: 2 })] },
  { title: 'max pooling', input: [2, 4, 4], layers: [maxPool(2)] },
  { title: 'max pooling with overlap', input: [1, 5, 5], layers: [maxPool(3, { stride: 1 })] },
  { title: 'average pooling', input: [2, 5, 4], layers: [averagePool(2)] },
  { title: 'ReLU', input: [11], layers: [relu()] },
  { title: 'GELU', input: [11], layers: [gelu()] },
  { title: 'layer norm', input: [3, 6], layers: [layerNorm()] },
  { title: 'batch norm of images', input: [3, 2, 3], layers: [batchNorm()] },
  { title: 'batch norm of vectors', input: [4], layers: [batchNorm()] },
  { title: 'dropout', input: [13], layers: [dropout(0.4)] },
  { title: 'flatten', input: [2, 3], layers: [flatten()] },
  { title: 'embedding and linear', input: [4], layers: [embedding({ vocabulary: 6, columns: 3 }), linear(2)], ids: 6 },
  {
    title: 'a small network',
    input: [1, 6, 6],
    layers: [conv2d({ filters: 2, kernel: 3, padding: 1 }), gelu(), averagePool(2), flatten(), layerNorm(), linear(3)],
  },
];

for (const { title, input, layers, ids } of cases) {
  test(`the gradient of ${title} is the slope of its forward`, () => {
    const random = new Random(seed, 7);
    const model = new Model({ input, layers, maxBatch: BATCH, seed, inputGradient: ids === undefined });
    const size = BATCH * sizeOf(input);
    const x = ids === undefined ? apart(size, random) : Int32Array.from({ length: size }, () => random.integer(ids));
    for (let i = 0; i < model.parameters.length; i++) model.parameters[i] += 0.3 * random.normal();
    const r = Float32Array.from({ length: BATCH * sizeOf(model.outputShape) }, () => random.normal());
    const options = { training: true, step: 3 };
    const value = () => {
      const y = model.forward(x, BATCH, options);
      return y.reduce((sum, output, i) => sum + output * r[i], 0);
    };
    value();
    const dx = model.backward(r.slice());
    const inputs = ids === undefined ? [{ what: 'input', values: x, slopes: dx! }] : [];
    for (const { what, values, slopes } of [
      { what: 'parameter', values: model.parameters, slopes: model.gradients },
      ...inputs,
    ]) {
      const expected = slopes.slice();
      for (let i = 0; i < values.length; i++) {
        const kept = values[i];
        values[i] = kept + H;
        const above = value();
        values[i] = kept - H;
        const below = value();
        values[i] = kept;
        const slope = (above - below) / (2 * H);
        const near = Math.abs(slope - expected[i]) <= 4e-3 + 2e-2 * Math.abs(slope);
        assert.ok(near, `${what} ${i}: backward ${expected[i]}, difference ${slope} (seed ${seed})`);
      }
    }
  });
}
