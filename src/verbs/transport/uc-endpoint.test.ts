import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OPCODES, WC_RECV_RDMA_WITH_IMM } from '../opcode.js';
import { STATUS, statusName } from '../status.js';
import { ALL_ACCESS, type End, Pair } from './pair.test.fixture.js';
import { UcEndpoint } from './uc-endpoint.js';

const [SEND, , WRITE, WRITE_IMM] = OPCODES.map((_, i) => i);

function pairOf(): Pair {
  const pair = new Pair();
  const settings = { mtu: 256, access: ALL_ACCESS };
  const of = (end: End, destQp: number, sendPsn: number, receivePsn: number) => {
    end.endpoint = new UcEndpoint({ ...end, host: end, memory: end.memory }, { ...settings, destQp, sendPsn, receivePsn });
  };
  of(pair.a, 2, 0xfffffe, 5);
  of(pair.b, 1, 5, 0xfffffe);
  for (let i = 0; i < pair.a.bytes.length; i++) pair.a.bytes[i] = (i * 13 + 1) & 255;
  return pair;
}

const remote = (peer: End, offset: number) => ({ remoteAddress: peer.base + offset, remoteKey: peer.key });

test('SEND and WRITE with immediate arrive, and the sender completes without an answer', () => {
  const pair = pairOf();
  pair.b.postReceive(1, 1000, 1000);
  pair.b.postReceive(2, 0, 0);
  pair.a.post(SEND, 1, 0, 1000);
  pair.a.post(WRITE_IMM, 2, 0, 500, { ...remote(pair.b, 4000), immediate: 3 });
  pair.pump();
  assert.equal(pair.a.sent.length, 2);
  pair.run();
  assert.deepEqual(pair.b.bytes.subarray(1000, 2000), pair.a.bytes.subarray(0, 1000));
  assert.deepEqual(pair.b.bytes.subarray(4000, 4500), pair.a.bytes.subarray(0, 500));
  assert.deepEqual(
    pair.b.received.map((c) => [c.id, c.byteLength, c.immediate]),
    [
      [1, 1000, 0],
      [2, 500, 3],
    ],
  );
  assert.equal(pair.b.received[1].opcode, WC_RECV_RDMA_WITH_IMM);
  assert.ok(pair.trace.every((line) => line.startsWith('a>b')));
});

test('a message with a lost packet is gone as a whole, its receive request serves the next one', () => {
  for (const lost of [0xffffff, 0, 1]) {
    const pair = pairOf();
    pair.filter = (_from, p) => p.psn !== lost;
    pair.b.postReceive(1, 1000, 1000);
    pair.a.post(SEND, 1, 0, 1000);
    pair.a.post(SEND, 2, 2000, 300);
    pair.run();
    assert.deepEqual(
      pair.a.sent.map((c) => c.status),
      [STATUS.SUCCESS, STATUS.SUCCESS],
    );
    assert.deepEqual(
      pair.b.received.map((c) => [c.id, c.byteLength]),
      [[1, 300]],
      `packet ${lost} lost`,
    );
    assert.deepEqual(pair.b.bytes.subarray(1000, 1300), pair.a.bytes.subarray(2000, 2300));
  }
});

test('without a receive request, or with a wrong key, the message is dropped and the next one arrives', () => {
  const pair = pairOf();
  pair.a.post(SEND, 1, 0, 300);
  pair.a.post(WRITE, 2, 0, 300, { remoteAddress: 1, remoteKey: 5 });
  pair.a.post(WRITE, 3, 0, 300, remote(pair.b, 0));
  pair.run();
  assert.equal(pair.b.received.length, 0);
  assert.deepEqual(pair.b.events, []);
  assert.deepEqual(pair.b.bytes.subarray(0, 300), pair.a.bytes.subarray(0, 300));
});

test('a local fault puts the send queue in error and leaves receiving alone; resume goes on', () => {
  const pair = pairOf();
  pair.a.post(SEND, 1, 0, 8, { sgeKey: Uint32Array.of(0x555) });
  pair.a.post(SEND, 2, 0, 8);
  pair.run();
  pair.a.post(SEND, 3, 0, 8);
  pair.run();
  assert.deepEqual(
    pair.a.sent.map((c) => statusName(c.status)),
    ['LOC_PROT_ERR', 'WR_FLUSH_ERR', 'WR_FLUSH_ERR'],
  );
  assert.equal(pair.a.sendQueueErrors, 1);
  pair.a.postReceive(7, 0, 100);
  pair.b.post(SEND, 1, 0, 8);
  (pair.a.endpoint as UcEndpoint).resume();
  pair.a.post(SEND, 4, 0, 8);
  pair.run();
  assert.equal(pair.a.received[0].status, STATUS.SUCCESS);
  assert.equal(pair.a.sent[3].status, STATUS.SUCCESS);
});

test('a SEND that does not fit is LOC_LEN_ERR and stops the receiver', () => {
  const pair = pairOf();
  pair.b.postReceive(1, 0, 10);
  pair.b.postReceive(2, 0, 10);
  pair.a.post(SEND, 1, 0, 11);
  pair.run();
  assert.deepEqual(
    pair.b.received.map((c) => statusName(c.status)),
    ['LOC_LEN_ERR', 'WR_FLUSH_ERR'],
  );
  assert.deepEqual(pair.b.events, ['QP_FATAL']);
});
