/** The prepared form does exactly what the readable form does, for every operation. */

import assert from 'node:assert/strict';
import { type Completion, OPCODES } from '../../src/verbs/index.js';
import { assertBytes, fillPattern } from './payload.js';
import { type Chapter, needAtomics, needSrq, verbsError } from './stage.js';

/** What must be equal between the two forms; only the queue pair number may differ. */
function comparable(completion: Completion): object {
  return { ...completion, qpNum: 0, srcQp: 0 };
}

export const preparedRequests: Chapter = {
  title: 'prepared requests',
  register(test) {
    for (const opcode of OPCODES) {
      const atomic = opcode.startsWith('ATOMIC');
      test(
        `${opcode} prepared equals ${opcode} readable: memory and completions`,
        async (stage) => {
          const outcomes = [];
          for (const prepared of [false, true]) {
            const [one, two] = await stage.connected();
            const near = one.side.memory(4096);
            const far = two.side.memory(4096);
            fillPattern(near.bytes, 1);
            fillPattern(far.bytes, 2);
            const words = new BigUint64Array(far.bytes.buffer, far.bytes.byteOffset, 512);
            words[2] = 0xffffffff_fffffff0n;
            const completions: Completion[] = [];
            const handle = prepared ? one.qp.prepare({ opcode, local: near, remote: far.remote() }) : undefined;
            for (const [round, [offset, length, remoteOffset]] of (atomic
              ? [
                  [8, 8, 16],
                  [16, 8, 16],
                  [24, 8, 24],
                ]
              : [
                  [0, 64, 0],
                  [100, 1000, 33],
                  [4095, 1, 4095],
                  [77, 0, 5],
                ]
            ).entries()) {
              const id = 40 + round;
              const imm = 0x90000000 + round;
              const compare = 0xffffffff_fffffff0n;
              two.qp.postRecv({ sgl: [far.slice(2048, 1500)], id: 80 + round });
              if (handle) {
                handle.imm = imm;
                handle.addLo = 0xffffffff;
                handle.addHi = 0x12345678;
                handle.compareLo = 0xfffffff0;
                handle.compareHi = 0xffffffff;
                handle.swapLo = 0x89abcdef;
                handle.swapHi = 0x01234567;
                handle.post(offset, length, id, remoteOffset);
              } else {
                one.qp.postSend({
                  opcode,
                  sgl: [near.slice(offset, length)],
                  id,
                  imm,
                  add: 0x12345678_ffffffffn,
                  compare,
                  swap: 0x01234567_89abcdefn,
                  remoteAddr: far.addr + remoteOffset,
                  rkey: far.rkey,
                });
              }
              completions.push(...(await one.inbox.succeed()));
              if (opcode.startsWith('SEND') || opcode.endsWith('IMM')) completions.push(...(await two.inbox.succeed()));
            }
            outcomes.push({ near: near.bytes.slice(), far: far.bytes.slice(), completions: completions.map(comparable) });
          }
          assert.deepEqual(outcomes[1].completions, outcomes[0].completions);
          assertBytes(outcomes[1].near, outcomes[0].near, 'memory here');
          assertBytes(outcomes[1].far, outcomes[0].far, 'memory there');
        },
        ...(atomic ? [needAtomics] : []),
      );
    }

    test('requests are prepared in any state; posting is what needs the state, also after RESET and a new connection', async (stage) => {
      const [one, two] = [stage.a.qp(), stage.b.qp()];
      const near = stage.a.memory(64);
      const far = stage.b.memory(64);
      fillPattern(near.bytes, 6);
      const send = one.prepare({ opcode: 'SEND', local: near });
      const recv = two.prepareRecv(far);
      assert.throws(() => send.post(0, 8, 1), verbsError('VERBS_ILLEGAL'));
      assert.throws(() => recv.post(0, 8, 1), verbsError('VERBS_ILLEGAL'));
      for (let round = 0; round < 3; round++) {
        await one.connect(two.address());
        await two.connect(one.address());
        far.bytes.fill(0);
        recv.post(32, 16, 2 * round);
        send.post(round, 16, 2 * round + 1);
        assert.equal((await stage.a.inbox.succeed())[0].id, 2 * round + 1);
        assert.equal((await stage.b.inbox.succeed())[0].id, 2 * round);
        assertBytes(far.bytes.subarray(32, 48), near.bytes.subarray(round, round + 16), `round ${round}`);
        one.modify('RESET');
        two.modify('RESET');
      }
    });

    test('without a remote offset the local offset is used on both sides', async (stage) => {
      const [one, two] = await stage.connected();
      const near = one.side.memory(1024);
      const far = two.side.memory(1024);
      fillPattern(near.bytes, 4);
      const write = one.qp.prepare({ opcode: 'RDMA_WRITE', local: near, remote: far.remote() });
      write.post(100, 50, 7);
      await one.inbox.succeed();
      assertBytes(far.bytes.subarray(100, 150), near.bytes.subarray(100, 150), 'same offset');
      assert.ok(far.bytes.subarray(0, 100).every((byte) => byte === 0));
    });

    test('a READ or WRITE that is done now moves its bytes without a completion, and nothing with a key that was taken back', async (stage) => {
      const [one, two] = await stage.connected();
      const near = one.side.memory(256);
      const far = two.side.memory(256);
      fillPattern(near.bytes, 4);
      const write = one.qp.prepare({ opcode: 'RDMA_WRITE', local: near, remote: far.remote() });
      const read = one.qp.prepare({ opcode: 'RDMA_READ', local: near, remote: far.remote() });
      for (const [request, near, length, far] of [
        [write, 8, 16, 32],
        [read, 101, 7, 33],
        [read, 128, 16, 32],
      ] as const) {
        if (request.doNow?.(near, length, far) === true) continue;
        request.post(near, length, 1, far);
        await one.inbox.succeed();
      }
      assert.equal(one.inbox.list.length, 0);
      assertBytes(far.bytes.subarray(32, 48), near.bytes.subarray(8, 24), 'written');
      assertBytes(near.bytes.subarray(101, 108), far.bytes.subarray(33, 40), 'read');
      assertBytes(near.bytes.subarray(128, 144), far.bytes.subarray(32, 48), 'read as words');
      const key = far.remote();
      far.deregister();
      const before = far.bytes.slice();
      for (const request of [write, one.qp.prepare({ opcode: 'RDMA_WRITE', local: near, remote: key })]) {
        assert.notEqual(request.doNow?.(64, 8, 0), true);
      }
      assert.deepEqual(far.bytes, before);
    });

    test('signaledEvery completes every n-th post and frees the queue', async (stage) => {
      const [one, two] = await stage.connected({ init: { maxSendWr: 8 } });
      const near = one.side.memory(64);
      const far = two.side.memory(64);
      const write = one.qp.prepare({ opcode: 'RDMA_WRITE', local: near, remote: far.remote(), signaledEvery: 4 });
      const seen: number[] = [];
      for (let id = 1; id <= 40; id++) {
        write.post(0, 8, id);
        if (id % 4 === 0) seen.push((await one.inbox.succeed())[0].id);
      }
      assert.equal(one.inbox.list.length, 0);
      assert.deepEqual(
        seen,
        Array.from({ length: 10 }, (_, i) => 4 * (i + 1)),
      );
    });

    test('signaled false makes no completion, sqSigAll makes one all the same', async (stage) => {
      for (const sqSigAll of [false, true]) {
        const [one, two] = await stage.connected({ init: { sqSigAll } });
        const near = one.side.memory(64);
        const far = two.side.memory(64);
        const silent = one.qp.prepare({ opcode: 'RDMA_WRITE', local: near, remote: far.remote(), signaled: false });
        const loud = one.qp.prepare({ opcode: 'RDMA_WRITE', local: near, remote: far.remote() });
        silent.post(0, 8, 1);
        loud.post(0, 8, 2);
        const done = await one.inbox.succeed(sqSigAll ? 2 : 1);
        assert.deepEqual(
          done.map((completion) => completion.id),
          sqSigAll ? [1, 2] : [2],
        );
      }
    });

    test('an inline prepared request takes the data at once', async (stage) => {
      const [one, two] = await stage.connected();
      const near = one.side.memory(256);
      const far = two.side.memory(256);
      const expected = fillPattern(near.bytes, 4).slice();
      two.qp.postRecv({ sgl: [far.slice()] });
      one.qp.prepare({ opcode: 'SEND', local: near, inline: true }).post(0, 256, 1);
      near.bytes.fill(0);
      await one.inbox.succeed();
      await two.inbox.succeed();
      assertBytes(far.bytes, expected, 'inline');
    });

    test('prepareRecv posts ranges of its region', async (stage) => {
      const [one, two] = await stage.connected({ init: { maxRecvWr: 4 } });
      const near = one.side.memory(64);
      const far = two.side.memory(1024);
      fillPattern(near.bytes, 3);
      const recv = two.qp.prepareRecv(far);
      for (const id of [1, 2, 3, 4]) recv.post(id * 100, 64, id);
      assert.throws(() => recv.post(0, 64, 5), verbsError('VERBS_QUEUE_FULL'));
      for (const id of [1, 2, 3, 4]) one.qp.postSend({ opcode: 'SEND', sgl: [near.slice(id, 10)] });
      await one.inbox.succeed(4);
      const received = await two.inbox.succeed(4);
      assert.deepEqual(
        received.map((completion) => completion.id),
        [1, 2, 3, 4],
      );
      for (const id of [1, 2, 3, 4]) {
        assertBytes(far.bytes.subarray(id * 100, id * 100 + 10), near.bytes.subarray(id, id + 10), `message ${id}`);
      }
    });

    test(
      'a shared receive queue has the prepared form too',
      async (stage) => {
        const srq = stage.b.srq({ maxWr: 4 });
        const [one, two] = await stage.connected({ init: [{}, { srq }] });
        const far = two.side.memory(1024);
        srq.prepareRecv(far).post(500, 64, 9);
        one.qp.postSend({ opcode: 'SEND', inlineData: Uint8Array.of(1, 2, 3) });
        await one.inbox.succeed();
        assert.equal((await two.inbox.succeed())[0].id, 9);
        assert.deepEqual([...far.bytes.subarray(500, 503)], [1, 2, 3]);
      },
      needSrq,
    );

    test('a prepared request of a wrong range or a full queue fails as the readable one does', async (stage) => {
      const [one, two] = await stage.connected({ init: { maxSendWr: 2 } });
      const near = one.side.memory(64);
      const far = two.side.memory(64);
      const send = one.qp.prepare({ opcode: 'SEND', local: near });
      for (let id = 0; id < one.qp.maxSendWr; id++) send.post(0, 8, id);
      assert.throws(() => send.post(0, 8, 9), verbsError('VERBS_QUEUE_FULL'));
      for (let id = 0; id < one.qp.maxSendWr; id++) two.qp.postRecv({ sgl: [far.slice()] });
      await one.inbox.succeed(one.qp.maxSendWr);
      await two.inbox.succeed(one.qp.maxSendWr);
      const write = one.qp.prepare({ opcode: 'RDMA_WRITE', local: near, remote: far.remote() });
      write.post(0, 32, 10, 40);
      const failed = await one.inbox.fail('REM_ACCESS_ERR');
      assert.equal(failed.id, 10);
      assert.ok(
        far.bytes.subarray(40).every((byte) => byte === 0),
        'no byte moved',
      );
    });
  },
};
