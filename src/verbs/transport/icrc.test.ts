import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { crc32 as zlibCrc32 } from 'node:zlib';
import { readCapture } from './capture.test.fixture.js';
import { crc32, IcrcPath, IcrcVerdict, NO_IDENTIFICATION, solveIdentification } from './icrc.js';

const fixtures = new URL('../../../../test/fixtures/', import.meta.url);
const bytes = (n: number): Uint8Array => Uint8Array.from({ length: n }, (_, i) => (i * 131 + (i >> 3)) & 255);

test('crc32 agrees with zlib for every length around the eight-byte step and at every offset', () => {
  const b = bytes(600);
  for (let at = 0; at < 9; at++) {
    for (let end = at; end < 80; end++) assert.equal(crc32(b, at, end), zlibCrc32(b.subarray(at, end)));
  }
  assert.equal(crc32(b), zlibCrc32(b));
});

test('the identification of every captured packet is recovered from its ICRC alone', () => {
  for (const name of ['rc_pingpong.pcap', 'rdma_ops.pcap']) {
    for (const c of readCapture(readFileSync(new URL(name, fixtures)))) {
      const path = new IcrcPath(c.source, c.destination, c.sourcePort, c.destinationPort);
      const received = new DataView(c.bytes.buffer, c.bytes.byteOffset + c.end, 4).getUint32(0, true);
      const found = solveIdentification(path.compute(c.bytes, c.bth, c.end), received, c.end - c.bth + 22);
      assert.equal(found, c.identification, `${name} frame ${c.frame}`);
    }
  }
});

test('any identification is found, and a flipped bit is found out', () => {
  const path = new IcrcPath(Uint8Array.of(10, 0, 0, 1), Uint8Array.of(10, 0, 0, 2), 49152, 4791);
  const b = bytes(128);
  for (const identification of [0, 1, 255, 256, 0x1234, 0xffff]) {
    path.seal(b, 0, 100, identification);
    assert.equal(path.check(b, 0, 100), identification === 0 ? IcrcVerdict.right : IcrcVerdict.assumed);
  }
  let passed = 0;
  path.seal(b, 0, 100, 77);
  for (let bit = 0; bit < 104 * 8; bit++) {
    if (bit >> 3 === 4) continue;
    b[bit >> 3] ^= 1 << (bit & 7);
    if (path.check(b, 0, 100) !== IcrcVerdict.bad) passed++;
    b[bit >> 3] ^= 1 << (bit & 7);
  }
  assert.equal(passed, 0);
  b[4] ^= 0x40;
  assert.equal(path.check(b, 0, 100), IcrcVerdict.assumed, 'congestion bits may change on the way');
  assert.equal(solveIdentification(1, 2, 40), NO_IDENTIFICATION);
});

test('over IPv6 there is no identification, so the check is exact', () => {
  const a = bytes(16);
  const path = new IcrcPath(a, a.slice().reverse(), 49152, 4791);
  const b = bytes(64);
  path.seal(b, 0, 32);
  assert.equal(path.check(b, 0, 32), IcrcVerdict.right);
  b[20] ^= 1;
  assert.equal(path.check(b, 0, 32), IcrcVerdict.bad);
});

test('a path between addresses of different families is refused', () => {
  assert.throws(() => new IcrcPath(new Uint8Array(4), new Uint8Array(16), 1, 4791), /4 or 16/);
});
