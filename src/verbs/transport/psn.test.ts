import assert from 'node:assert/strict';
import { test } from 'node:test';
import { psnAdd, psnDiff } from './psn.js';

test('addition wraps at 24 bits in both directions', () => {
  assert.equal(psnAdd(0xffffff, 1), 0);
  assert.equal(psnAdd(0, -1), 0xffffff);
  assert.equal(psnAdd(0xfffff0, 0x20), 0x10);
});

test('the difference is signed and crosses the wrap', () => {
  assert.equal(psnDiff(0, 0xffffff), 1);
  assert.equal(psnDiff(0xffffff, 0), -1);
  assert.equal(psnDiff(5, 5), 0);
  assert.equal(psnDiff(0x7fffff, 0), 0x7fffff);
  assert.equal(psnDiff(0x800000, 0), -0x800000);
  for (let n = -1000; n <= 1000; n += 37) {
    for (const base of [0, 1, 0x7fffff, 0x800000, 0xffffff]) assert.equal(psnDiff(psnAdd(base, n), base), n);
  }
});
