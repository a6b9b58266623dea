import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from './random.js';

test('equal seeds draw equal numbers, other seeds and streams others', () => {
  const draw = (seed: number, stream?: number) => {
    const random = new Random(seed, stream);
    return [random.word(), random.word(), random.word()];
  };
  assert.deepEqual(draw(1), draw(1));
  assert.notDeepEqual(draw(1), draw(2));
  assert.notDeepEqual(draw(1, 0), draw(1, 1));
});

test('integers are spread evenly and normals have mean 0 and variance 1', () => {
  const random = new Random(8);
  const counts = new Array(6).fill(0);
  for (let i = 0; i < 6000; i++) counts[random.integer(6)]++;
  for (const count of counts) assert.ok(count > 850 && count < 1150, `${counts}`);
  let sum = 0;
  let squares = 0;
  for (let i = 0; i < 20_000; i++) {
    const value = random.normal();
    sum += value;
    squares += value * value;
  }
  assert.ok(Math.abs(sum / 20_000) < 0.03 && Math.abs(squares / 20_000 - 1) < 0.05);
});
