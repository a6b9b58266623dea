import assert from 'node:assert/strict';
import { test } from 'node:test';
import { End } from './pair.test.fixture.js';
import { ReceiveQueue, ReceiveWork } from './receive-queue.js';

test('requests come out in the order they were posted, whole, and the ring wraps', () => {
  const queue = new ReceiveQueue({ depth: 3, maxSge: 2 });
  const [posted, taken] = [new ReceiveWork(2), new ReceiveWork(2)];
  for (let id = 0; id < 100; id++) {
    Object.assign(posted, { id, sgeCount: 1 + (id % 2) });
    posted.sgeAddress.set([id * 1000, id * 1000 + 500]);
    posted.sgeLength.set([10, 20]);
    posted.sgeKey.set([id, id + 1]);
    assert.equal(queue.push(posted), true);
    if (id % 3 !== 2) continue;
    assert.equal(queue.push(posted), false, 'full');
    for (let k = id - 2; k <= id; k++) {
      assert.equal(queue.take(taken), true);
      assert.deepEqual([taken.id, taken.sgeCount, taken.length], [k, 1 + (k % 2), k % 2 ? 30 : 10]);
      assert.equal(taken.sgeAddress[0], k * 1000);
    }
    assert.equal(queue.take(taken), false);
  }
});

test('clear drops everything', () => {
  const queue = new ReceiveQueue({ depth: 4, maxSge: 1 });
  queue.push(new ReceiveWork(1));
  queue.clear();
  assert.equal(queue.count, 0);
});

test('scatter fills the elements one after the other', () => {
  const end = new End(1024, 8);
  const work = new ReceiveWork(3);
  Object.assign(work, { sgeCount: 3, length: 9 });
  work.sgeAddress.set([end.base + 10, end.base + 100, end.base + 200]);
  work.sgeLength.set([4, 0, 5]);
  work.sgeKey.fill(end.key);
  assert.equal(work.scatter(end.memory, 2, Uint8Array.of(1, 2, 3, 4, 5), 0, 5), true);
  assert.deepEqual([...end.bytes.subarray(10, 15)], [0, 0, 1, 2, 0]);
  assert.deepEqual([...end.bytes.subarray(200, 205)], [3, 4, 5, 0, 0]);
  assert.equal(work.scatter(end.memory, 5, new Uint8Array(5), 0, 5), false, 'more than fits');
});
