import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gidBytesOf, gidOf, parseFabricGid } from './gid.js';

test('the text of a GID and its bytes say the same, for every index', () => {
  for (const index of [0, 1, 255, 65535, 65536, 0x12345]) assert.deepEqual(parseFabricGid(gidOf(index)), gidBytesOf(index));
});

test('a GID of the fabric in other spellings, and what is none', () => {
  assert.deepEqual(parseFabricGid('ff0e::1:2'), Uint8Array.of(0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2));
  assert.deepEqual(parseFabricGid('::'), new Uint8Array(16));
  assert.deepEqual(parseFabricGid('1:2:3:4:5:6:7:8')?.[15], 8);
  for (const bad of ['', 'nonsense', '1:2', '10.0.0.1', 'fe80::1%eth0', undefined, 5])
    assert.equal(parseFabricGid(bad), undefined);
});
