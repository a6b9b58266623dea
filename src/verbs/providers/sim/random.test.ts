import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from './random.js';

test('a seed gives the same numbers every time, and another seed others', () => {
  const take = (seed: number) =>
    Array.from(
      { length: 5 },
      (
        (r) => () =>
          r.u32()
      )(new Random(seed)),
    );
  assert.deepEqual(take(7), take(7));
  assert.notDeepEqual(take(7), take(8));
  assert.deepEqual(take(1), [393288148, 2174103013, 3814759091, 2092745082, 1865176206]);
});

test('ranges are kept and used up', () => {
  const r = new Random(3);
  const seen = new Set<number>();
  for (let i = 0; i < 1000; i++) seen.add(r.between(5, 9));
  assert.deepEqual([...seen].sort(), [5, 6, 7, 8, 9]);
  let hits = 0;
  for (let i = 0; i < 100_000; i++) if (r.chance(10_000)) hits++;
  assert.ok(hits > 800 && hits < 1200, `${hits} of about 1000`);
  assert.equal(r.chance(0), false);
});
