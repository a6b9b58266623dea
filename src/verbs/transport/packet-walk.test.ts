/** The packet walks of docs/roce.md are what the state machines send. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { opcodeOf } from '../opcode.js';
import { Pair } from './pair.test.fixture.js';
import type { RcEndpoint } from './rc-endpoint.js';

const BYTES = 10_000;

function walk(opcode: 'RDMA_WRITE' | 'RDMA_READ' | 'ATOMIC_FETCH_AND_ADD', lostPsn = -1): string[] {
  const pair = Pair.rc({ mtu: 4096, sendPsn: 7 });
  let isLost = false;
  pair.filter = (_, { psn }) => {
    if (isLost || psn !== lostPsn) return true;
    isLost = true;
    return false;
  };
  const there = { remoteAddress: pair.b.base, remoteKey: pair.b.key };
  pair.a.post(opcodeOf(opcode), 1, 0, opcode.startsWith('ATOMIC') ? 8 : BYTES, there);
  pair.run();
  assert.deepEqual(
    pair.a.sent.map(({ status }) => status),
    [0],
  );
  return pair.trace;
}

test('WRITE', () => {
  const expected = ['a>b RC writeFirst psn 7', 'a>b RC writeMiddle psn 8', 'a>b RC writeLast psn 9', 'b>a RC acknowledge psn 9'];
  assert.deepEqual(walk('RDMA_WRITE'), expected);
});

test('READ', () => {
  assert.deepEqual(walk('RDMA_READ'), [
    'a>b RC readRequest psn 7',
    'b>a RC readResponseFirst psn 7',
    'b>a RC readResponseMiddle psn 8',
    'b>a RC readResponseLast psn 9',
  ]);
});

test('FETCH AND ADD', () => {
  assert.deepEqual(walk('ATOMIC_FETCH_AND_ADD'), ['a>b RC fetchAdd psn 7', 'b>a RC atomicAcknowledge psn 7']);
});

test('a WRITE of which one packet is lost', () => {
  assert.deepEqual(walk('RDMA_WRITE', 8), [
    'a>b RC writeFirst psn 7',
    'a>b RC writeMiddle psn 8',
    'a>b RC writeLast psn 9',
    'b>a RC acknowledge psn 8',
    'a>b RC writeMiddle psn 8',
    'b>a RC acknowledge psn 8',
    'a>b RC writeLast psn 9',
    'b>a RC acknowledge psn 9',
  ]);
});

test('congestion: a marked packet is answered by a notification, not more than one in 50 us, and halves the window', () => {
  const pair = Pair.rc({ mtu: 256, window: 64 });
  const [a, b] = [pair.a.endpoint, pair.b.endpoint] as [RcEndpoint, RcEndpoint];
  pair.a.post(opcodeOf('RDMA_WRITE'), 1, 0, 60_000, { remoteAddress: pair.b.base, remoteKey: pair.b.key });
  pair.pump();
  assert.equal(a.requester.inFlight, 64);
  for (const now of [10, 20, 49_999]) b.marked(now);
  pair.run();
  assert.equal(pair.trace.filter((line) => line.startsWith('b>a CNP')).length, 1);
  pair.a.post(opcodeOf('RDMA_WRITE'), 2, 0, 60_000, { remoteAddress: pair.b.base, remoteKey: pair.b.key });
  pair.pump();
  assert.ok(a.requester.inFlight >= 32 && a.requester.inFlight < 64, `${a.requester.inFlight} packets in flight`);
});
