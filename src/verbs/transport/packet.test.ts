import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { readCapture } from './capture.test.fixture.js';
import { IcrcPath, IcrcVerdict } from './icrc.js';
import { DcOpcode, Flag, HEADER_LENGTH, OPCODE_CNP, OPCODE_FLAGS, Op, opcodeName, Service } from './opcode.js';
import { BAD_ADDRESS, DecodeError, decodePacket, encodeHeaders, Packet, padPacket } from './packet.js';

const fixtures = new URL('../../../../test/fixtures/', import.meta.url);

for (const [name, count] of [
  ['rc_pingpong.pcap', 46],
  ['rdma_ops.pcap', 110],
] as const) {
  test(`every packet the kernel sent in ${name} decodes and encodes back to the same bytes, ICRC included`, () => {
    const packets = readCapture(readFileSync(new URL(name, fixtures)));
    assert.equal(packets.length, count);
    const p = new Packet();
    for (const captured of packets) {
      const { bytes, bth, end } = captured;
      assert.equal(decodePacket(bytes, bth, end, p), DecodeError.ok, `frame ${captured.frame}`);
      const out = new Uint8Array(end - bth + 4);
      const payloadAt = encodeHeaders(p, out, 0);
      out.set(bytes.subarray(p.payloadAt, p.payloadAt + p.payloadLength), payloadAt);
      const outEnd = padPacket(p, out, payloadAt + p.payloadLength);
      const path = new IcrcPath(captured.source, captured.destination, captured.sourcePort, captured.destinationPort);
      path.seal(out, 0, outEnd, captured.identification);
      assert.deepEqual(out, new Uint8Array(bytes.subarray(bth, end + 4)), `frame ${captured.frame}`);
      assert.equal(path.check(bytes, bth, end), IcrcVerdict.assumed, `frame ${captured.frame}: identification not known`);
    }
  });
}

test('every opcode of every service encodes and decodes all of its fields', () => {
  const buffer = new Uint8Array(256);
  let opcodes = 0;
  for (let opcode = 0; opcode < 256; opcode++) {
    const flags = OPCODE_FLAGS[opcode];
    if (flags === 0) continue;
    opcodes++;
    const p = new Packet();
    p.opcode = opcode;
    p.solicited = true;
    p.migrated = true;
    p.partitionKey = 0x8001;
    p.backwardCongestion = opcode === OPCODE_CNP;
    p.destQp = 0xfedcba;
    p.ackRequest = true;
    p.psn = 0xabcdef;
    p.remoteAddress = 2 ** 53 - 16;
    p.remoteKey = 0xfffffff1;
    p.dmaLength = 0x80000001;
    p.syndrome = 0x61;
    p.msn = 0xfffffe;
    p.swapHi = 0xffffffff;
    p.swapLo = 0x80000000;
    p.compareHi = 1;
    p.compareLo = 0xfffffffe;
    p.originalHi = 0x90000000;
    p.originalLo = 3;
    p.immediate = 0xdeadbeef;
    p.invalidateKey = 0xcafebabe;
    p.queueKey = 0x80010000;
    p.sourceQp = 0x123456;
    p.payloadLength = flags & Flag.hasPayload ? 5 : 0;
    const payloadAt = encodeHeaders(p, buffer, 8);
    assert.equal(payloadAt - 8, HEADER_LENGTH[opcode], opcodeName(opcode));
    const end = padPacket(p, buffer, payloadAt + p.payloadLength);
    const q = new Packet();
    assert.equal(decodePacket(buffer, 8, end, q), DecodeError.ok, opcodeName(opcode));
    const has = (bit: number) => (flags & bit) !== 0;
    assert.deepEqual(
      { ...q },
      {
        ...new Packet(),
        opcode,
        flags,
        solicited: true,
        migrated: true,
        padCount: p.padCount,
        partitionKey: 0x8001,
        backwardCongestion: opcode === OPCODE_CNP,
        destQp: 0xfedcba,
        ackRequest: true,
        psn: 0xabcdef,
        payloadAt,
        payloadLength: p.payloadLength,
        ...((has(Flag.hasReth) || has(Flag.hasAtomic)) && { remoteAddress: 2 ** 53 - 16, remoteKey: 0xfffffff1 }),
        ...(has(Flag.hasReth) && { dmaLength: 0x80000001 }),
        ...(has(Flag.hasAeth) && { syndrome: 0x61, msn: 0xfffffe }),
        ...(has(Flag.hasAtomic) && { swapHi: 0xffffffff, swapLo: 0x80000000, compareHi: 1, compareLo: 0xfffffffe }),
        ...(has(Flag.hasAtomicAck) && { originalHi: 0x90000000, originalLo: 3 }),
        ...(has(Flag.hasImm) && { immediate: 0xdeadbeef }),
        ...(has(Flag.hasIeth) && { invalidateKey: 0xcafebabe }),
        ...(has(Flag.hasDeth) && { queueKey: 0x80010000, sourceQp: 0x123456 }),
      },
      opcodeName(opcode),
    );
  }
  assert.equal(opcodes, 23 + 12 + 2 + 1 + 3);
});

test('a packet that is too short, has a wrong version, an unknown opcode or impossible padding is refused by name', () => {
  const b = new Uint8Array(64);
  const p = new Packet();
  assert.equal(decodePacket(b, 0, 11, p), DecodeError.tooShort);
  assert.equal(decodePacket(b, 60, 72, p), DecodeError.tooShort);
  b[0] = Op.writeOnly;
  assert.equal(decodePacket(b, 0, 24, p), DecodeError.tooShort, 'no room for the RETH');
  b[0] = Op.sendOnly;
  b[1] = 1;
  assert.equal(decodePacket(b, 0, 16, p), DecodeError.badVersion);
  b[1] = 0x30;
  assert.equal(decodePacket(b, 0, 12, p), DecodeError.badPadding);
  b[1] = 0;
  assert.equal(decodePacket(b, 0, 15, p), DecodeError.badPadding, 'not a multiple of four');
  b[0] = Op.acknowledge;
  assert.equal(decodePacket(b, 0, 20, p), DecodeError.badPadding, 'an acknowledge has no payload');
  for (const opcode of [Service.uc | Op.readRequest, Service.ud | Op.sendFirst, 0x15, 0x40, 0xff]) {
    b[0] = opcode;
    assert.equal(decodePacket(b, 0, 64, p), DecodeError.unknownOpcode, String(opcode));
  }
});

test('an address of more than 53 bits becomes one that no region holds', () => {
  const b = new Uint8Array(28);
  b[0] = Op.readRequest;
  b[12] = 0xff;
  const p = new Packet();
  assert.equal(decodePacket(b, 0, 28, p), DecodeError.ok);
  assert.equal(p.remoteAddress, BAD_ADDRESS);
});

test('opcodes have names', () => {
  assert.equal(opcodeName(Op.sendOnly), 'RC sendOnly');
  assert.equal(opcodeName(Service.ud | Op.sendOnlyImm), 'UD sendOnlyImm');
  assert.equal(opcodeName(OPCODE_CNP), 'CNP');
  assert.equal(opcodeName(DcOpcode.connect), 'DC connect');
});
