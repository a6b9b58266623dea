import assert from 'node:assert/strict';
import { it } from 'node:test';
import { StoreTable } from './table.js';

it('a caller that went away does not count at a barrier', async () => {
  const table = new StoreTable();
  const missing = () => '';
  table.barrier('door', 'rank 0', 2, 10_000, missing).cancel();
  await assert.rejects(table.barrier('door', 'rank 1', 2, 20, missing).done, /1 of 2/);
});

it('waiting calls are bounded, and a place is free again when one has its answer', async () => {
  const table = new StoreTable({ maxWaiters: 2 });
  const first = table.wait('a', 10_000);
  const second = table.wait('b', 10_000);
  assert.throws(() => table.wait('c', 10_000), /2 calls wait/);
  table.set('a', new Uint8Array([1]));
  assert.deepEqual([...(await first.done)], [1]);
  const third = table.wait('c', 10_000);
  second.cancel();
  third.cancel();
});

it('the bytes of keys, values and entries are counted, and given back', () => {
  const table = new StoreTable({ maxBytes: 300 });
  table.set('key', new Uint8Array(100));
  assert.equal(table.bytes, 167);
  table.set('key', new Uint8Array(10));
  assert.equal(table.bytes, 77);
  assert.throws(() => table.set('other', new Uint8Array(200)), { code: 'LAUNCH_FULL' });
  table.delete('key');
  assert.equal(table.bytes, 0);
});

it('a barrier needs the same count from everybody, and each caller once', () => {
  const table = new StoreTable();
  const pending = table.barrier('door', 'rank 0', 3, 10_000, () => '');
  assert.throws(() => table.barrier('door', 'rank 1', 2, 10_000, () => ''), /waits for 3 .* count of 2/);
  assert.throws(() => table.barrier('door', 'rank 0', 3, 10_000, () => ''), /already/);
  pending.cancel();
});
