import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Op } from './opcode.js';
import { mtuCode, packetBytes, packetCount, readResponseOp, sendOp, writeOp } from './segmentation.js';

test('packets are full but the last, and an empty message is one packet', () => {
  for (const mtu of [256, 512, 1024, 2048, 4096]) {
    for (const length of [0, 1, mtu - 1, mtu, mtu + 1, 3 * mtu, 3 * mtu + 7]) {
      const count = packetCount(length, mtu);
      let sum = 0;
      for (let i = 0; i < count; i++) {
        const n = packetBytes(length, mtu, i);
        assert.ok(i === count - 1 ? n <= mtu && (n > 0 || length === 0) : n === mtu);
        sum += n;
      }
      assert.equal(sum, length);
    }
  }
});

test('the opcode follows from position and ending', () => {
  assert.deepEqual(
    [0, 1, 2].map((i) => sendOp(i, 3, false)),
    [Op.sendFirst, Op.sendMiddle, Op.sendLast],
  );
  assert.equal(sendOp(1, 2, true), Op.sendLastImm);
  assert.equal(sendOp(0, 1, true), Op.sendOnlyImm);
  assert.equal(writeOp(0, 1, true), Op.writeOnlyImm);
  assert.equal(writeOp(2, 3, true), Op.writeLastImm);
  assert.equal(writeOp(0, 3, true), Op.writeFirst);
  assert.deepEqual(
    [0, 1, 2].map((i) => readResponseOp(i, 3)),
    [Op.readResponseFirst, Op.readResponseMiddle, Op.readResponseLast],
  );
  assert.equal(readResponseOp(0, 1), Op.readResponseOnly);
});

test('only the five path MTUs have a code', () => {
  assert.equal(mtuCode(256), 1);
  assert.equal(mtuCode(4096), 5);
  assert.throws(() => mtuCode(1500), /256, 512, 1024, 2048 or 4096/);
});
