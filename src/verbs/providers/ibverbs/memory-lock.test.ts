import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { lockedMemoryLimit, lockedMemoryWords } from './memory-lock.js';

describe('the limit of locked memory', () => {
  it('is read from the system', () => {
    const limit = lockedMemoryLimit();
    assert.ok(limit === undefined || limit >= 0);
  });

  it('is a problem below 1 GiB, with what to do, unless the user may exceed it', () => {
    const low = lockedMemoryWords(8 << 20, false);
    assert.equal(low.isLow, true);
    assert.match(low.words, /8 MiB.*ulimit -l unlimited.*limits\.conf.*LimitMEMLOCK.*--ulimit memlock/);
    assert.equal(lockedMemoryWords(8 << 20, true).isLow, false);
    assert.equal(lockedMemoryWords(2 ** 31, false).isLow, false);
    assert.match(lockedMemoryWords(Number.POSITIVE_INFINITY, false).words, /unlimited/);
  });
});
