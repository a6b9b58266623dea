/** The life of a queue pair: the walk from RESET to RTS, what each state allows, errors, draining, and the way back. */

import assert from 'node:assert/strict';
import type { QpAttributes, QpState, QpType, QueuePair } from '../../src/verbs/index.js';
import { findTransition, QP_STATES, transitionFault } from '../../src/verbs/index.js';
import { assertBytes, patternOf } from './payload.js';
import { assertFailed, type Chapter, needSrq, needType, type Side, verbsError } from './stage.js';

const INIT = { pkeyIndex: 0, port: 1 };

/** Attributes of the walk of each type, as ibv_modify_qp(3) requires them. */
function walk(type: QpType, own: QueuePair, peer: QueuePair): [QpState, QpAttributes][] {
  const { psn, mtu } = own.address();
  const there = peer.address();
  const reach = { av: there.av, pathMtu: Math.min(mtu, there.mtu), destQpNum: there.qpNum, rqPsn: there.psn };
  const sender = { sqPsn: psn, maxRdAtomic: 4, retryCnt: 7, rnrRetry: 7, timeout: 14 };
  switch (type) {
    case 'RC':
      return [
        ['INIT', { ...INIT, accessFlags: 15 }],
        ['RTR', { ...reach, maxDestRdAtomic: 4, minRnrTimer: 1 }],
        ['RTS', sender],
      ];
    case 'UC':
      return [
        ['INIT', { ...INIT, accessFlags: 3 }],
        ['RTR', reach],
        ['RTS', { sqPsn: psn }],
      ];
    case 'UD':
      return [
        ['INIT', { ...INIT, qkey: 5 }],
        ['RTR', {}],
        ['RTS', { sqPsn: psn }],
      ];
    case 'DCI':
      return [
        ['INIT', INIT],
        ['RTR', { pathMtu: mtu }],
        ['RTS', sender],
      ];
    case 'DCT':
      return [
        ['INIT', { ...INIT, accessFlags: 15 }],
        ['RTR', { pathMtu: mtu, minRnrTimer: 1, maxDestRdAtomic: 4 }],
      ];
  }
}

function make(side: Side, type: QpType): QueuePair {
  return side.qp({ type, ...(type === 'DCT' ? { srq: side.srq() } : {}) });
}

