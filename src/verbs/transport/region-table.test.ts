import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE } from '../access.js';
import { AtomicOp, AtomicResult } from './memory.js';
import { RegionTable } from './region-table.js';

test('a key opens its own range, domain and rights and nothing else', () => {
  const table = new RegionTable();
  const [one, two] = [table.view(1), table.view(2)];
  const key = table.register(1, new Uint8Array(100), 1000, ACCESS_REMOTE_READ);
  assert.equal(one.check(key, 1000, 100, ACCESS_REMOTE_READ), true);
  assert.equal(one.check(key, 1000, 101, 0), false);
  assert.equal(one.check(key, 999, 1, 0), false);
  assert.equal(one.check(key, -1, 1, 0), false);
  assert.equal(one.check(key, 1000, 1, ACCESS_REMOTE_WRITE), false);
  assert.equal(two.check(key, 1000, 1, 0), false);
  assert.equal(one.check(key + 1, 1000, 1, 0), false);
  assert.equal(one.check(0xffffffff, 1000, 1, 0), false);
});

test('a revoked key stays revoked when its index is used again', () => {
  const table = new RegionTable();
  const memory = table.view(1);
  const old = table.register(1, new Uint8Array(8), 0, 0);
  assert.equal(table.revoke(old), true);
  assert.equal(table.revoke(old), false);
  const young = table.register(1, new Uint8Array(8), 0, 0);
  assert.equal(young >>> 8, old >>> 8);
  assert.equal(memory.check(old, 0, 8, 0), false);
  assert.equal(memory.check(young, 0, 8, 0), true);
  assert.equal(memory.invalidate(young), true);
  assert.equal(memory.invalidate(young), false);
});

test('a region of several parts is one range, read and written across the edges', () => {
  const table = new RegionTable();
  const memory = table.view(1);
  const parts = [new Uint8Array(3), new Uint8Array(200), new Uint8Array(5)];
  const key = table.register(1, parts, 50, 0);
  const data = Uint8Array.from({ length: 208 }, (_, i) => i + 1);
  const flat = () => parts.flatMap((part) => [...part]);
  for (const [offset, length] of [
    [0, 208],
    [2, 3],
    [3, 200],
    [202, 6],
    [207, 1],
  ]) {
    for (const part of parts) part.fill(0);
    assert.equal(memory.write(key, 50 + offset, length, data, 0), true);
    assert.deepEqual(flat().slice(offset, offset + length), [...data.subarray(0, length)]);
    assert.equal(flat().filter((v) => v !== 0).length, length);
    const back = new Uint8Array(length);
    assert.equal(memory.read(key, 50 + offset, length, back, 0), true);
    assert.deepEqual(back, data.slice(0, length));
    assert.deepEqual(
      memory.views(key, 50 + offset, length, 0)?.flatMap((view) => [...view]),
      [...back],
    );
  }
  assert.equal(memory.write(key, 50, 209, data, 0), false);
});

test('atomics carry over 32 bits, and do not cross parts', () => {
  const table = new RegionTable();
  const memory = table.view(1);
  const words = new BigUint64Array([0xffff_ffff_ffffn, 0n]);
  const key = table.register(1, new Uint8Array(words.buffer), 0, 0);
  const found = new AtomicResult();
  assert.equal(memory.atomic(key, 0, AtomicOp.fetchAdd, 0, 1, 0, 0, found), true);
  assert.deepEqual([found.hi, found.lo, words[0]], [0xffff, 0xffffffff, 0x1_0000_0000_0000n]);
  memory.atomic(key, 8, AtomicOp.compareSwap, 1, 2, 0, 0, found);
  assert.equal(words[1], 0x1_0000_0002n);
  memory.atomic(key, 8, AtomicOp.compareSwap, 9, 9, 0, 0, found);
  assert.equal(words[1], 0x1_0000_0002n);
  const split = table.register(1, [new Uint8Array(12), new Uint8Array(12)], 0, 0);
  assert.equal(memory.atomic(split, 8, AtomicOp.fetchAdd, 0, 1, 0, 0, found), false);
});
