import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ACCESS_LOCAL_WRITE, ACCESS_REMOTE_READ } from '../access.js';
import { OPCODES, WC_RECV, WC_RECV_RDMA_WITH_IMM } from '../opcode.js';
import { STATUS, statusName } from '../status.js';
import { WC_WITH_IMM } from '../work-completions.js';
import { Op } from './opcode.js';
import type { Packet } from './packet.js';
import { ALL_ACCESS, type End, Pair } from './pair.test.fixture.js';
import type { RcEndpoint } from './rc-endpoint.js';
import { SendFlag } from './send-queue.js';
import { Nak, rnrSyndrome } from './syndrome.js';

const [SEND, SEND_IMM, WRITE, WRITE_IMM, READ, CAS, FAA] = OPCODES.map((_, i) => i);

const statuses = (end: End): string[] => end.sent.map((c) => `${c.id}:${statusName(c.status)}`);
const fill = (b: Uint8Array, seed: number): void => {
  for (let i = 0; i < b.length; i++) b[i] = (i * 7 + seed + (i >> 8)) & 255;
};
const remote = (peer: End, offset: number) => ({ remoteAddress: peer.base + offset, remoteKey: peer.key });

test('a SEND of several packets lands in the receive buffer and completes on both sides', () => {
  const pair = Pair.rc();
  fill(pair.a.bytes, 1);
  pair.b.postReceive(9, 1000, 2000);
  pair.a.post(SEND_IMM, 5, 100, 1000, { immediate: 0xfeedface, flags: SendFlag.signaled | SendFlag.solicited });
  pair.run();
  assert.deepEqual(statuses(pair.a), ['5:SUCCESS']);
  assert.deepEqual(pair.b.received, [
    {
      id: 9,
      status: STATUS.SUCCESS,
      opcode: WC_RECV,
      byteLength: 1000,
      immediate: 0xfeedface,
      flags: WC_WITH_IMM,
      sourceQp: 0,
      solicited: true,
    },
  ]);
  assert.deepEqual(pair.b.bytes.subarray(1000, 2000), pair.a.bytes.subarray(100, 1100));
  assert.equal(pair.b.bytes[2000], 0);
});

test('the packets of a message are First, Middle, Last over the PSN wrap, and one acknowledge answers them', () => {
  const pair = Pair.rc();
  pair.a.post(WRITE, 1, 0, 2000, remote(pair.b, 0));
  pair.run();
  assert.deepEqual(pair.trace, [
    'a>b RC writeFirst psn 16777210',
    ...[16777211, 16777212, 16777213, 16777214, 16777215, 0].map((n) => `a>b RC writeMiddle psn ${n}`),
    'a>b RC writeLast psn 1',
    'b>a RC acknowledge psn 1',
  ]);
});

test('WRITE, WRITE with immediate, READ and atomics do what they say, with several elements and inline data', () => {
  const pair = Pair.rc();
  const { a, b } = pair;
  fill(a.bytes, 3);
  b.postReceive(1, 0, 0);
  a.post(WRITE, 1, 0, 700, remote(b, 5000));
  a.post(WRITE_IMM, 2, 700, 300, { ...remote(b, 6000), immediate: 77 });
  a.post(WRITE, 3, 0, 0, { ...remote(b, 9000), inlineData: Uint8Array.of(1, 2, 3) });
  a.post(READ, 4, 20000, 900, remote(b, 5000));
  a.post(FAA, 5, 30000, 8, { ...remote(b, 16), swapHi: 0, swapLo: 0xffffffff });
  a.post(FAA, 6, 30008, 8, { ...remote(b, 16), swapHi: 1, swapLo: 1 });
  a.post(CAS, 7, 30016, 8, { ...remote(b, 16), compareHi: 2, compareLo: 0, swapHi: 0xdeadbeef, swapLo: 0x12345678 });
  a.post(CAS, 8, 30024, 8, { ...remote(b, 16), compareHi: 2, compareLo: 0, swapHi: 0, swapLo: 0 });
  pair.run();
  assert.deepEqual(
    statuses(a),
    [1, 2, 3, 4, 5, 6, 7, 8].map((id) => `${id}:SUCCESS`),
  );
  assert.deepEqual(b.bytes.subarray(5000, 5700), a.bytes.subarray(0, 700));
  assert.deepEqual(b.bytes.subarray(6000, 6300), a.bytes.subarray(700, 1000));
  assert.deepEqual([...b.bytes.subarray(8999, 9004)], [0, 1, 2, 3, 0]);
  assert.deepEqual(a.bytes.subarray(20000, 20900), b.bytes.subarray(5000, 5900));
  const values = new BigUint64Array(a.bytes.buffer, 30000, 4);
  assert.deepEqual([...values], [0n, 0xffffffffn, 0x2_0000_0000n, 0xdeadbeef12345678n]);
  assert.equal(new BigUint64Array(b.bytes.buffer, 16, 1)[0], 0xdeadbeef12345678n);
  assert.deepEqual(b.received[0], {
    id: 1,
    status: STATUS.SUCCESS,
    opcode: WC_RECV_RDMA_WITH_IMM,
    byteLength: 300,
    immediate: 77,
    flags: WC_WITH_IMM,
    sourceQp: 0,
    solicited: false,
  });
});

