import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { compareKeys, hashIdentity, identityOf } from './hash.js';

describe('keys', () => {
  it('are equal when their contents are', () => {
    assert.equal(identityOf({ a: 1, b: [2, 'x'] }), identityOf({ b: [2, 'x'], a: 1 }));
    assert.equal(identityOf([1, -0]), identityOf([1, 0]));
    assert.equal(identityOf(new Date(5)), identityOf(new Date(5)));
    assert.notEqual(identityOf([1]), identityOf(['1']));
    assert.notEqual(identityOf([1, [2]]), identityOf([1, 2]));
    assert.equal(identityOf('text'), 'text');
  });

  it('are spread over partitions about evenly', () => {
    for (const make of [(i: number) => i, (i: number) => `key ${i}`, (i: number) => i / 7]) {
      const counts = new Array<number>(8).fill(0);
      for (let i = 0; i < 8000; i++) counts[hashIdentity(identityOf(make(i))) & 7]++;
      for (const count of counts) assert.ok(count > 850 && count < 1150, `${counts}`);
    }
  });

  it('have an order: kinds one after the other, NaN last among numbers', () => {
    const ordered = [undefined, null, false, true, -1, 0, 2, Number.NaN, 1n, 'B', 'a', [1, 2], [1, 3]];
    const shuffled = ordered.map((_, i) => ordered[(i * 5) % ordered.length]);
    assert.deepEqual(shuffled.filter((one) => one !== undefined).sort(compareKeys), ordered.slice(1));
  });
});
