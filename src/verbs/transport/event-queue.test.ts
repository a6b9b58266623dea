import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../providers/sim/random.js';
import { EventQueue } from './event-queue.js';

test('items come out by time, and by order of scheduling at the same time', () => {
  const random = new Random(5);
  const queue = new EventQueue<{ time: number; order: number }>();
  assert.equal(queue.nextTime, Number.POSITIVE_INFINITY);
  const expected: { time: number; order: number }[] = [];
  const taken: { time: number; order: number }[] = [];
  for (let order = 0; order < 3000; order++) {
    const item = { time: random.below(50), order };
    queue.push(item.time, item);
    expected.push(item);
  }
  while (queue.size > 0) {
    const time = queue.nextTime;
    const item = queue.pop();
    assert.equal(item.time, time);
    taken.push(item);
  }
  expected.sort((a, b) => a.time - b.time || a.order - b.order);
  assert.deepEqual(taken, expected);
});
