/** DC: one initiator reaches any number of targets without connections, with the operations of RC. */

import assert from 'node:assert/strict';
import type { AddressHandle, QueuePair, SharedReceiveQueue } from '../../src/verbs/index.js';
import { assertBytes, fillPattern, patternOf } from './payload.js';
import { assertFailed, type Chapter, needAtomics, needSrq, needType, type Side, type Stage, verbsError } from './stage.js';

interface Target {
  dct: QueuePair;
  srq: SharedReceiveQueue;
  destination: { ah: AddressHandle; remoteQpn: number; dcKey: number };
}

async function target(stage: Stage, side: Side, dcKey: number, from: Side = stage.a): Promise<Target> {
  const srq = side.srq();
  const dct = side.qp({ type: 'DCT', srq, dcKey });
  await dct.connect();
  const address = dct.address();
  return { dct, srq, destination: { ah: stage.keep(from.pd.createAh(address.av)), remoteQpn: address.qpNum, dcKey } };
}

async function initiator(side: Side, init = {}): Promise<QueuePair> {
  const dci = side.qp({ type: 'DCI', ...init });
  await dci.connect();
  return dci;
}

export const dynamicConnections: Chapter = {
  title: 'dynamic connections',
  register(test) {
    const needs = [needType('DCI'), needType('DCT'), needSrq];

    test(
      'one initiator sends to many targets, in order to each',
      async (stage) => {
        const { a, b } = stage;
        const dci = await initiator(a);
        const targets = await Promise.all(Array.from({ length: 6 }, (_, i) => target(stage, b, 100 + i)));
        const far = b.memory(6 * 10 * 64);
        for (const [t, { srq }] of targets.entries()) {
          for (let k = 0; k < 10; k++) srq.postRecv({ sgl: [far.slice((t * 10 + k) * 64, 64)], id: t * 10 + k });
        }
        for (let k = 0; k < 10; k++) {
          for (const [t, { destination }] of targets.entries()) {
            dci.postSend({
              opcode: 'SEND_WITH_IMM',
              inlineData: patternOf(40, t * 10 + k),
              imm: t * 10 + k,
              id: t * 10 + k,
              ...destination,
            });
          }
        }
        const sent = await a.inbox.succeed(60);
        assert.deepEqual(
          sent.map((completion) => completion.id),
          Array.from({ length: 60 }, (_, i) => (i % 6) * 10 + Math.floor(i / 6)),
        );
        const received = await b.inbox.succeed(60);
        for (const [t, { dct }] of targets.entries()) {
          const own = received.filter((completion) => completion.qpNum === dct.qpNum);
          assert.deepEqual(
            own.map((completion) => completion.id),
            Array.from({ length: 10 }, (_, k) => t * 10 + k),
          );
          for (const completion of own) {
            assert.equal(completion.imm, completion.id);
            assert.equal(completion.byteLen, 40, 'no route header on DC');
            assertBytes(far.bytes.subarray(completion.id * 64, completion.id * 64 + 40), patternOf(40, completion.id), 'message');
          }
        }
      },
      ...needs,
    );

    test(
      'many initiators of several devices reach one target',
      async (stage) => {
        const { a, b } = stage;
        const { srq, dct, destination } = await target(stage, b, 7);
        const own = { ...destination, ah: stage.keep(b.pd.createAh(dct.address().av)) };
        const initiators = await Promise.all(Array.from({ length: 10 }, (_, i) => initiator(i % 2 === 0 ? a : b)));
        for (let id = 0; id < 50; id++) srq.postRecv({ id });
        for (let k = 0; k < 5; k++) {
          for (const [i, dci] of initiators.entries()) {
            dci.postSend({ opcode: 'SEND_WITH_IMM', imm: i * 10 + k, ...(i % 2 === 0 ? destination : own) });
          }
        }
        await a.inbox.succeed(25);
        const received = (await b.inbox.succeed(75)).filter((completion) => completion.opcode === 'RECV');
        assert.equal(received.length, 50);
        for (const [i] of initiators.entries()) {
          const imms = received.map((completion) => completion.imm ?? 0).filter((imm) => Math.floor(imm / 10) === i);
          assert.deepEqual(
            imms,
            [0, 1, 2, 3, 4].map((k) => i * 10 + k),
            'order per initiator',
          );
        }
      },
      ...needs,
    );

    test(
      'WRITE, WRITE_WITH_IMM and READ work on every target',
      async (stage) => {
        const { a, b } = stage;
        const dci = await initiator(a);
        const size = stage.scaled(1 << 20);
        const near = a.memory(size);
        const targets = await Promise.all([target(stage, b, 1), target(stage, b, 2)]);
        for (const [t, { srq, destination }] of targets.entries()) {
          const far = b.memory(size);
          const remote = { remoteAddr: far.addr + 1, rkey: far.rkey };
          fillPattern(near.bytes, t + 1);
          dci.postSend({ opcode: 'RDMA_WRITE', sgl: [near.slice(0, size - 1)], ...remote, ...destination });
          await a.inbox.succeed();
          assertBytes(far.bytes.subarray(1), near.bytes.subarray(0, size - 1), 'WRITE');
          srq.postRecv({ id: 5 });
          dci.postSend({ opcode: 'RDMA_WRITE_WITH_IMM', sgl: [near.slice(100, 50)], imm: 8, ...remote, ...destination });
          await a.inbox.succeed();
          const [received] = await b.inbox.succeed();
          assert.equal(received.opcode, 'RECV_RDMA_WITH_IMM');
          assert.equal(received.imm, 8);
          assert.equal(received.byteLen, 50);
          fillPattern(far.bytes, t + 7);
          dci.postSend({ opcode: 'RDMA_READ', sgl: [near.slice(0, size - 1)], ...remote, ...destination });
          assert.equal((await a.inbox.succeed())[0].byteLen, size - 1);
          assertBytes(near.bytes.subarray(0, size - 1), far.bytes.subarray(1), 'READ');
        }
      },
      ...needs,
    );

    test(
      'atomics work on every target',
      async (stage) => {
        const { a, b } = stage;
        const dci = await initiator(a);
        const near = a.memory(8);
        const result = new BigUint64Array(near.bytes.buffer, near.bytes.byteOffset, 1);
        for (const dcKey of [1, 2]) {
          const { destination } = await target(stage, b, dcKey);
          const far = b.memory(8);
          const word = new BigUint64Array(far.bytes.buffer, far.bytes.byteOffset, 1);
          const remote = { sgl: [near.slice()], remoteAddr: far.addr, rkey: far.rkey, ...destination };
          dci.postSend({ opcode: 'ATOMIC_FETCH_AND_ADD', add: 5n, ...remote });
          await a.inbox.succeed();
          assert.equal(result[0], 0n);
          dci.postSend({ opcode: 'ATOMIC_CMP_AND_SWP', compare: 5n, swap: 9n, ...remote });
          await a.inbox.succeed();
          assert.equal(result[0], 5n);
          assert.equal(word[0], 9n);
        }
      },
      ...needs,
      needAtomics,
    );

    test(
      'the prepared form names the target once',
      async (stage) => {
        const { a, b } = stage;
        const dci = await initiator(a);
        const { destination } = await target(stage, b, 3);
        const near = a.memory(1024);
        const far = b.memory(1024);
        fillPattern(near.bytes, 1);
        dci.prepare({ opcode: 'RDMA_WRITE', local: near, remote: far.remote(), ...destination }).post(10, 500, 3, 20);
        assert.equal((await a.inbox.succeed())[0].id, 3);
        assertBytes(far.bytes.subarray(20, 520), near.bytes.subarray(10, 510), 'prepared');
      },
      ...needs,
    );

    test(
      'a wrong access key is an error of the request, and moves nothing',
      async (stage) => {
        const { a, b } = stage;
        const dci = await initiator(a, {});
        const { destination, srq } = await target(stage, b, 3);
        const far = b.memory(64);
        srq.postRecv({ sgl: [far.slice()], id: 1 });
        const request = { opcode: 'RDMA_WRITE' as const, inlineData: patternOf(8, 1), remoteAddr: far.addr, rkey: far.rkey };
        dci.postSend({ ...request, ...destination, dcKey: 4, id: 5 });
        const failed = await a.inbox.fail('REM_ACCESS_ERR', 'RETRY_EXC_ERR', 'REM_INV_REQ_ERR', 'REM_OP_ERR');
        assert.equal(failed.id, 5);
        assert.ok(far.bytes.every((byte) => byte === 0));
        assert.equal(dci.state, 'ERR');
        dci.postSend({ ...request, ...destination, id: 6 });
        assertFailed(await a.inbox.one(), 'WR_FLUSH_ERR');
        await dci.connect();
        dci.postSend({ ...request, ...destination, id: 7 });
        await a.inbox.succeed();
        assertBytes(far.bytes.subarray(0, 8), patternOf(8, 1), 'after RESET');
        assert.equal(b.inbox.list.length, 0);
      },
      ...needs,
    );

    test(
      'a wrong remote key is REM_ACCESS_ERR, the other targets stay reachable after RESET',
      async (stage) => {
        const { a, b } = stage;
        const dci = await initiator(a);
        const targets = await Promise.all([target(stage, b, 1), target(stage, b, 2)]);
        const far = b.memory(64);
        const request = { opcode: 'RDMA_WRITE' as const, inlineData: patternOf(8, 1), remoteAddr: far.addr };
        dci.postSend({ ...request, rkey: far.rkey ^ 0x99, ...targets[0].destination });
        await a.inbox.fail('REM_ACCESS_ERR');
        await dci.connect();
        for (const { destination } of targets) {
          dci.postSend({ ...request, rkey: far.rkey, ...destination });
          await a.inbox.succeed();
        }
      },
      ...needs,
    );

    test(
      'a target that is not there is RETRY_EXC_ERR, one without receive requests is RNR_RETRY_EXC_ERR',
      async (stage) => {
        const { a, b } = stage;
        const dci = a.qp({ type: 'DCI' });
        await dci.connect(undefined, { rnrRetry: 1 });
        const { destination, dct } = await target(stage, b, 3);
        dci.postSend({ opcode: 'SEND', ...destination, id: 1 });
        assert.equal((await a.inbox.fail('RNR_RETRY_EXC_ERR')).id, 1);
        await dci.connect(undefined, { timeout: 8, retryCnt: 1 });
        dct.close();
        dci.postSend({ opcode: 'SEND', ...destination, id: 2 });
        assert.equal((await a.inbox.fail('RETRY_EXC_ERR')).id, 2);
      },
      ...needs,
    );

    test(
      'a target in RESET or INIT does not answer',
      async (stage) => {
        const { a, b } = stage;
        const dci = a.qp({ type: 'DCI' });
        await dci.connect(undefined, { timeout: 8, retryCnt: 1 });
        const dct = b.qp({ type: 'DCT', srq: b.srq(), dcKey: 1 });
        const { av, qpNum } = dct.address();
        const ah = stage.keep(a.pd.createAh(av));
        dci.postSend({ opcode: 'SEND', ah, remoteQpn: qpNum, dcKey: 1 });
        await a.inbox.fail('RETRY_EXC_ERR');
        assert.throws(() => dct.postRecv({}), verbsError(['VERBS_ILLEGAL', 'VERBS_INVALID']));
      },
      ...needs,
    );
  },
};
