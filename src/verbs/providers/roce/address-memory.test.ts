import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { loadAddon } from '../../../native/load.js';
import { ACCESS_REMOTE_WRITE } from '../../access.js';
import { AtomicOp, AtomicResult } from '../../transport/memory.js';
import { AddressTable } from './address-memory.js';

describe('memory by address', () => {
  const addon = loadAddon();
  const table = new AddressTable(addon, addon.command());
  const memory = new Uint8Array(256);
  const base = addon.addressOf(memory.buffer);
  const bytes = new Uint8Array(300).map((_, i) => i);

  it('copies into and out of a region, in its domain and range alone', () => {
    table.register({ key: 0x101, domain: 1, access: ACCESS_REMOTE_WRITE, address: 1000, length: 64, parts: [base + 32, 64] });
    const view = table.view(1);
    assert.ok(view.check(0x101, 1000, 64, ACCESS_REMOTE_WRITE));
    for (const [key, address, length, access] of [
      [0x102, 1000, 64, 0],
      [0x101, 999, 8, 0],
      [0x101, 1001, 64, 0],
      [0x101, 1000, 8, 4],
    ]) {
      assert.equal(view.check(key, address, length, access), false);
    }
    assert.equal(table.view(2).check(0x101, 1000, 64, 0), false);
    assert.ok(view.write(0x101, 1008, 40, bytes, 100));
    assert.deepEqual(memory.subarray(40, 80), bytes.subarray(100, 140));
    assert.equal(memory[39] + memory[80], 0);
    const out = new Uint8Array(20);
    assert.ok(view.read(0x101, 1010, 10, out, 5));
    assert.deepEqual(out.subarray(5, 15), bytes.subarray(102, 112));
    assert.equal(view.write(0x101, 1030, 40, bytes, 0), false);
    assert.ok(table.revoke(0x101));
    assert.equal(view.read(0x101, 1010, 10, out, 5), false);
  });

  it('walks the parts of a region end to end', () => {
    const parts = [base + 200, 10, base + 100, 1, base + 150, 20];
    table.register({ key: 0x201, domain: 1, access: 0, address: 5000, length: 31, parts });
    const view = table.view(1);
    assert.ok(view.write(0x201, 5000, 31, bytes, 1));
    assert.deepEqual(memory.subarray(200, 210), bytes.subarray(1, 11));
    assert.equal(memory[100], 11);
    assert.deepEqual(memory.subarray(150, 170), bytes.subarray(12, 32));
    const out = new Uint8Array(31);
    for (let from = 0; from < 31; from++) {
      assert.ok(view.read(0x201, 5000 + from, 31 - from, out, from));
      assert.deepEqual(out.subarray(from), bytes.subarray(1 + from, 32));
    }
  });

  it('runs atomics on eight aligned bytes', () => {
    table.register({ key: 0x301, domain: 1, access: 0, address: base, length: 256, parts: [base, 256] });
    const view = table.view(1);
    const words = new BigUint64Array(memory.buffer);
    const found = new AtomicResult();
    words[0] = 0x1_ffffffffn;
    assert.ok(view.atomic(0x301, base, AtomicOp.fetchAdd, 0, 2, 0, 0, found));
    assert.deepEqual([found.hi, found.lo, words[0]], [1, 0xffffffff, 0x2_00000001n]);
    assert.ok(view.atomic(0x301, base, AtomicOp.compareSwap, 7, 8, 9, 9, found));
    assert.equal(words[0], 0x2_00000001n, 'another value than expected');
    assert.ok(view.atomic(0x301, base, AtomicOp.compareSwap, 7, 8, 2, 1, found));
    assert.equal(words[0], 0x7_00000008n);
    assert.equal(view.atomic(0x301, base + 252, AtomicOp.fetchAdd, 0, 1, 0, 0, found), false);
  });
});
