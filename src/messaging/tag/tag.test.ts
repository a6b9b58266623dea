import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Tag, tagHigh, tagLow, tagOf } from './tag.js';

describe('tags', () => {
  const cases: [Tag, number, number][] = [
    [0, 0, 0],
    [7, 7, 0],
    [2 ** 32 - 1, -1, 0],
    [2 ** 32, 0, 1],
    [Number.MAX_SAFE_INTEGER, -1, 0x1fffff],
    [(1n << 64n) - 1n, -1, -1],
    [{ hi: 3, lo: 4 }, 4, 3],
  ];
  for (const [tag, lo, hi] of cases) {
    it(`${JSON.stringify(tag, (_, value) => (typeof value === 'bigint' ? `${value}n` : value))} becomes two words and comes back`, () => {
      assert.deepEqual([tagLow(tag), tagHigh(tag)], [lo, hi]);
      const back = tagOf(lo, hi);
      assert.deepEqual([tagLow(back), tagHigh(back)], [lo, hi]);
    });
  }

  it('refuses what is no tag', () => {
    for (const bad of [-1, 1.5, -1n, 1n << 64n, 2 ** 53]) assert.throws(() => tagLow(bad), { code: 'MSG_INVALID' });
  });
});
