/** Send and receive queues: signaling, slots, what happens when they are full. */

import assert from 'node:assert/strict';
import { type Chapter, verbsError } from './stage.js';

export const queues: Chapter = {
  title: 'queues',
  register(test) {
    test('only signaled requests complete, and a signaled one frees the slots of those before it', async (stage) => {
      const [one, two] = await stage.connected({ init: { maxSendWr: 8 } });
      const near = one.side.memory(64);
      const far = two.side.memory(64);
      const write = { opcode: 'RDMA_WRITE' as const, sgl: [near.slice()], remoteAddr: far.addr, rkey: far.rkey };
      for (let round = 0; round < 20; round++) {
        for (let i = 0; i < 7; i++) one.qp.postSend({ ...write, signaled: false, id: 1000 + i });
        one.qp.postSend({ ...write, id: round });
        const [done] = await one.inbox.succeed();
        assert.equal(done.id, round);
        assert.equal(one.inbox.list.length, 0);
      }
    });

    test('sqSigAll completes every request', async (stage) => {
      const [one, two] = await stage.connected({ init: { sqSigAll: true } });
      const far = two.side.memory(64);
      for (let id = 0; id < 10; id++) {
        one.qp.postSend({
          opcode: 'RDMA_WRITE',
          inlineData: new Uint8Array(4),
          remoteAddr: far.addr,
          rkey: far.rkey,
          signaled: false,
          id,
        });
      }
      const done = await one.inbox.succeed(10);
      assert.deepEqual(
        done.map((completion) => completion.id),
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
      );
    });

    test('a full send queue refuses with VERBS_QUEUE_FULL and the index, and takes more when there is room', async (stage) => {
      const [one, two] = await stage.connected({ init: { maxSendWr: 4 } });
      const size = one.qp.maxSendWr;
      const chain = Array.from({ length: size + 3 }, (_, id) => ({ opcode: 'SEND' as const, id }));
      assert.throws(() => one.qp.postSend(chain), verbsError('VERBS_QUEUE_FULL', size));
      assert.throws(() => one.qp.postSend({ opcode: 'SEND' }), verbsError('VERBS_QUEUE_FULL', 0));
      for (let id = 0; id < size; id++) two.qp.postRecv({ id });
      const sent = await one.inbox.succeed(size);
      assert.deepEqual(
        sent.map((completion) => completion.id),
        chain.slice(0, size).map((request) => request.id),
        'those before the first rejected one were posted',
      );
      await two.inbox.succeed(size);
      two.qp.postRecv({ id: 50 });
      one.qp.postSend({ opcode: 'SEND', id: 51 });
      assert.equal((await one.inbox.succeed())[0].id, 51);
      await two.inbox.succeed();
    });

    test('a full receive queue refuses with VERBS_QUEUE_FULL and the index, and takes more when one is used', async (stage) => {
      const [one, two] = await stage.connected({ init: { maxRecvWr: 4 } });
      const size = two.qp.maxRecvWr;
      const chain = Array.from({ length: size + 2 }, (_, id) => ({ id }));
      assert.throws(() => two.qp.postRecv(chain), verbsError('VERBS_QUEUE_FULL', size));
      one.qp.postSend({ opcode: 'SEND' });
      await one.inbox.succeed();
      assert.equal((await two.inbox.succeed())[0].id, 0);
      two.qp.postRecv({ id: 99 });
      assert.throws(() => two.qp.postRecv({}), verbsError('VERBS_QUEUE_FULL', 0));
      for (let i = 0; i < size; i++) one.qp.postSend({ opcode: 'SEND' });
      await one.inbox.succeed(size);
      const received = await two.inbox.succeed(size);
      assert.deepEqual(
        received.map((completion) => completion.id),
        [...chain.slice(1, size).map((request) => request.id), 99],
      );
    });

    test('an empty chain is nothing', async (stage) => {
      const [one] = await stage.connected();
      one.qp.postSend([]);
      one.qp.postRecv([]);
      await stage.pump();
      assert.equal(one.inbox.list.length, 0);
    });

    test('ids come back whole, up to the largest safe integer and below zero', async (stage) => {
      const [one, two] = await stage.connected();
      const ids = [0, 1, 2 ** 31, 2 ** 32, 2 ** 52 + 1, Number.MAX_SAFE_INTEGER, -1, Number.MIN_SAFE_INTEGER];
      for (const id of ids) {
        two.qp.postRecv({ id });
        one.qp.postSend({ opcode: 'SEND', id });
        assert.equal((await one.inbox.succeed())[0].id, id);
        assert.equal((await two.inbox.succeed())[0].id, id);
      }
    });

    test('immediate data is 32 bits unsigned, 0 included', async (stage) => {
      const [one, two] = await stage.connected();
      for (const imm of [0, 1, 0x7fffffff, 0x80000000, 0xffffffff]) {
        two.qp.postRecv({});
        one.qp.postSend({ opcode: 'SEND_WITH_IMM', imm });
        await one.inbox.succeed();
        assert.equal((await two.inbox.succeed())[0].imm, imm);
      }
      two.qp.postRecv({});
      one.qp.postSend({ opcode: 'SEND' });
      await one.inbox.succeed();
      assert.equal((await two.inbox.succeed())[0].imm, undefined);
    });

    test('the queues wrap around many times', async (stage) => {
      const [one, two] = await stage.connected({ init: { maxSendWr: 5, maxRecvWr: 3 } });
      const far = two.side.memory(64);
      const count = stage.scaled(2000);
      for (let id = 0; id < count; id++) {
        two.qp.postRecv({ sgl: [far.slice()], id });
        one.qp.postSend({ opcode: 'SEND', inlineData: Uint8Array.of(id, id >> 8), id });
        const [sent] = await one.inbox.succeed();
        const [received] = await two.inbox.succeed();
        assert.equal(sent.id, id);
        assert.equal(received.id, id);
        assert.equal(far.bytes[0] | (far.bytes[1] << 8), id & 0xffff);
      }
    });
  },
};
