import assert from 'node:assert/strict';
import { it } from 'node:test';
import { hashIdentity } from './hash.js';
import { KeyTable } from './key-table.js';

it('finds what a Map finds, in the same order', () => {
  const keys: unknown[] = [null, undefined, true, false, '', '0', 0, -0, Number.NaN, 5n, 1.5, -7, 2 ** 40];
  for (let i = 0; i < 20_000; i++) keys.push(i % 3 === 0 ? i % 5000 : i % 3 === 1 ? `k${i % 7000}` : (i % 900) / 7);
  const map = new Map<unknown, number>();
  const table = new KeyTable();
  for (const key of keys) {
    assert.equal(table.find(key), map.get(key) ?? -1);
    if (!map.has(key)) map.set(key, map.size);
    assert.equal(table.entryOf(key), map.get(key), String(key));
    assert.equal(table.find(key), map.get(key));
  }
  assert.equal(table.size, map.size);
});

it('keys with the same hash are told apart', () => {
  const byHash = new Map<number, string>();
  const table = new KeyTable();
  const pairs: [string, string][] = [];
  for (let i = 0; pairs.length < 3; i++) {
    const other = byHash.get(hashIdentity(`${i}`));
    if (other !== undefined) pairs.push([other, `${i}`]);
    byHash.set(hashIdentity(`${i}`), `${i}`);
  }
  for (const [a, b] of pairs) assert.notEqual(table.entryOf(a), table.entryOf(b));
  for (const [a, b] of pairs) assert.notEqual(table.find(a), table.find(b));
});