test('an unsignaled request makes a completion only when it fails', () => {
  const pair = Pair.rc();
  pair.a.post(WRITE, 1, 0, 8, { ...remote(pair.b, 0), flags: 0 });
  pair.a.post(WRITE, 2, 0, 8, { remoteAddress: 1, remoteKey: 0, flags: 0 });
  pair.run();
  assert.deepEqual(statuses(pair.a), ['2:REM_ACCESS_ERR']);
});

test('a lost packet is asked for again by one sequence NAK, and the rest follows once', () => {
  const pair = Pair.rc();
  fill(pair.a.bytes, 9);
  let lost = false;
  pair.filter = (_from, p) => {
    if (lost || p.psn !== 0xfffffc) return true;
    lost = true;
    return false;
  };
  pair.a.post(WRITE, 1, 0, 2000, remote(pair.b, 0));
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:SUCCESS']);
  assert.deepEqual(pair.b.bytes.subarray(0, 2000), pair.a.bytes.subarray(0, 2000));
  assert.equal(pair.a.counters.sequenceNaks, 1);
  assert.equal(pair.a.counters.timeouts, 0);
});

test('a lost acknowledge is repaired by the timeout: the duplicate is acknowledged and not carried out again', () => {
  const pair = Pair.rc();
  let lost = 0;
  pair.filter = (from) => from === pair.a || lost++ > 0;
  pair.b.postReceive(1, 0, 100);
  pair.b.postReceive(2, 100, 100);
  pair.a.post(SEND, 1, 0, 10);
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:SUCCESS']);
  assert.equal(pair.b.received.length, 1);
  assert.equal(pair.a.counters.timeouts, 1);
  assert.equal(pair.now >= 4096 * 64, true);
});

test('a lost READ response in the middle is read again from there only', () => {
  const pair = Pair.rc();
  fill(pair.b.bytes, 5);
  let lost = false;
  pair.filter = (from, p) => {
    if (lost || from === pair.a || (p.opcode & 31) !== Op.readResponseMiddle) return true;
    lost = true;
    return false;
  };
  pair.a.post(READ, 1, 0, 1024, remote(pair.b, 4096));
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:SUCCESS']);
  assert.deepEqual(pair.a.bytes.subarray(0, 1024), pair.b.bytes.subarray(4096, 5120));
  assert.deepEqual(
    pair.trace.filter((line) => line.startsWith('a>b')),
    ['a>b RC readRequest psn 16777210', 'a>b RC readRequest psn 16777211'],
  );
});

test('an atomic whose answer was lost is answered from memory of it, not carried out twice', () => {
  const pair = Pair.rc();
  let lost = 0;
  pair.filter = (from) => from === pair.a || lost++ > 0;
  pair.a.post(FAA, 1, 0, 8, { ...remote(pair.b, 64), swapLo: 5, swapHi: 0 });
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:SUCCESS']);
  assert.equal(pair.b.bytes[64], 5);
  assert.equal(pair.a.bytes[0], 0);
});

