/** Shared receive queues: one pool of receive requests for many queue pairs, its limit event, its order. */

import assert from 'node:assert/strict';
import type { QueuePair, SharedReceiveQueue } from '../../src/verbs/index.js';
import { assertBytes, patternOf } from './payload.js';
import { assertFailed, type Chapter, needSrq, type Stage, verbsError } from './stage.js';

/** Senders on a, connected to queue pairs on b that share one receive queue. */
async function senders(stage: Stage, srq: SharedReceiveQueue, count: number): Promise<{ one: QueuePair; two: QueuePair }[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const [one, two] = [stage.a.qp(), stage.b.qp({ srq })];
      await one.connect(two.address());
      await two.connect(one.address());
      return { one, two };
    }),
  );
}

export const sharedReceiveQueues: Chapter = {
  title: 'shared receive queues',
  register(test) {
    test(
      'three queue pairs draw from one queue, in order per sender, and each completion names its pair',
      async (stage) => {
        const srq = stage.b.srq({ maxWr: 64 });
        const pairs = await senders(stage, srq, 3);
        const far = stage.b.memory(64 * 64);
        const count = 20;
        for (let id = 0; id < 3 * count; id++) srq.postRecv({ sgl: [far.slice(id * 64, 64)], id });
        for (let i = 0; i < count; i++) {
          for (const [s, { one }] of pairs.entries()) {
            one.postSend({ opcode: 'SEND_WITH_IMM', inlineData: patternOf(33, s * 100 + i), imm: i });
          }
        }
        await stage.a.inbox.succeed(3 * count);
        const received = await stage.b.inbox.succeed(3 * count);
        assert.deepEqual(
          received.map((completion) => completion.id).sort((x, y) => x - y),
          Array.from({ length: 3 * count }, (_, id) => id),
          'every request is used once',
        );
        for (const [s, { two }] of pairs.entries()) {
          const own = received.filter((completion) => completion.qpNum === two.qpNum);
          assert.deepEqual(
            own.map((completion) => completion.imm),
            Array.from({ length: count }, (_, i) => i),
          );
          for (const completion of own) {
            const at = completion.id * 64;
            assertBytes(far.bytes.subarray(at, at + 33), patternOf(33, s * 100 + (completion.imm ?? 0)), `sender ${s}`);
          }
        }
      },
      needSrq,
    );

    test(
      'requests are used in the order they were posted',
      async (stage) => {
        const srq = stage.b.srq();
        const [{ one }] = await senders(stage, srq, 1);
        srq.postRecv([{ id: 5 }, { id: 3 }, { id: 9 }]);
        for (let i = 0; i < 3; i++) one.postSend({ opcode: 'SEND' });
        await stage.a.inbox.succeed(3);
        assert.deepEqual(
          (await stage.b.inbox.succeed(3)).map((completion) => completion.id),
          [5, 3, 9],
        );
      },
      needSrq,
    );

    test(
      'a full queue refuses with VERBS_QUEUE_FULL and the index; a used request makes room',
      async (stage) => {
        const srq = stage.b.srq({ maxWr: 4 });
        const [{ one }] = await senders(stage, srq, 1);
        const size = srq.maxWr;
        const chain = Array.from({ length: size + 2 }, (_, id) => ({ id }));
        assert.throws(() => srq.postRecv(chain), verbsError('VERBS_QUEUE_FULL', size));
        one.postSend({ opcode: 'SEND' });
        await stage.a.inbox.succeed();
        await stage.b.inbox.succeed();
        srq.postRecv({ id: 77 });
        assert.throws(() => srq.postRecv({ id: 78 }), verbsError('VERBS_QUEUE_FULL', 0));
        const long = Array(srq.maxSge + 1).fill(stage.b.memory(64).slice(0, 1));
        assert.throws(() => srq.postRecv({ sgl: long }), verbsError(['VERBS_INVALID', 'VERBS_QUEUE_FULL']));
      },
      needSrq,
    );

    test(
      'the limit event comes once when fewer are left, and again only after arming',
      async (stage) => {
        const srq = stage.b.srq({ maxWr: 16, limit: 3 });
        const [{ one }] = await senders(stage, srq, 1);
        const limits = () => stage.eventsOf(stage.b.device).filter((event) => event.type === 'SRQ_LIMIT_REACHED').length;
        const send = async (n: number) => {
          for (let i = 0; i < n; i++) one.postSend({ opcode: 'SEND' });
          await stage.a.inbox.succeed(n);
          await stage.b.inbox.succeed(n);
          await stage.elapse(5);
        };
        for (let id = 0; id < 6; id++) srq.postRecv({ id });
        await send(3);
        assert.equal(limits(), 0, 'three are left: not fewer than the limit');
        await send(1);
        await stage.event(stage.b.device, 'SRQ_LIMIT_REACHED');
        await send(1);
        assert.equal(limits(), 0, 'once');
        for (let id = 0; id < 6; id++) srq.postRecv({ id });
        await send(6);
        assert.equal(limits(), 0, 'not armed');
        for (let id = 0; id < 3; id++) srq.postRecv({ id });
        srq.setLimit(2);
        await send(3);
        await stage.event(stage.b.device, 'SRQ_LIMIT_REACHED');
        for (const limit of [-1, 0.5, 65537]) assert.throws(() => srq.setLimit(limit), verbsError('VERBS_INVALID'));
      },
      needSrq,
    );

    test(
      'an empty queue is "receiver not ready"; a request posted later is used',
      async (stage) => {
        const srq = stage.b.srq();
        const [{ one }] = await senders(stage, srq, 1);
        one.postSend({ opcode: 'SEND', id: 1 });
        await stage.elapse(10);
        assert.equal(stage.a.inbox.list.length, 0);
        srq.postRecv({ id: 2 });
        await stage.a.inbox.succeed();
        assert.equal((await stage.b.inbox.succeed())[0].id, 2);
      },
      needSrq,
    );

    test(
      'an error of one queue pair leaves the requests to the others, and says QP_LAST_WQE_REACHED',
      async (stage) => {
        const srq = stage.b.srq();
        const pairs = await senders(stage, srq, 2);
        for (let id = 0; id < 4; id++) srq.postRecv({ id });
        pairs[0].two.modify('ERR');
        await stage.event(stage.b.device, 'QP_LAST_WQE_REACHED', pairs[0].two.qpNum);
        assert.equal(stage.b.inbox.list.length, 0, 'nothing of the shared queue is flushed');
        for (let i = 0; i < 4; i++) pairs[1].one.postSend({ opcode: 'SEND' });
        await stage.a.inbox.succeed(4);
        assert.deepEqual(
          (await stage.b.inbox.succeed(4)).map((completion) => completion.id),
          [0, 1, 2, 3],
        );
      },
      needSrq,
    );

    test(
      'a message too long for a shared request is LOC_LEN_ERR here and REM_INV_REQ_ERR there, and spares the other pairs',
      async (stage) => {
        const srq = stage.b.srq();
        const pairs = await senders(stage, srq, 2);
        const far = stage.b.memory(64);
        srq.postRecv([
          { sgl: [far.slice(0, 8)], id: 1 },
          { sgl: [far.slice(8, 8)], id: 2 },
        ]);
        pairs[0].one.postSend({ opcode: 'SEND', inlineData: patternOf(9, 1) });
        assertFailed(await stage.a.inbox.one(), 'REM_INV_REQ_ERR');
        const failed = await stage.b.inbox.fail('LOC_LEN_ERR');
        assert.equal(failed.qpNum, pairs[0].two.qpNum);
        pairs[1].one.postSend({ opcode: 'SEND', inlineData: patternOf(8, 1) });
        await stage.a.inbox.succeed();
        assert.equal((await stage.b.inbox.succeed())[0].id, 2);
      },
      needSrq,
    );

    test(
      'closing a queue pair loses no request of the shared queue',
      async (stage) => {
        const srq = stage.b.srq({ maxWr: 8 });
        const pairs = await senders(stage, srq, 2);
        for (let id = 0; id < 8; id++) srq.postRecv({ id });
        for (let i = 0; i < 3; i++) pairs[0].one.postSend({ opcode: 'SEND' });
        await stage.a.inbox.succeed(3);
        await stage.b.inbox.succeed(3);
        pairs[0].two.close();
        pairs[0].one.close();
        for (let i = 0; i < 5; i++) pairs[1].one.postSend({ opcode: 'SEND' });
        await stage.a.inbox.succeed(5);
        assert.deepEqual(
          (await stage.b.inbox.succeed(5)).map((completion) => completion.id),
          [3, 4, 5, 6, 7],
        );
      },
      needSrq,
    );
  },
};
