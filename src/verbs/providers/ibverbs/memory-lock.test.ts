import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { lockedMemoryLimit, lockedMemoryWords } from './memory-lock.js';

describe('the limit of locked memory', () => {
  it('is read from the system', () => {
    const limits = (soft: string) =>
      `Limit  Soft Limit  Hard Limit  Units\nMax locked memory         ${soft}   unlimited   bytes\n`;
    assert.equal(lockedMemoryLimit(limits('8388608')), 8388608);
    assert.equal(lockedMemoryLimit(limits('unlimited')), Number.POSITIVE_INFINITY);
    assert.equal(lockedMemoryLimit(''), undefined);
    assert.ok((lockedMemoryLimit() ?? 0) >= 0);
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
