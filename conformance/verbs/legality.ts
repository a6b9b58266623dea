/** What a queue pair refuses at once: operations of other types, bad fields, too long lists. A refused request leaves everything as it was. */

import assert from 'node:assert/strict';
import {
  isLegalOpcode,
  OPCODES,
  type Opcode,
  type QueuePair,
  type SendWorkRequest,
  type VerbsErrorCode,
} from '../../src/verbs/index.js';
import { type Chapter, type End, needSrq, needType, type Stage, verbsError } from './stage.js';

/** Requests of every operation, complete but for the operation being legal. */
function requestOf(opcode: Opcode, local: { addr: number; length: number; lkey: number }): SendWorkRequest {
  return { opcode, sgl: [{ ...local, length: 8 }], remoteAddr: 4096, rkey: 1, imm: 1, add: 1n, compare: 1n, swap: 1n };
}

async function endOf(
  stage: Stage,
  type: 'RC' | 'UC' | 'UD' | 'DCI',
): Promise<{ qp: QueuePair; end: End | undefined; extra: object }> {
  if (type === 'RC' || type === 'UC') {
    const [end] = await stage.connected({ type });
    return { qp: end.qp, end, extra: {} };
  }
  const qp = stage.a.qp({ type });
  await qp.connect();
  const ah = stage.keep(stage.a.pd.createAh(stage.b.qp().address().av));
  return { qp, end: undefined, extra: type === 'UD' ? { ah, remoteQpn: 5, remoteQkey: 6 } : { ah, remoteQpn: 5, dcKey: 6 } };
}

