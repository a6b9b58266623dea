import assert from 'node:assert/strict';
import { test } from 'node:test';
import { digitCnn } from './architectures.js';
import { constant, heUniform, xavierNormal, xavierUniform } from './initializers.js';
import { relu } from './layers/activation.js';
import { conv2d } from './layers/conv2d.js';
import { flatten } from './layers/flatten.js';
import { linear } from './layers/linear.js';
import { maxPool } from './layers/pooling.js';
import { Model } from './model.js';
import { Random } from './random.js';

function numbers(count: number, stream: number): Float32Array {
  const random = new Random(1, stream);
  return Float32Array.from({ length: count }, () => random.normal());
}

test('parameters of all layers lie one behind the other in the memory that was given', () => {
  const given = new Map<string, Float32Array>();
  const buffer = new ArrayBuffer(4 * 40_000);
  const model = new Model({
    input: [1, 28, 28],
    layers: digitCnn(),
    maxBatch: 1,
    memory(floats, what) {
      const memory = new Float32Array(buffer, what === 'parameters' ? 64 : 4 * 40_000 - 4 * floats, floats).fill(0);
      given.set(what, memory);
      return what === 'parameters' ? memory : new Float32Array(floats);
    },
  });
  assert.equal(model.parameters, given.get('parameters'));
  const names = ['0.conv2d.weight', '0.conv2d.bias', '3.conv2d.weight', '3.conv2d.bias', '7.linear.weight', '7.linear.bias'];
  assert.deepEqual(
    model.ranges.map(({ name }) => name),
    names,
  );
  const ends = model.ranges.map(({ to }) => to);
  assert.deepEqual(ends, [400, 416, 416 + 12_800, 13_248, 13_248 + 15_680, 28_938]);
  assert.equal(model.parameters.length, 28_938);
});

test('backward tells ranges as they become final, from the last layer to the first, and together they are everything', () => {
  const model = new Model({ input: [1, 28, 28], layers: digitCnn(), maxBatch: 2 });
  model.forward(numbers(2 * 784, 1), 2, { training: true });
  const told: [number, number][] = [];
  const snapshots: Float32Array[] = [];
  model.backward(numbers(20, 2), {
    onGradient(from, to) {
      told.push([from, to]);
      snapshots.push(model.gradients.slice(from, to));
    },
  });
  assert.deepEqual(told, [
    [13_248, 28_938],
    [416, 13_248],
    [0, 416],
  ]);
  told.forEach(([from, to], i) => {
    assert.deepEqual(model.gradients.slice(from, to), snapshots[i], 'a range that was told does not change any more');
  });
});

test('two accumulated halves give the gradient of the whole batch', () => {
  const layers = () => [conv2d({ filters: 3, kernel: 3 }), maxPool(2), relu(), flatten(), linear(4)];
  const model = new Model({ input: [1, 8, 8], layers: layers(), maxBatch: 4 });
  const x = numbers(4 * 64, 3);
  const r = numbers(16, 4);
  model.forward(x, 4, { training: true });
  model.backward(r.slice());
  const whole = model.gradients.slice();
  model.forward(x, 2, { training: true });
  model.backward(r.slice(0, 8));
  model.forward(x.subarray(128), 2, { training: true });
  model.backward(r.slice(8), { accumulate: true });
  whole.forEach((value, i) => {
    assert.ok(Math.abs(value - model.gradients[i]) < 1e-4, `gradient ${i}: ${model.gradients[i]}, expected ${value}`);
  });
});

test('a ReLU never writes over the input of the model', () => {
  const model = new Model({ input: [4], layers: [flatten(), relu(), linear(2)], maxBatch: 1 });
  const x = Float32Array.of(-1, 2, -3, 4);
  model.forward(x, 1);
  assert.deepEqual([...x], [-1, 2, -3, 4]);
});

test('equal seeds give equal models, other seeds others', () => {
  const make = (seed: number) => new Model({ input: [4], layers: [linear(3)], maxBatch: 1, seed }).parameters;
  assert.deepEqual(make(5), make(5));
  assert.notDeepEqual(make(5), make(6));
});

test('initialisers have the variance of their name', () => {
  const variance = (initial: typeof heUniform) => {
    const { parameters } = new Model({ input: [300], layers: [linear(100, { bias: false, initial })], maxBatch: 1 });
    return parameters.reduce((sum, value) => sum + value * value, 0) / parameters.length;
  };
  assert.ok(Math.abs(variance(heUniform) * 150 - 1) < 0.05);
  assert.ok(Math.abs(variance(xavierUniform) * 200 - 1) < 0.05);
  assert.ok(Math.abs(variance(xavierNormal) * 200 - 1) < 0.05);
  assert.equal(variance(constant(0.5)), 0.25);
});

test('mistakes are refused with the layer or the size they are in', () => {
  assert.throws(
    () => new Model({ input: [10], layers: [linear(4), conv2d({ filters: 1, kernel: 3 })], maxBatch: 1 }),
    /layer 1\.conv2d: conv2d takes \[channels, height, width\], not \[4\]/,
  );
  const model = new Model({ input: [3], layers: [linear(2)], maxBatch: 2 });
  assert.throws(() => model.backward(new Float32Array(4)), /backward needs a forward/);
  assert.throws(() => model.forward(new Float32Array(9), 3), /a batch of 3 is larger than maxBatch 2/);
  assert.throws(() => model.forward(new Float32Array(5), 2), /2 samples are 6 numbers; the input has 5/);
  model.forward(new Float32Array(6), 2);
  assert.throws(() => model.backward(new Float32Array(3)), /4 numbers, not 3/);
  assert.throws(
    () => new Model({ input: [3], layers: [linear(2)], maxBatch: 1, memory: () => new Float32Array(1) }),
    /1 floats instead of 8/,
  );
});
