import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ackTimeoutNs, RNR_DELAY_NS } from './timing.js';

test('the 32 RNR delays are those of the specification', () => {
  assert.equal(RNR_DELAY_NS.length, 32);
  assert.equal(RNR_DELAY_NS[0], 655_360_000);
  assert.equal(RNR_DELAY_NS[1], 10_000);
  assert.equal(RNR_DELAY_NS[12], 640_000);
  assert.equal(RNR_DELAY_NS[31], 491_520_000);
  for (let code = 2; code < 32; code++) assert.ok(RNR_DELAY_NS[code] > RNR_DELAY_NS[code - 1]);
});

test('the acknowledge timeout is 4.096 us times a power of two, and 0 is never', () => {
  assert.equal(ackTimeoutNs(0), 0);
  assert.equal(ackTimeoutNs(1), 8192);
  assert.equal(ackTimeoutNs(14), 67_108_864);
  assert.equal(ackTimeoutNs(31), 4096 * 2 ** 31);
});
