import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressOfGid, gidOfAddress } from '../ip-address.js';
import { decodeIpHeader, encodeIpHeader, portOf, serviceIdOf } from './cm-ip.js';
import { type CmMessage, type CmReq, decodeCm, encodeCm, MAD_BYTES, privateDataBytes } from './cm-messages.js';

const bytes = (n: number, seed: number): Uint8Array => Uint8Array.from({ length: n }, (_, i) => (i + seed) & 255);

const REQ: CmReq = {
  kind: 'REQ',
  transaction: 0x1122334455667788n,
  localId: 0xa1a2a3a4,
  serviceId: serviceIdOf(7174),
  localGuid: 0xb1b2b3b4b5b6b7b8n,
  queueKey: 0,
  qpNum: 0xabcdef,
  responderResources: 16,
  initiatorDepth: 15,
  remoteResponseTimeout: 20,
  service: 0,
  flowControl: 1,
  startingPsn: 0x123456,
  localResponseTimeout: 19,
  retryCount: 7,
  partitionKey: 0xffff,
  mtuCode: 3,
  rnrRetry: 6,
  maxCmRetries: 15,
  hasSrq: 1,
  localLid: 0xffff,
  remoteLid: 0xffff,
  localGid: bytes(16, 1),
  remoteGid: bytes(16, 50),
  flowLabel: 0xabcde,
  packetRate: 3,
  trafficClass: 0x20,
  hopLimit: 64,
  serviceLevel: 5,
  isSubnetLocal: 0,
  ackTimeout: 14,
  privateData: bytes(92, 100),
};

const MESSAGES: readonly CmMessage[] = [
  REQ,
  {
    kind: 'REP',
    transaction: 5n,
    localId: 1,
    remoteId: 0xffffffff,
    queueKey: 9,
    qpNum: 0x18,
    startingPsn: 0xfffffe,
    responderResources: 4,
    initiatorDepth: 5,
    targetAckDelay: 15,
    failover: 1,
    flowControl: 1,
    rnrRetry: 7,
    hasSrq: 1,
    localGuid: 77n,
    privateData: bytes(196, 3),
  },
  { kind: 'RTU', transaction: 5n, localId: 1, remoteId: 2, privateData: bytes(224, 1) },
  { kind: 'DREQ', transaction: 5n, localId: 1, remoteId: 2, qpNum: 0xfedcba, privateData: bytes(220, 1) },
  { kind: 'DREP', transaction: 5n, localId: 1, remoteId: 2, privateData: bytes(224, 9) },
  { kind: 'MRA', transaction: 5n, localId: 1, remoteId: 2, message: 1, serviceTimeout: 21, privateData: bytes(222, 2) },
  {
    kind: 'REJ',
    transaction: 5n,
    localId: 1,
    remoteId: 2,
    message: 2,
    informationLength: 72,
    reason: 28,
    information: bytes(72, 8),
    privateData: bytes(148, 2),
  },
];

test('every message decodes to what was encoded, full private data included', () => {
  for (const m of MESSAGES) {
    const b = new Uint8Array(8 + MAD_BYTES);
    encodeCm(m, b, 8);
    assert.deepEqual(decodeCm(b, 8, b.length), m, m.kind);
    assert.equal(privateDataBytes(m.kind), m.privateData.length);
  }
});

test('the fields of a REQ stand where the specification puts them', () => {
  const b = new Uint8Array(MAD_BYTES);
  encodeCm(REQ, b, 0);
  const hex = (at: number, n: number): string => Buffer.from(b.subarray(24 + at, 24 + at + n)).toString('hex');
  assert.equal(Buffer.from(b.subarray(0, 24)).toString('hex'), '010702030000000011223344556677880010000000000000');
  assert.equal(hex(0, 8), 'a1a2a3a400000000');
  assert.equal(hex(8, 8), '0000000001061c06');
  assert.equal(hex(32, 4), 'abcdef10', 'QPN, responder resources');
  assert.equal(hex(36, 8), '0000000f000000a1', 'initiator depth; response timeout 20, RC, flow control');
  assert.equal(hex(44, 8), `1234569f${'ffff36f8'}`, 'PSN; timeout 19, retries 7; P_Key; MTU 3, RNR 6; CM retries 15, SRQ');
  assert.equal(hex(52, 4), 'ffffffff');
  assert.equal(hex(88, 8), 'abcde00320405070', 'flow label, rate, class, hops, SL 5, timeout 14');
  assert.equal(hex(140, 4), '64656667');
});

test('what is no CM message, or too short, is not decoded', () => {
  const b = new Uint8Array(MAD_BYTES);
  encodeCm(REQ, b, 0);
  assert.equal(decodeCm(b, 0, 255), undefined);
  b[1] = 3;
  assert.equal(decodeCm(b, 0, 256), undefined);
  b[1] = 7;
  b[17] = 0x30;
  assert.equal(decodeCm(b, 0, 256), undefined);
});

test('private data beyond what the kind allows follows the MAD', () => {
  const m = { ...REQ, privateData: bytes(197, 7) };
  const b = new Uint8Array(600);
  assert.equal(encodeCm(m, b, 4), MAD_BYTES + 108);
  const decoded = decodeCm(b, 4, 4 + MAD_BYTES + 108) as CmReq;
  assert.deepEqual(new Uint8Array(decoded.privateData.subarray(0, 197)), m.privateData);
  assert.equal(privateDataBytes('REQ'), 92);
});

test('a port is a service id of the TCP port space', () => {
  assert.equal(serviceIdOf(7174), 0x0000000001061c06n);
  assert.equal(portOf(serviceIdOf(65535)), 65535);
  assert.equal(portOf(0x01111c06n), -1, 'UDP port space');
});

test('the IP header carries both addresses and the user data, in both families', () => {
  const v4 = { sourcePort: 4242, source: bytes(4, 10), destination: bytes(4, 20), privateData: bytes(56, 1) };
  const encoded = encodeIpHeader(v4);
  assert.equal(encoded.length, 92);
  assert.equal(
    Buffer.from(encoded.subarray(0, 36)).toString('hex'),
    `00401092${'00'.repeat(12)}0a0b0c0d${'00'.repeat(12)}14151617`,
  );
  assert.deepEqual(decodeIpHeader(encoded), v4);
  const v6 = { sourcePort: 1, source: bytes(16, 10), destination: bytes(16, 20), privateData: bytes(0, 1) };
  assert.deepEqual(decodeIpHeader(encodeIpHeader(v6)), v6);
  assert.throws(() => encodeIpHeader({ ...v4, privateData: bytes(57, 1) }), /at most 56/);
  assert.equal(decodeIpHeader(new Uint8Array(92)), undefined);
});

test('an IPv4 address is a mapped GID and back', () => {
  assert.equal(Buffer.from(gidOfAddress(Uint8Array.of(10, 77, 0, 2))).toString('hex'), `${'00'.repeat(10)}ffff0a4d0002`);
  assert.deepEqual(addressOfGid(gidOfAddress(Uint8Array.of(10, 77, 0, 2))), Uint8Array.of(10, 77, 0, 2));
  assert.deepEqual(addressOfGid(bytes(16, 1)), bytes(16, 1));
});
