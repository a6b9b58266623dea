import assert from 'node:assert/strict';
import { test } from 'node:test';
import { suggestInterval } from './interval.js';

test("Young's interval is sqrt(2 d M), and Daly's close to it when checkpoints are cheap", () => {
  const { youngSeconds, dalySeconds, lostShare } = suggestInterval({
    checkpointSeconds: 1,
    workerMtbfSeconds: 20_000,
    workers: 4,
  });
  assert.equal(youngSeconds, 100);
  assert.ok(Math.abs(dalySeconds - 99.34) < 0.01, `${dalySeconds}`);
  assert.ok(lostShare > 0.019 && lostShare < 0.021, `${lostShare}`);
});

test('a checkpoint that costs more than a failure is hardly worth writing', () => {
  assert.equal(suggestInterval({ checkpointSeconds: 100, workerMtbfSeconds: 30 }).dalySeconds, 30);
  assert.throws(() => suggestInterval({ checkpointSeconds: 0, workerMtbfSeconds: 30 }), RangeError);
});