export const legality: Chapter = {
  title: 'legality',
  register(test) {
    for (const type of ['RC', 'UC', 'UD', 'DCI'] as const) {
      for (const opcode of OPCODES.filter((name) => !isLegalOpcode(type, name))) {
        test(
          `${type} refuses ${opcode}, and stays usable`,
          async (stage) => {
            const { qp, extra } = await endOf(stage, type);
            const local = stage.a.memory(64);
            const request = { ...requestOf(opcode, local.slice(0, 8)), ...extra };
            assert.throws(() => qp.postSend(request), verbsError('VERBS_ILLEGAL', 0));
            assert.throws(() => qp.prepare({ opcode, local, remote: local.remote(), ...extra }), verbsError('VERBS_ILLEGAL'));
            assert.equal(qp.state, 'RTS');
          },
          needType(type),
        );
      }
    }

    const BAD: readonly [string, VerbsErrorCode, (request: SendWorkRequest) => SendWorkRequest][] = [
      ['an unknown opcode', 'VERBS_INVALID', (r) => ({ ...r, opcode: 'NOP' as Opcode })],
      ['a WRITE without rkey', 'VERBS_INVALID', (r) => ({ ...r, rkey: undefined })],
      ['a WRITE without remoteAddr', 'VERBS_INVALID', (r) => ({ ...r, remoteAddr: undefined })],
      ['an id that is no safe integer', 'VERBS_INVALID', (r) => ({ ...r, id: 2 ** 60 })],
      ['immediate data of more than 32 bits', 'VERBS_INVALID', (r) => ({ ...r, opcode: 'SEND_WITH_IMM', imm: 2 ** 32 })],
      ['immediate data left out', 'VERBS_INVALID', (r) => ({ ...r, opcode: 'RDMA_WRITE_WITH_IMM', imm: undefined })],
      ['more elements than maxSendSge', 'VERBS_INVALID', (r) => ({ ...r, sgl: Array(5).fill(r.sgl?.[0]) })],
      ['more inline bytes than maxInline', 'VERBS_INVALID', (r) => ({ ...r, sgl: [], inlineData: new Uint8Array(257) })],
      ['an inline READ', 'VERBS_INVALID', (r) => ({ ...r, opcode: 'RDMA_READ', inline: true })],
      ['sgl and inlineData together', 'VERBS_INVALID', (r) => ({ ...r, inlineData: new Uint8Array(1) })],
      ['an atomic on an unaligned address', 'VERBS_INVALID', (r) => ({ ...r, opcode: 'ATOMIC_FETCH_AND_ADD', remoteAddr: 4097 })],
      ['an atomic without operand', 'VERBS_INVALID', (r) => ({ ...r, opcode: 'ATOMIC_CMP_AND_SWP', swap: undefined })],
      [
        'an atomic with four bytes for the result',
        'VERBS_INVALID',
        (r) => ({ ...atomic(r), sgl: [{ ...r.sgl![0], length: 4 }] }),
      ],
    ];
    const atomic = (r: SendWorkRequest): SendWorkRequest => ({ ...r, opcode: 'ATOMIC_FETCH_AND_ADD' });
    for (const [what, code, spoil] of BAD) {
      test(`postSend refuses ${what}, by itself and in a chain after good requests`, async (stage) => {
        const [one, two] = await stage.connected();
        const local = one.side.memory(64);
        const target = two.side.memory(64);
        const remote = { remoteAddr: target.addr, rkey: target.rkey };
        const bad = spoil({ ...requestOf('RDMA_WRITE', local.slice(0, 8)), ...remote, id: 9 });
        assert.throws(() => one.qp.postSend(bad), verbsError(code, 0));
        const good: SendWorkRequest = { opcode: 'RDMA_WRITE', sgl: [local.slice(0, 8)], ...remote };
        assert.throws(
          () => one.qp.postSend([{ ...good, id: 1 }, { ...good, id: 2 }, bad, { ...good, id: 3 }]),
          verbsError(code, 2),
        );
        const done = await one.inbox.succeed(2);
        assert.deepEqual(
          done.map((completion) => completion.id),
          [1, 2],
          'the requests before the bad one are posted',
        );
        one.qp.postSend({ ...good, id: 4 });
        assert.equal((await one.inbox.succeed())[0].id, 4, 'nothing after the bad one was posted');
        assert.equal(one.qp.state, 'RTS');
      });
    }

    test('postRecv refuses too many elements and ids that are none, and names them in a chain', async (stage) => {
      const [one] = await stage.connected();
      const memory = one.side.memory(64);
      const long = { sgl: Array(one.qp.maxRecvSge + 1).fill(memory.slice(0, 8)) };
      assert.throws(() => one.qp.postRecv(long), verbsError('VERBS_INVALID', 0));
      assert.throws(() => one.qp.postRecv([{ id: 1 }, { id: 2 }, long]), verbsError('VERBS_INVALID', 2));
      assert.throws(() => one.qp.postRecv({ id: 0.5 }), verbsError('VERBS_INVALID', 0));
      one.qp.modify('ERR');
      const flushed = await one.inbox.take(2);
      assert.deepEqual(
        flushed.map((completion) => completion.id),
        [1, 2],
        'the requests before the bad one were posted',
      );
    });

    test(
      'a queue pair with a shared receive queue takes no receives of its own',
      async (stage) => {
        const [one] = await stage.connected({ init: [{ srq: stage.a.srq() }, {}] });
        assert.throws(() => one.qp.postRecv({ id: 1 }), verbsError(['VERBS_ILLEGAL', 'VERBS_INVALID']));
      },
      needSrq,
    );

    test(
      'a DC target takes no sends, and needs a shared receive queue',
      async ({ a }) => {
        const cq = a.cq();
        assert.throws(() => a.pd.createQp({ type: 'DCT', sendCq: cq, recvCq: cq }), verbsError('VERBS_INVALID'));
        const dct = a.qp({ type: 'DCT', srq: a.srq() });
        await dct.connect();
        assert.throws(() => dct.postSend({ opcode: 'SEND' }), verbsError('VERBS_ILLEGAL', 0));
      },
      needType('DCT'),
      needSrq,
    );

    test('prepare refuses what postSend would', async (stage) => {
      const [one] = await stage.connected();
      const local = one.side.memory(64);
      const remote = local.remote();
      assert.throws(() => one.qp.prepare({ opcode: 'RDMA_WRITE', local }), verbsError('VERBS_INVALID'), 'no remote');
      assert.throws(() => one.qp.prepare({ opcode: 'NOP' as Opcode, local, remote }), verbsError('VERBS_INVALID'));
      assert.throws(() => one.qp.prepare({ opcode: 'RDMA_READ', local, remote, inline: true }), verbsError('VERBS_INVALID'));
      for (const signaledEvery of [0, -1, 65536, 1.5]) {
        assert.throws(() => one.qp.prepare({ opcode: 'SEND', local, signaledEvery }), verbsError('VERBS_INVALID'));
      }
      const send = one.qp.prepare({ opcode: 'SEND', local, inline: true });
      assert.throws(() => send.post(0, 257, 1), verbsError('VERBS_INVALID'), 'more than maxInline or than the region');
    });

    test('multicast is for UD alone, and the group is a multicast GID', async (stage) => {
      const [one] = await stage.connected();
      assert.throws(() => one.qp.attachMulticast('ff0e::1'), verbsError(['VERBS_ILLEGAL', 'VERBS_UNSUPPORTED']));
      if (!stage.capabilities.qpTypes.includes('UD') || !stage.capabilities.multicast) return;
      const ud = stage.a.qp({ type: 'UD' });
      await ud.connect();
      assert.throws(() => ud.attachMulticast('fe80::1'), verbsError(['VERBS_INVALID', 'VERBS_ILLEGAL']));
      assert.throws(() => ud.attachMulticast('nonsense'), verbsError(['VERBS_INVALID', 'VERBS_ILLEGAL']));
    });
  },
};
