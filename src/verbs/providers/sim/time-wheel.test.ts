import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from './random.js';
import { TimeWheel } from './time-wheel.js';

test('items come out by time, near and far, and by order of scheduling at the same time', () => {
  const random = new Random(5);
  const wheel = new TimeWheel<{ time: number; order: number }>();
  assert.equal(wheel.nextTime, Number.POSITIVE_INFINITY);
  const taken: { time: number; order: number }[] = [];
  let now = 0;
  let order = 0;
  const schedule = (): void => {
    const reach = [2, 50, 40_000, 3_000_000, 5e9][random.below(5)];
    const item = { time: now + random.below(reach), order: order++ };
    wheel.push(item.time, item);
  };
  while (order < 20_000 || wheel.size > 0) {
    for (let n = random.below(4); n > 0 && order < 20_000; n--) schedule();
    if (wheel.size === 0) continue;
    now = wheel.nextTime;
    const item = wheel.pop();
    assert.equal(item.time, now);
    taken.push(item);
  }
  assert.equal(taken.length, order);
  for (let i = 1; i < taken.length; i++) {
    const [a, b] = [taken[i - 1], taken[i]];
    assert.ok(a.time < b.time || (a.time === b.time && a.order < b.order), `item ${i}`);
  }
});

test('a time that has passed counts as now, a fraction as the next nanosecond', () => {
  const wheel = new TimeWheel<string>();
  wheel.push(100, 'a');
  wheel.pop();
  wheel.push(100.25, 'c');
  wheel.push(3, 'b');
  assert.equal(wheel.nextTime, 100);
  assert.equal(wheel.pop(), 'b');
  assert.equal(wheel.nextTime, 101);
  assert.equal(wheel.pop(), 'c');
});