test('a receiver that is not ready delays the sender by its timer, endlessly with rnrRetry 7', () => {
  const pair = Pair.rc({ minRnrTimer: 20 });
  pair.a.post(SEND, 1, 0, 300);
  let isPosted = false;
  pair.run(() => {
    if (!isPosted && pair.now > 30_000_000) {
      isPosted = true;
      pair.b.postReceive(4, 0, 300);
    }
    return pair.a.sent.length > 0;
  });
  assert.deepEqual(statuses(pair.a), ['1:SUCCESS']);
  assert.equal(pair.a.counters.rnrNaks, 3, '10.24 ms each');
});

test('a finite rnrRetry ends in RNR_RETRY_EXC_ERR after exactly that many retries', () => {
  const pair = Pair.rc({ rnrRetry: 2 });
  pair.a.post(SEND, 1, 0, 8);
  pair.a.post(SEND, 2, 0, 8);
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:RNR_RETRY_EXC_ERR', '2:WR_FLUSH_ERR']);
  assert.equal(pair.a.counters.rnrNaks, 3);
  assert.deepEqual(pair.a.events, ['QP_FATAL']);
});

test('silence ends in RETRY_EXC_ERR after the retries, which wait 2, 4 and then always 4 timeouts', () => {
  const pair = Pair.rc({ retryCount: 3, timeout: 10 });
  pair.filter = () => false;
  pair.a.post(WRITE, 1, 0, 8, remote(pair.b, 0));
  pair.a.post(READ, 2, 0, 8, remote(pair.b, 0));
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:RETRY_EXC_ERR', '2:WR_FLUSH_ERR']);
  assert.equal(pair.now, (1 + 2 + 4 + 4) * 4096 * 1024);
});

for (const [what, opcode, more, status, event] of [
  ['a wrong key', WRITE, { remoteKey: 0x999 }, 'REM_ACCESS_ERR', 'QP_ACCESS_ERR'],
  ['a range outside the region', READ, { remoteAddress: 0x10_0000_0000 + 65530 }, 'REM_ACCESS_ERR', 'QP_ACCESS_ERR'],
  ['an address below the region', WRITE, { remoteAddress: 5 }, 'REM_ACCESS_ERR', 'QP_ACCESS_ERR'],
  ['a misaligned atomic', FAA, { remoteAddress: 0x10_0000_0000 + 4 }, 'REM_INV_REQ_ERR', 'QP_REQ_ERR'],
  ['an atomic with a wrong key', CAS, { remoteKey: 0x999 }, 'REM_ACCESS_ERR', 'QP_ACCESS_ERR'],
] as const) {
  test(`${what} is refused: ${status} at the requester, nothing written, both ends in error`, () => {
    const pair = Pair.rc();
    pair.a.bytes.fill(7);
    pair.b.postReceive(3, 0, 10);
    pair.a.post(opcode, 1, 0, 8, { ...remote(pair.b, 0), ...more });
    pair.a.post(SEND, 2, 0, 8);
    pair.run();
    assert.deepEqual(statuses(pair.a), [`1:${status}`, '2:WR_FLUSH_ERR']);
    assert.deepEqual(pair.b.events, [event]);
    assert.deepEqual(
      pair.b.received.map((c) => c.status),
      [STATUS.WR_FLUSH_ERR],
    );
    assert.ok(pair.b.bytes.every((v) => v === 0));
  });
}

test('a refusal that is lost on the way is repeated, and so is the answer before it', () => {
  const pair = Pair.rc();
  let lost = 0;
  pair.filter = (from) => from === pair.a || lost++ > 2;
  pair.b.bytes.fill(9);
  pair.a.post(READ, 1, 0, 16, remote(pair.b, 64));
  pair.a.post(WRITE, 2, 0, 8, { remoteAddress: 1, remoteKey: 1 });
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:SUCCESS', '2:REM_ACCESS_ERR']);
  assert.equal(pair.a.bytes[15], 9);
});

test('what the queue pair itself does not allow is an invalid request', () => {
  for (const [opcode, access] of [
    [WRITE, ACCESS_REMOTE_READ],
    [READ, ALL_ACCESS & ~ACCESS_REMOTE_READ],
    [FAA, ACCESS_REMOTE_READ],
  ]) {
    const pair = Pair.rc({}, { access });
    pair.a.post(opcode, 1, 0, 8, remote(pair.b, 0));
    pair.run();
    assert.deepEqual(statuses(pair.a), ['1:REM_INV_REQ_ERR']);
  }
});