export const lifeCycle: Chapter = {
  title: 'life cycle',
  register(test) {
    for (const type of ['RC', 'UC', 'UD', 'DCI', 'DCT'] as const) {
      const needs = type === 'DCT' ? [needType(type), needSrq] : [needType(type)];

      test(
        `${type} walks from RESET to its last state, and query shows the attributes`,
        (stage) => {
          const own = make(stage.a, type);
          const peer = make(stage.b, type);
          assert.equal(own.state, 'RESET');
          let seen: QpAttributes = {};
          for (const [state, attributes] of walk(type, own, peer)) {
            own.modify(state, attributes);
            seen = { ...seen, ...attributes };
            assert.equal(own.state, state);
            assert.deepEqual(own.query(), { ...seen, state });
          }
          own.modify('ERR');
          assert.equal(own.state, 'ERR');
          own.modify('RESET');
          assert.deepEqual(own.query(), { state: 'RESET' }, 'RESET forgets the attributes');
        },
        ...needs,
      );

      test(
        `${type} refuses every transition that the table does not have, and stays where it is`,
        (stage) => {
          const peer = make(stage.b, type);
          const own = make(stage.a, type);
          const steps = walk(type, own, peer);
          const stays = (from: QpState) => {
            for (const to of QP_STATES) {
              if (transitionFault(type, from, to, {})?.includes('cannot go') !== true) continue;
              assert.throws(() => own.modify(to), verbsError('VERBS_ILLEGAL'), `${from} to ${to}`);
              assert.equal(own.state, from);
            }
          };
          stays('RESET');
          for (const [state, attributes] of steps) {
            for (const name of findTransition(type, own.state, state)?.required ?? []) {
              assert.throws(() => own.modify(state, { ...attributes, [name]: undefined }), verbsError('VERBS_ILLEGAL'), name);
            }
            own.modify(state, attributes);
            stays(state);
          }
          own.modify('ERR');
          stays('ERR');
        },
        ...needs,
      );

      test(
        `connect brings ${type} to its last state in one call`,
        async (stage) => {
          const own = make(stage.a, type);
          const peer = make(stage.b, type);
          await own.connect(peer.address());
          assert.equal(own.state, type === 'DCT' ? 'RTR' : 'RTS');
        },
        ...needs,
      );

      if (type === 'DCT') continue;
      test(
        type === 'DCI'
          ? 'DCI takes sends only from RTS on, and no receives'
          : `${type} takes sends only from RTS on, and receives from INIT on`,
        (stage) => {
          const own = make(stage.a, type);
          const peer = make(stage.b, type);
          const ah = stage.keep(stage.a.pd.createAh(peer.address().av));
          const send = () => own.postSend({ opcode: 'SEND', ah, remoteQpn: peer.qpNum, remoteQkey: 5, dcKey: 0 });
          assert.throws(send, verbsError('VERBS_ILLEGAL', 0), 'RESET');
          assert.throws(() => own.postRecv({}), verbsError('VERBS_ILLEGAL', 0), 'RESET');
          for (const [state, attributes] of walk(type, own, peer)) {
            own.modify(state, attributes);
            if (type === 'DCI') assert.throws(() => own.postRecv({ id: 1 }), verbsError('VERBS_ILLEGAL', 0), state);
            else own.postRecv({ id: 1 });
            if (state !== 'RTS') assert.throws(send, verbsError('VERBS_ILLEGAL', 0), state);
          }
        },
        ...needs,
      );
    }

    test('connect refuses an address of another provider, another type or another format', async ({ a, b }) => {
      const own = a.qp();
      const address = b.qp().address();
      await assert.rejects(own.connect(), verbsError('VERBS_INVALID'));
      await assert.rejects(own.connect({ ...address, provider: 'other' }), verbsError('VERBS_INVALID'));
      await assert.rejects(own.connect({ ...address, type: 'UC' }), verbsError('VERBS_INVALID'));
      await assert.rejects(own.connect({ ...address, v: 2 as 1 }), verbsError('VERBS_INVALID'));
      assert.equal(own.state, 'RESET');
    });

    test('a queue pair in RTR receives already', async (stage) => {
      const { a, b } = stage;
      const [sender, receiver] = [a.qp(), b.qp()];
      const target = b.memory(64);
      for (const [state, attributes] of walk('RC', receiver, sender).slice(0, 2)) receiver.modify(state, attributes);
      receiver.postRecv({ sgl: [target.slice()], id: 5 });
      await sender.connect(receiver.address());
      sender.postSend({ opcode: 'SEND', inlineData: patternOf(13, 1), id: 6 });
      await a.inbox.succeed();
      const [received] = await b.inbox.succeed();
      assert.equal(received.id, 5);
      assert.equal(received.byteLen, 13);
      assertBytes(target.bytes.subarray(0, 13), patternOf(13, 1), 'message');
      assert.equal(receiver.state, 'RTR');
    });

    test('receives posted in INIT are there when the connection is', async (stage) => {
      const { a, b } = stage;
      const [sender, receiver] = [a.qp(), b.qp()];
      const steps = walk('RC', receiver, sender);
      receiver.modify(...steps[0]);
      for (let id = 0; id < 3; id++) receiver.postRecv({ id });
      receiver.modify(...steps[1]);
      await sender.connect(receiver.address());
      for (let id = 0; id < 3; id++) sender.postSend({ opcode: 'SEND', id });
      await a.inbox.succeed(3);
      const received = await b.inbox.succeed(3);
      assert.deepEqual(
        received.map((completion) => completion.id),
        [0, 1, 2],
      );
    });

    test('a queue pair can be connected to itself', async ({ a }) => {
      const qp = a.qp();
      const memory = a.memory(128);
      await qp.connect(qp.address());
      qp.postRecv({ sgl: [memory.slice(64, 64)], id: 1 });
      memory.bytes.set(patternOf(32, 4));
      qp.postSend({ opcode: 'SEND', sgl: [memory.slice(0, 32)], id: 2 });
      await a.inbox.succeed(2);
      assertBytes(memory.bytes.subarray(64, 96), patternOf(32, 4), 'message');
    });

    test('ERR flushes what is outstanding, sends and receives in order, and everything posted later', async (stage) => {
      const [one, two] = await stage.connected();
      for (let id = 0; id < 4; id++) one.qp.postRecv({ id });
      for (let id = 10; id < 14; id++) one.qp.postSend({ opcode: 'SEND', id });
      one.qp.modify('ERR');
      assert.equal(one.qp.state, 'ERR');
      const flushed = await one.inbox.take(8);
      for (const completion of flushed) assertFailed(completion, 'WR_FLUSH_ERR');
      const ids = (opcode: string) => flushed.filter((c) => c.opcode === opcode).map((c) => c.id);
      assert.deepEqual(ids('RECV'), [0, 1, 2, 3]);
      assert.deepEqual(ids('SEND'), [10, 11, 12, 13]);
      one.qp.postRecv({ id: 20 });
      one.qp.postSend({ opcode: 'SEND', id: 21, signaled: false });
      const late = await one.inbox.take(2);
      for (const completion of late) assertFailed(completion, 'WR_FLUSH_ERR');
      assert.deepEqual(late.map((c) => c.id).sort(), [20, 21], 'an unsignaled request that fails completes too');
      assert.equal(two.inbox.list.length, 0, 'nothing reached the peer');
    });

    test('RESET drops what is outstanding without completions, and the pair can connect again', async (stage) => {
      const [one, two] = await stage.connected();
      const source = one.side.memory(256);
      const target = two.side.memory(256);
      for (let round = 0; round < 3; round++) {
        two.qp.postRecv({ id: 1 });
        one.qp.postSend({ opcode: 'SEND', id: 2 });
        await one.inbox.succeed();
        await two.inbox.succeed();
        for (let id = 10; id < 14; id++) two.qp.postRecv({ sgl: [target.slice()], id });
        two.qp.modify('RESET');
        one.qp.modify('RESET');
        await stage.pump();
        assert.deepEqual([...one.inbox.list, ...two.inbox.list], []);
        await one.qp.connect(two.qp.address());
        await two.qp.connect(one.qp.address());
      }
      source.bytes.set(patternOf(256, 9));
      one.qp.postSend({ opcode: 'RDMA_WRITE', sgl: [source.slice()], remoteAddr: target.addr, rkey: target.rkey });
      await one.inbox.succeed();
      assertBytes(target.bytes, patternOf(256, 9), 'after three reconnects');
    });

    test('after an error both ends go back through RESET and work again', async (stage) => {
      const [one, two] = await stage.connected();
      const memory = two.side.memory(64);
      one.qp.postSend({ opcode: 'RDMA_WRITE', inlineData: patternOf(8, 1), remoteAddr: memory.addr, rkey: memory.rkey ^ 77 });
      await one.inbox.fail('REM_ACCESS_ERR');
      assert.equal(one.qp.state, 'ERR');
      await one.qp.connect(two.qp.address());
      await two.qp.connect(one.qp.address());
      one.qp.postSend({ opcode: 'RDMA_WRITE', inlineData: patternOf(8, 2), remoteAddr: memory.addr, rkey: memory.rkey });
      await one.inbox.succeed();
      assertBytes(memory.bytes.subarray(0, 8), patternOf(8, 2), 'after the error');
    });

    test('SQD finishes what was started, says SQ_DRAINED, holds new sends back, and RTS lets them go', async (stage) => {
      const [one, two] = await stage.connected();
      one.qp.postSend({ opcode: 'SEND', id: 1 });
      one.qp.modify('SQD', { enSqdAsyncNotify: true });
      assert.equal(one.qp.state, 'SQD');
      assert.equal(stage.eventsOf(one.device).length, 0, 'not drained while a send waits for a receive');
      two.qp.postRecv({ id: 2 });
      const event = await stage.event(one.device, 'SQ_DRAINED', one.qp.qpNum);
      assert.ok(event.words.length > 0);
      assert.equal((await one.inbox.succeed())[0].id, 1);
      assert.equal((await two.inbox.succeed())[0].id, 2);

      two.qp.postRecv({ id: 3 });
      one.qp.postSend({ opcode: 'SEND', id: 4 });
      await stage.elapse(20);
      assert.deepEqual([...one.inbox.list, ...two.inbox.list], [], 'nothing is sent in SQD');
      one.qp.modify('SQD', { rnrRetry: 6 });
      one.qp.modify('RTS');
      assert.equal((await one.inbox.succeed())[0].id, 4);
      assert.equal((await two.inbox.succeed())[0].id, 3);
    });

    test('SQD of an idle queue pair is drained at once, and without asking there is no event', async (stage) => {
      const [one] = await stage.connected();
      one.qp.modify('SQD', { enSqdAsyncNotify: true });
      await stage.event(one.device, 'SQ_DRAINED', one.qp.qpNum);
      one.qp.modify('RTS');
      one.qp.modify('SQD');
      await stage.elapse(20);
      assert.deepEqual(
        stage.eventsOf(one.device).filter((event) => event.type === 'SQ_DRAINED'),
        [],
      );
    });

    test('closing a queue pair with outstanding requests leaves no completions of it', async (stage) => {
      const [one, two] = await stage.connected();
      for (let id = 0; id < 4; id++) two.qp.postRecv({ id });
      two.qp.close();
      one.qp.close();
      await stage.pump();
      assert.deepEqual([...one.inbox.list, ...two.inbox.list], []);
    });
  },
};
