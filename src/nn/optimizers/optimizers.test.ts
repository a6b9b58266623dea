/** Each optimizer against its formula, written plainly in f64, over several steps on tensors with and without decay. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../random.js';
import { Adam, AdamW } from './adam.js';
import { Lamb } from './lamb.js';
import type { Optimizer, Trained } from './optimizer.js';
import { Sgd } from './sgd.js';

const N = 37;
const SPLIT = 30;
const STEPS = 5;
const RATE = 0.05;

function subject(): Trained {
  const random = new Random(3);
  return {
    parameters: Float32Array.from({ length: N }, () => random.normal()),
    gradients: new Float32Array(N),
    ranges: [
      { name: 'weight', shape: [SPLIT], from: 0, to: SPLIT, decay: true },
      { name: 'bias', shape: [N - SPLIT], from: SPLIT, to: N, decay: false },
    ],
  };
}

/** Runs both and compares. `plain` updates all parameters of one range, in f64. */
function compare(
  make: (trained: Trained) => Optimizer,
  plain: (range: { p: number[]; g: number[]; m: number[]; v: number[]; decay: boolean; t: number }) => void,
): void {
  const trained = subject();
  const optimizer = make(trained);
  const ranges = trained.ranges.map(({ from, to, decay }) => {
    const zeros = () => Array.from({ length: to - from }, () => 0);
    return { from, to, decay, p: [...trained.parameters.slice(from, to)], m: zeros(), v: zeros() };
  });
  const random = new Random(4);
  for (let t = 1; t <= STEPS; t++) {
    for (let i = 0; i < N; i++) trained.gradients[i] = random.normal();
    for (const { from, to, ...range } of ranges) plain({ ...range, g: [...trained.gradients.slice(from, to)], t });
    optimizer.step(RATE);
  }
  assert.equal(optimizer.steps, STEPS);
  for (const { from, p } of ranges) {
    p.forEach((value, i) => {
      assert.ok(
        Math.abs(value - trained.parameters[from + i]) < 1e-5,
        `parameter ${from + i}: ${trained.parameters[from + i]}, expected ${value}`,
      );
    });
  }
}

test('SGD without momentum', () => {
  compare(
    (trained) => new Sgd(trained, { weightDecay: 0.1 }),
    ({ p, g, decay }) =>
      p.forEach((value, i) => {
        p[i] = value - RATE * (g[i] + (decay ? 0.1 : 0) * value);
      }),
  );
});

for (const nesterov of [false, true]) {
  test(`SGD with momentum${nesterov ? ', Nesterov' : ''}`, () => {
    compare(
      (trained) => new Sgd(trained, { momentum: 0.9, nesterov, weightDecay: 0.1 }),
      ({ p, g, v, decay }) =>
        p.forEach((value, i) => {
          const slope = g[i] + (decay ? 0.1 : 0) * value;
          v[i] = 0.9 * v[i] + slope;
          p[i] = value - RATE * (nesterov ? slope + 0.9 * v[i] : v[i]);
        }),
    );
  });
}

const corrected = (m: number, v: number, t: number, epsilon: number) =>
  m / (1 - 0.9 ** t) / (Math.sqrt(v / (1 - 0.999 ** t)) + epsilon);

for (const decoupled of [false, true]) {
  test(decoupled ? 'AdamW takes decay off the parameter' : 'Adam adds decay to the gradient', () => {
    compare(
      (trained) => (decoupled ? new AdamW(trained, { weightDecay: 0.1 }) : new Adam(trained, { weightDecay: 0.1 })),
      ({ p, g, m, v, decay, t }) =>
        p.forEach((value, i) => {
          const rate = decay ? 0.1 : 0;
          const slope = g[i] + (decoupled ? 0 : rate * value);
          m[i] = 0.9 * m[i] + 0.1 * slope;
          v[i] = 0.999 * v[i] + 0.001 * slope * slope;
          p[i] = value - RATE * ((decoupled ? rate * value : 0) + corrected(m[i], v[i], t, 1e-8));
        }),
    );
  });
}

test('LAMB steps as far as the tensor is long', () => {
  compare(
    (trained) => new Lamb(trained, { weightDecay: 0.1 }),
    ({ p, g, m, v, decay, t }) => {
      const direction = p.map((value, i) => {
        m[i] = 0.9 * m[i] + 0.1 * g[i];
        v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
        return corrected(m[i], v[i], t, 1e-6) + (decay ? 0.1 * value : 0);
      });
      const length = (values: number[]) => Math.sqrt(values.reduce((sum, x) => sum + x * x, 0));
      const trust = decay ? length(p) / length(direction) : 1;
      p.forEach((value, i) => {
        p[i] = value - RATE * trust * direction[i];
      });
    },
  );
});

test('an optimizer that is given its state and step count continues as if it had never stopped', () => {
  const [one, other] = [subject(), subject()];
  const straight = new AdamW(one);
  const first = new AdamW(other);
  one.gradients.fill(0.5);
  other.gradients.fill(0.5);
  for (let i = 0; i < 4; i++) straight.step(RATE);
  for (let i = 0; i < 2; i++) first.step(RATE);
  const second = new AdamW(other);
  second.state.set(first.state);
  second.steps = first.steps;
  for (let i = 0; i < 2; i++) second.step(RATE);
  assert.deepEqual(other.parameters, one.parameters);
});

test('options outside their range are refused', () => {
  assert.throws(() => new Sgd(subject(), { momentum: 1 }), /momentum must be in \[0, 1\), not 1/);
  assert.throws(() => new Sgd(subject(), { nesterov: true }), /nesterov needs momentum/);
  assert.throws(() => new Adam(subject(), { beta2: -0.1 }), /beta2 must be in/);
});
