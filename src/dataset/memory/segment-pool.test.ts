import assert from 'node:assert/strict';
import { it } from 'node:test';
import { sizeClass } from './segment-pool.js';

it('sizes are rounded up by a quarter at most, to few different ones', () => {
  assert.equal(sizeClass(1), 65_536);
  const seen = new Set<number>();
  for (let bytes = 65_537; bytes < 1 << 26; bytes = Math.ceil(bytes * 1.003)) {
    const size = sizeClass(bytes);
    assert.ok(size >= bytes && size <= bytes * 1.25 + 1, `${bytes} becomes ${size}`);
    seen.add(size);
  }
  assert.ok(seen.size <= 4 * 10 + 1);
});
