import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gidBytesOf, gidOf, parseGid } from './gid.js';

test('the text of a GID and its bytes say the same, for every index', () => {
  for (const index of [0, 1, 255, 65535, 65536, 0x12345]) assert.deepEqual(parseGid(gidOf(index)), gidBytesOf(index));
});

test('IPv6 addresses are read in every spelling, and nothing else', () => {
  assert.deepEqual(parseGid('ff0e::1:2'), Uint8Array.of(0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2));
  assert.deepEqual(parseGid('::'), new Uint8Array(16));
  assert.deepEqual(parseGid('1:2:3:4:5:6:7:8')?.[15], 8);
  for (const bad of ['', 'nonsense', '1:2', '10.0.0.1', 'fe80::1%eth0', undefined, 5]) assert.equal(parseGid(bad), undefined);
});
