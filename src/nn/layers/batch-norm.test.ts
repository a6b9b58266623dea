import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Model } from '../model.js';
import { Random } from '../random.js';
import { batchNorm } from './batch-norm.js';

const SHAPE = [2, 3];

function numbers(count: number): Float32Array {
  const random = new Random(5);
  return Float32Array.from({ length: count }, () => 3 + 2 * random.normal());
}

test('two ranks that reduce their statistics normalise as one rank with both batches', () => {
  const x = numbers(4 * 6);
  const r = numbers(4 * 6);
  const whole = new Model({ input: SHAPE, layers: [batchNorm()], maxBatch: 4, inputGradient: true });
  const y = whole.forward(x, 4, { training: true }).slice();
  const dx = whole.backward(r.slice())!.slice();

  // Each rank's own sums are recorded first; then each gets the total of both.
  const ranks = [0, 1].map(() => new Model({ input: SHAPE, layers: [batchNorm()], maxBatch: 2, inputGradient: true }));
  const half = (array: Float32Array, rank: number) => array.slice(rank * 12, rank * 12 + 12);
  const sums: Float64Array[] = [];
  const record = (values: Float64Array) => {
    sums.push(values.slice());
  };
  const total = (values: Float64Array) => {
    for (let i = 0; i < values.length; i++) values[i] = sums[0][i] + sums[1][i];
  };
  const state = ranks[0].state.slice();
  for (const rank of [0, 1]) ranks[rank].forward(half(x, rank), 2, { training: true, reduce: record });
  ranks.forEach((model) => {
    model.state.set(state);
  });
  const out = [0, 1].map((rank) => ranks[rank].forward(half(x, rank), 2, { training: true, reduce: total }).slice());
  close(Float32Array.from([...out[0], ...out[1]]), y);
  close(ranks[0].state, whole.state);

  // Backward: the sums of dy and dy x normalised x are the gradients of shift and gain, here with the statistics of both.
  const backSums: Float64Array[] = [];
  const parts = [0, 1].map((rank) => {
    let calls = 0;
    ranks[rank].forward(half(x, rank), 2, {
      training: true,
      reduce: (values) => {
        if (calls++ === 0) total(values);
        else backSums.push(values.slice());
      },
    });
    ranks[rank].backward(half(r, rank));
    return ranks[rank].gradients.slice();
  });
  close(
    parts[0].map((value, i) => value + parts[1][i]),
    whole.gradients,
  );
  const gradients = [0, 1].map((rank) => {
    let calls = 0;
    ranks[rank].forward(half(x, rank), 2, {
      training: true,
      reduce: (values) => {
        if (calls++ === 0) total(values);
        else for (let i = 0; i < values.length; i++) values[i] = backSums[0][i] + backSums[1][i];
      },
    });
    return ranks[rank].backward(half(r, rank))!.slice();
  });
  close(Float32Array.from([...gradients[0], ...gradients[1]]), dx);
});

test('evaluation uses the running averages and leaves them alone', () => {
  const model = new Model({ input: SHAPE, layers: [batchNorm({ momentum: 1 })], maxBatch: 4 });
  const x = numbers(24);
  const trained = model.forward(x, 4, { training: true }).slice();
  const state = model.state.slice();
  const evaluated = model.forward(x, 4);
  assert.deepEqual(model.state, state);
  // The running variance is the unbiased one: 12 numbers a channel.
  const factor = Math.sqrt(11 / 12);
  close(
    evaluated,
    trained.map((value) => value * factor),
  );
});

function close(actual: Float32Array, expected: Float32Array): void {
  assert.equal(actual.length, expected.length);
  actual.forEach((value, i) => {
    assert.ok(Math.abs(value - expected[i]) < 1e-4, `element ${i}: ${value}, expected ${expected[i]}`);
  });
}