test('a SEND longer than the receive buffer is LOC_LEN_ERR there and REM_INV_REQ_ERR here', () => {
  const pair = Pair.rc();
  pair.b.postReceive(1, 0, 300);
  pair.a.post(SEND, 1, 0, 301);
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:REM_INV_REQ_ERR']);
  assert.deepEqual(
    pair.b.received.map((c) => statusName(c.status)),
    ['LOC_LEN_ERR'],
  );
});

test('a receive buffer that may not be written is LOC_PROT_ERR there and REM_OP_ERR here', () => {
  const pair = Pair.rc();
  const readOnly = pair.b.table.register(1, new Uint8Array(100), pair.b.base, ACCESS_REMOTE_READ);
  const w = pair.b.receiveWork;
  w.id = 1;
  w.sgeCount = 1;
  w.sgeAddress[0] = pair.b.base;
  w.sgeLength[0] = 100;
  w.sgeKey[0] = readOnly;
  pair.b.receiveQueue.push(w);
  pair.a.post(SEND, 1, 0, 10);
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:REM_OP_ERR']);
  assert.deepEqual(
    pair.b.received.map((c) => statusName(c.status)),
    ['LOC_PROT_ERR'],
  );
});

test('local memory that is not registered fails the request when its turn comes, after the earlier ones succeeded', () => {
  const pair = Pair.rc();
  pair.a.post(WRITE, 1, 0, 1000, remote(pair.b, 0));
  pair.a.post(WRITE, 2, 0, 8, { ...remote(pair.b, 0), sgeKey: Uint32Array.of(0x777) });
  pair.a.post(WRITE, 3, 0, 8, remote(pair.b, 0));
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:SUCCESS', '2:LOC_PROT_ERR', '3:WR_FLUSH_ERR']);
});

test('a READ into memory that may not be written locally is LOC_PROT_ERR', () => {
  const pair = Pair.rc();
  const key = pair.a.table.register(1, pair.a.bytes, pair.a.base, ALL_ACCESS & ~ACCESS_LOCAL_WRITE);
  pair.a.post(READ, 1, 0, 8, { ...remote(pair.b, 0), sgeKey: Uint32Array.of(key) });
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:LOC_PROT_ERR']);
});

test('READs and atomics outstanding never exceed maxRdAtomic, and with 0 they are refused locally', () => {
  const pair = Pair.rc({ maxRdAtomic: 2, maxDestRdAtomic: 2 });
  for (let i = 0; i < 6; i++) pair.a.post(READ, i, 0, 300, remote(pair.b, 0));
  pair.pump();
  assert.equal(pair.trace.length, 2);
  pair.run();
  assert.equal(statuses(pair.a).filter((s) => s.endsWith('SUCCESS')).length, 6);
  const none = Pair.rc({ maxRdAtomic: 0 });
  none.a.post(READ, 1, 0, 8, remote(none.b, 0));
  none.run();
  assert.deepEqual(statuses(none.a), ['1:LOC_QP_OP_ERR']);
});

test('a requester that has more READs outstanding than the responder remembers gets an invalid request', () => {
  const pair = Pair.rc({ maxRdAtomic: 4 }, { maxDestRdAtomic: 0 });
  pair.a.post(READ, 1, 0, 8, remote(pair.b, 0));
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:REM_INV_REQ_ERR']);
});

test('a fenced request waits for the READs before it', () => {
  const pair = Pair.rc();
  pair.a.post(READ, 1, 0, 8, remote(pair.b, 0));
  pair.a.post(WRITE, 2, 100, 8, { ...remote(pair.b, 0), flags: SendFlag.signaled | SendFlag.fence });
  pair.pump();
  assert.equal(pair.trace.length, 1);
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:SUCCESS', '2:SUCCESS']);
});

test('no more packets are outstanding than the window allows, and a long message still flows', () => {
  const pair = Pair.rc({ window: 4 });
  fill(pair.a.bytes, 8);
  pair.a.post(WRITE, 1, 0, 20_000, remote(pair.b, 0));
  pair.pump();
  assert.equal(pair.trace.length, 4);
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:SUCCESS']);
  assert.equal(pair.a.counters.timeouts, 0, 'the last packet of the window asks for an acknowledge');
  assert.deepEqual(pair.b.bytes.subarray(0, 20_000), pair.a.bytes.subarray(0, 20_000));
});

