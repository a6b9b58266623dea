import assert from 'node:assert/strict';
import { test } from 'node:test';
import { STATUS } from '../status.js';
import { End } from './pair.test.fixture.js';
import { SendFlag, SendQueue, SendWork } from './send-queue.js';

test('a queue takes as many requests as its depth, and gives the slots back in order', () => {
  const queue = new SendQueue({ depth: 5, maxSge: 2, maxInline: 8 });
  const host = new End(64, 8);
  const work = new SendWork(2);
  for (let round = 0; round < 20; round++) {
    for (let i = 0; i < 5; i++) {
      work.id = round * 10 + i;
      assert.equal(queue.push(work), true);
    }
    assert.equal(queue.push(work), false);
    assert.equal(queue.count, 5);
    for (let i = 0; i < 5; i++) queue.complete(host, STATUS.SUCCESS);
    assert.deepEqual(
      host.sent.splice(0).map((c) => c.id),
      [0, 1, 2, 3, 4].map((i) => round * 10 + i),
    );
  }
});

test('only what asks for a completion, or fails, is reported', () => {
  const queue = new SendQueue({ depth: 4, maxSge: 1, maxInline: 0 });
  const host = new End(64, 8);
  const work = new SendWork(1);
  for (const [id, flags] of [
    [1, 0],
    [2, SendFlag.signaled],
    [3, 0],
  ]) {
    Object.assign(work, { id, flags });
    queue.push(work);
  }
  queue.complete(host, STATUS.SUCCESS);
  queue.complete(host, STATUS.SUCCESS);
  queue.flush(host);
  assert.deepEqual(
    host.sent.map((c) => [c.id, c.status]),
    [
      [2, STATUS.SUCCESS],
      [3, STATUS.WR_FLUSH_ERR],
    ],
  );
});

test('gather and scatter cross the elements of the list at every offset', () => {
  const end = new End(4096, 8);
  const work = new SendWork(4);
  const pieces = [
    [100, 3],
    [50, 0],
    [900, 10],
    [300, 7],
  ];
  work.sgeCount = 4;
  for (const [i, [at, length]] of pieces.entries()) {
    work.sgeAddress[i] = end.base + at;
    work.sgeLength[i] = length;
    work.sgeKey[i] = end.key;
    for (let k = 0; k < length; k++) end.bytes[at + k] = at + k;
  }
  const flat = pieces.flatMap(([at, length]) => [...end.bytes.subarray(at, at + length)]);
  const queue = new SendQueue({ depth: 1, maxSge: 4, maxInline: 0 });
  queue.push(work);
  assert.equal(queue.length[0], 20);
  for (let offset = 0; offset <= 20; offset++) {
    for (let length = 0; offset + length <= 20; length++) {
      const out = new Uint8Array(length);
      assert.equal(queue.gather(end.memory, 0, offset, length, out, 0), true);
      assert.deepEqual([...out], flat.slice(offset, offset + length));
    }
  }
  queue.scatter(end.memory, 0, 2, 12, new Uint8Array(12).fill(7), 0);
  assert.deepEqual(
    pieces.flatMap(([at, length]) => [...end.bytes.subarray(at, at + length)]),
    [...flat.slice(0, 2), ...Array<number>(12).fill(7), ...flat.slice(14)],
  );
  assert.equal(queue.gather(end.memory, 0, 15, 6, new Uint8Array(6), 0), false, 'more than there is');
});

test('one thread may post while another takes: the ring lives in shared memory', () => {
  const options = { depth: 3, maxSge: 1, maxInline: 16 };
  const shared = new SharedArrayBuffer(SendQueue.byteLength(options) + 8);
  const producer = new SendQueue(options, shared, 8);
  const consumer = new SendQueue(options, shared, 8);
  const work = new SendWork(1);
  Object.assign(work, { id: -5, opcode: 3, remoteAddress: 2 ** 50, inlineData: Uint8Array.of(9, 8, 7) });
  producer.push(work);
  const out = new Uint8Array(3);
  const end = new End(64, 8);
  assert.deepEqual([consumer.count, consumer.id[0], consumer.opcode[0], consumer.remoteAddress[0]], [1, -5, 3, 2 ** 50]);
  consumer.gather(end.memory, 0, 0, 3, out, 0);
  assert.deepEqual([...out], [9, 8, 7]);
  consumer.clear();
  assert.equal(producer.count, 0);
});
