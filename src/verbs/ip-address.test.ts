import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gidText, ipText, parseGid, parseIp } from './ip-address.js';

test('text and bytes of an address are each other', () => {
  const same = ['127.0.0.1', '10.0.0.255', '::1', 'fd00::2', '1:2:3:4:5:6:7:8', 'fe80::fc:ff:fe00:1'];
  for (const text of same) assert.equal(ipText(parseIp(text) as Uint8Array), text);
  assert.deepEqual(parseIp('::ffff:10.1.2.3'), Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 1, 2, 3));
  for (const text of ['', 'eth0', '1.2.3', '::g', '1:2']) assert.equal(parseIp(text), undefined, text);
});

test('GIDs are read in every spelling, that of an IPv4 address included, and nothing else', () => {
  assert.deepEqual(parseGid('ff0e::1:2'), Uint8Array.of(0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2));
  assert.deepEqual(parseGid('::'), new Uint8Array(16));
  assert.deepEqual(parseGid('1:2:3:4:5:6:7:8')?.[15], 8);
  assert.deepEqual(parseGid('10.0.0.1'), parseGid('::ffff:10.0.0.1'));
  assert.deepEqual(parseGid('fe80::1%eth0'), parseGid('fe80::1'));
  assert.equal(gidText(Uint8Array.of(10, 0, 0, 1)), '::ffff:10.0.0.1');
  for (const bad of ['', 'nonsense', '1:2', '1.2.3', undefined, 5]) assert.equal(parseGid(bad), undefined);
});