test('a loss makes the window small, and acknowledges make it grow again', () => {
  const pair = Pair.rc({ window: 32 });
  let lost = false;
  pair.filter = (_from, p) => {
    if (lost || p.psn !== 3) return true;
    lost = true;
    return false;
  };
  pair.a.post(WRITE, 1, 0, 32 * 256, remote(pair.b, 0));
  pair.a.post(WRITE, 2, 0, 60_000, remote(pair.b, 0));
  let most = 0;
  let inFlight = 0;
  pair.run(() => {
    inFlight = (pair.a.endpoint as RcEndpoint).requester.inFlight;
    if (lost && pair.a.counters.retransmitted > 0) most = Math.max(most, inFlight);
    return pair.a.sent.length === 2;
  });
  assert.equal(pair.a.sent.length, 2);
  assert.ok(most >= 20, `${most} packets were outstanding again`);
});

test('draining finishes what was posted, starts nothing after it, and resumes', () => {
  const pair = Pair.rc();
  pair.a.post(WRITE, 1, 0, 8, remote(pair.b, 0));
  pair.pump();
  (pair.a.endpoint as RcEndpoint).requester.drain();
  pair.a.post(WRITE, 2, 0, 8, remote(pair.b, 0));
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:SUCCESS']);
  assert.deepEqual(pair.a.events, ['SQ_DRAINED']);
  (pair.a.endpoint as RcEndpoint).requester.resume();
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:SUCCESS', '2:SUCCESS']);
});

test('flush completes everything posted, and what is posted afterwards', () => {
  const pair = Pair.rc();
  pair.a.post(WRITE, 1, 0, 8, remote(pair.b, 0));
  pair.a.postReceive(5, 0, 8);
  pair.a.endpoint.flush();
  pair.a.post(WRITE, 2, 0, 8, { ...remote(pair.b, 0), flags: 0 });
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:WR_FLUSH_ERR', '2:WR_FLUSH_ERR']);
  assert.equal(pair.a.received[0].status, STATUS.WR_FLUSH_ERR);
  assert.deepEqual(pair.trace, []);
});

test('memory that is deregistered in the middle of a READ is refused from there on', () => {
  const pair = Pair.rc();
  pair.a.post(READ, 1, 0, 1024, remote(pair.b, 0));
  let answers = 0;
  pair.filter = (from) => {
    if (from === pair.b && ++answers === 2) pair.b.table.revoke(pair.b.key);
    return true;
  };
  pair.run();
  assert.deepEqual(statuses(pair.a), ['1:REM_ACCESS_ERR']);
  assert.deepEqual(pair.b.events, ['QP_ACCESS_ERR']);
});

test('a Middle without a First, a First in the middle, and packets of the wrong length are invalid requests', () => {
  const edits: readonly ((p: Packet, bytes: Uint8Array) => void)[] = [
    (p, bytes) => {
      if ((p.opcode & 31) === Op.writeFirst) bytes[0] = Op.sendMiddle;
    },
    (p, bytes) => {
      if ((p.opcode & 31) === Op.writeMiddle) bytes[0] = Op.sendMiddle;
    },
    (p, bytes) => {
      if ((p.opcode & 31) === Op.writeMiddle) bytes[0] = Op.writeLast;
    },
    (p, bytes) => {
      if ((p.opcode & 31) === Op.writeLast) bytes[0] = Op.writeMiddle;
    },
    (p, bytes) => {
      if ((p.opcode & 31) === Op.writeFirst) bytes[27] += 1;
    },
  ];
  for (const [i, edit] of edits.entries()) {
    const pair = Pair.rc();
    pair.filter = (from, p, bytes) => {
      if (from === pair.a) edit(p, bytes);
      return true;
    };
    pair.a.post(WRITE, 1, 0, 700, remote(pair.b, 0));
    pair.run();
    assert.deepEqual(statuses(pair.a), ['1:REM_INV_REQ_ERR'], `edit ${i}`);
  }
});

test('the syndromes are those of the specification', () => {
  assert.equal(Nak.sequenceError, 0x60);
  assert.equal(rnrSyndrome(12), 0x2c);
});
