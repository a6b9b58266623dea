import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OPCODES } from '../opcode.js';
import { STATUS, statusName } from '../status.js';
import { WC_GRH, WC_WITH_IMM } from '../work-completions.js';
import { type End, Pair } from './pair.test.fixture.js';
import { UdEndpoint } from './ud-endpoint.js';

const [SEND, SEND_IMM] = OPCODES.map((_, i) => i);

function pairOf(): Pair {
  const pair = new Pair();
  const of = (end: End, qpNum: number) => {
    end.endpoint = new UdEndpoint(
      { ...end, host: end, memory: end.memory },
      { qpNum, mtu: 1024, sendPsn: 7, queueKey: 0x11111111 },
    );
  };
  of(pair.a, 17);
  of(pair.b, 18);
  for (let i = 0; i < pair.a.bytes.length; i++) pair.a.bytes[i] = (i * 13 + 1) & 255;
  return pair;
}

const to = { destination: 42, destQp: 18, destKey: 0x11111111 };

test('a datagram takes one receive request, after 40 bytes of route header, and names its source', () => {
  const pair = pairOf();
  (pair.b.endpoint as UdEndpoint).routeHeader.fill(9);
  pair.b.postReceive(1, 0, 1100);
  pair.a.post(SEND_IMM, 1, 0, 1000, { ...to, immediate: 5 });
  pair.run();
  assert.equal(pair.a.sent[0].status, STATUS.SUCCESS);
  assert.equal(pair.a.endpoint.destination, 42);
  assert.deepEqual(pair.b.received[0], {
    id: 1,
    status: STATUS.SUCCESS,
    opcode: 7,
    byteLength: 1040,
    immediate: 5,
    flags: WC_GRH | WC_WITH_IMM,
    sourceQp: 17,
    solicited: false,
  });
  assert.ok(pair.b.bytes.subarray(0, 40).every((v) => v === 9));
  assert.deepEqual(pair.b.bytes.subarray(40, 1040), pair.a.bytes.subarray(0, 1000));
});

test('a wrong Q_Key or a missing receive request drops the datagram silently', () => {
  const pair = pairOf();
  pair.a.post(SEND, 1, 0, 10, to);
  pair.run();
  pair.b.postReceive(1, 0, 1100);
  pair.a.post(SEND, 2, 0, 10, { ...to, destKey: 5 });
  pair.run();
  assert.deepEqual(
    pair.a.sent.map((c) => c.status),
    [0, 0],
  );
  assert.equal(pair.b.received.length, 0);
  assert.equal(pair.b.counters.dropped, 2);
});

test("a destination key with the top bit set stands for the sender's own Q_Key", () => {
  const pair = pairOf();
  pair.b.postReceive(1, 0, 1100);
  pair.a.post(SEND, 1, 0, 10, { ...to, destKey: 0x80000000 });
  pair.run();
  assert.equal(pair.b.received.length, 1);
});

test('a message longer than one MTU is LOC_LEN_ERR and the send queue stops until resumed', () => {
  const pair = pairOf();
  pair.a.post(SEND, 1, 0, 1025, to);
  pair.a.post(SEND, 2, 0, 8, to);
  pair.run();
  assert.deepEqual(
    pair.a.sent.map((c) => statusName(c.status)),
    ['LOC_LEN_ERR', 'WR_FLUSH_ERR'],
  );
  assert.equal(pair.a.sendQueueErrors, 1);
  (pair.a.endpoint as UdEndpoint).resume();
  pair.b.postReceive(1, 0, 100);
  pair.a.post(SEND, 3, 0, 8, to);
  pair.run();
  assert.equal(pair.b.received[0].byteLength, 48);
});

test('a receive buffer without room for the route header is LOC_LEN_ERR', () => {
  const pair = pairOf();
  pair.b.postReceive(1, 0, 30);
  pair.a.post(SEND, 1, 0, 8, to);
  pair.run();
  assert.deepEqual(
    pair.b.received.map((c) => statusName(c.status)),
    ['LOC_LEN_ERR'],
  );
});
