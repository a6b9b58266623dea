import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseGid } from '../../ip-address.js';
import { gidBytesOf, gidOf } from './gid.js';

test('the text of a GID and its bytes say the same, for every index', () => {
  for (const index of [0, 1, 255, 65535, 65536, 0x12345]) assert.deepEqual(parseGid(gidOf(index)), gidBytesOf(index));
});
