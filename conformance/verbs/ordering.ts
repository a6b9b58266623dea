/** Order: what RC promises about requests of one queue pair, fences, and when completions appear. */

import assert from 'node:assert/strict';
import type { SendWorkRequest } from '../../src/verbs/index.js';
import { assertBytes, fillPattern, patternOf } from './payload.js';
import { type Chapter, needAtomics } from './stage.js';

export const ordering: Chapter = {
  title: 'ordering',
  register(test) {
    test('completions of a send queue come in the order of posting, whatever the operations', async (stage) => {
      const [one, two] = await stage.connected();
      const near = one.side.memory(1 << 16);
      const far = two.side.memory(1 << 16);
      const remote = { remoteAddr: far.addr, rkey: far.rkey };
      const hasAtomics = stage.capabilities.atomics !== 'none';
      const count = stage.scaled(60);
      const requests: SendWorkRequest[] = Array.from({ length: count }, (_, id): SendWorkRequest => {
        switch (id % 5) {
          case 0:
            return { opcode: 'RDMA_READ', sgl: [near.slice(0, 60000)], ...remote, id };
          case 1:
            return { opcode: 'SEND', inlineData: patternOf(3, id), id };
          case 2:
            return { opcode: 'RDMA_WRITE', sgl: [near.slice(0, 8)], ...remote, id };
          case 3:
            return hasAtomics
              ? { opcode: 'ATOMIC_FETCH_AND_ADD', sgl: [near.slice(0, 8)], ...remote, add: 1n, id }
              : { opcode: 'RDMA_READ', sgl: [near.slice(0, 1)], ...remote, id };
          default:
            return { opcode: 'RDMA_WRITE_WITH_IMM', ...remote, imm: id, id };
        }
      });
      const received = requests.filter((request) => request.opcode === 'SEND' || request.imm !== undefined);
      for (const [id] of received.entries()) two.qp.postRecv({ sgl: [far.slice(0, 64)], id });
      one.qp.postSend(requests);
      const done = await one.inbox.succeed(count);
      assert.deepEqual(
        done.map((completion) => completion.id),
        requests.map((request) => request.id),
      );
      assert.deepEqual(
        done.map((completion) => completion.opcode),
        requests.map((request) => request.opcode),
      );
      const arrived = await two.inbox.succeed(received.length);
      assert.deepEqual(
        arrived.map((completion) => completion.id),
        received.map((_, i) => i),
      );
    });

    test('data of a WRITE is there when a later SEND of the same queue pair completes at the receiver', async (stage) => {
      const [one, two] = await stage.connected();
      const size = stage.scaled(200_000);
      const near = one.side.memory(size);
      const far = two.side.memory(size);
      for (let round = 1; round <= stage.scaled(20); round++) {
        fillPattern(near.bytes, round);
        two.qp.postRecv({ id: round });
        one.qp.postSend([
          { opcode: 'RDMA_WRITE', sgl: [near.slice()], remoteAddr: far.addr, rkey: far.rkey, signaled: false },
          { opcode: 'SEND', id: round },
        ]);
        await stage.until(
          () => two.inbox.list.length > 0,
          () => 'the message',
        );
        assertBytes(far.bytes, near.bytes, `round ${round}`);
        await two.inbox.succeed();
        await one.inbox.succeed();
      }
    });

    test('data of a WRITE_WITH_IMM is there at its own receive completion', async (stage) => {
      const [one, two] = await stage.connected();
      const size = stage.scaled(3 << 20);
      const near = one.side.memory(size);
      const far = two.side.memory(size);
      for (let round = 1; round <= stage.scaled(5); round++) {
        fillPattern(near.bytes, round);
        two.qp.postRecv({ id: round });
        one.qp.postSend({ opcode: 'RDMA_WRITE_WITH_IMM', sgl: [near.slice()], remoteAddr: far.addr, rkey: far.rkey, imm: round });
        const [received] = await two.inbox.succeed();
        assert.equal(received.imm, round);
        assertBytes(far.bytes, near.bytes, `round ${round}`);
        await one.inbox.succeed();
      }
    });

    test('messages of one queue pair arrive in the order they were posted, small and large mixed', async (stage) => {
      const [one, two] = await stage.connected();
      const count = stage.scaled(40);
      const large = stage.scaled(2 << 20);
      const near = one.side.memory(large);
      const far = two.side.memory(large);
      fillPattern(near.bytes, 1);
      for (let id = 0; id < count; id++) two.qp.postRecv({ sgl: [far.slice()], id });
      for (let id = 0; id < count; id++) {
        one.qp.postSend({ opcode: 'SEND_WITH_IMM', sgl: [near.slice(0, id % 3 === 0 ? large : id)], imm: id, id });
      }
      await one.inbox.succeed(count);
      const received = await two.inbox.succeed(count);
      assert.deepEqual(
        received.map((completion) => [completion.id, completion.imm, completion.byteLen]),
        Array.from({ length: count }, (_, id) => [id, id, id % 3 === 0 ? large : id]),
      );
    });

    test('two WRITEs to the same place leave the later one', async (stage) => {
      const [one, two] = await stage.connected();
      const size = stage.scaled(2 << 20);
      const near = one.side.memory(2 * size);
      const far = two.side.memory(size);
      const remote = { remoteAddr: far.addr, rkey: far.rkey };
      fillPattern(near.bytes, 5);
      one.qp.postSend([
        { opcode: 'RDMA_WRITE', sgl: [near.slice(0, size)], ...remote },
        { opcode: 'RDMA_WRITE', sgl: [near.slice(size, 100)], ...remote },
      ]);
      await one.inbox.succeed(2);
      assertBytes(far.bytes.subarray(0, 100), near.bytes.subarray(size, size + 100), 'the later one');
      assertBytes(far.bytes.subarray(100), near.bytes.subarray(100, size), 'the rest of the earlier one');
    });

    test('a READ after a WRITE of the same queue pair sees what was written', async (stage) => {
      const [one, two] = await stage.connected();
      const size = stage.scaled(1 << 20);
      const near = one.side.memory(2 * size);
      const far = two.side.memory(size);
      const remote = { remoteAddr: far.addr, rkey: far.rkey };
      for (let round = 1; round <= 5; round++) {
        fillPattern(near.bytes.subarray(0, size), round);
        one.qp.postSend([
          { opcode: 'RDMA_WRITE', sgl: [near.slice(0, size)], ...remote, signaled: false },
          { opcode: 'RDMA_READ', sgl: [near.slice(size, size)], ...remote },
        ]);
        await one.inbox.succeed();
        assertBytes(near.bytes.subarray(size), near.bytes.subarray(0, size), `round ${round}`);
      }
    });

    test('a fenced SEND leaves after the READ before it: what was read can be sent on', async (stage) => {
      const [one, two] = await stage.connected();
      const size = stage.scaled(2 << 20);
      const near = one.side.memory(size);
      const far = two.side.memory(size);
      const into = two.side.memory(size);
      for (let round = 1; round <= 5; round++) {
        fillPattern(far.bytes, round);
        near.bytes.fill(0);
        two.qp.postRecv({ sgl: [into.slice()] });
        one.qp.postSend([
          { opcode: 'RDMA_READ', sgl: [near.slice()], remoteAddr: far.addr, rkey: far.rkey, signaled: false },
          { opcode: 'SEND', sgl: [near.slice()], fence: true },
        ]);
        await one.inbox.succeed();
        await two.inbox.succeed();
        assertBytes(into.bytes, far.bytes, `round ${round}`);
      }
    });

    test(
      'a fenced WRITE leaves after the atomic before it',
      async (stage) => {
        const [one, two] = await stage.connected();
        const near = one.side.memory(8);
        const far = two.side.memory(16);
        const word = new BigUint64Array(far.bytes.buffer, far.bytes.byteOffset, 2);
        for (let round = 0n; round < 20n; round++) {
          const remote = { rkey: far.rkey };
          one.qp.postSend([
            { opcode: 'ATOMIC_FETCH_AND_ADD', sgl: [near.slice()], remoteAddr: far.addr, ...remote, add: 1n, signaled: false },
            { opcode: 'RDMA_WRITE', sgl: [near.slice()], remoteAddr: far.addr + 8, ...remote, fence: true },
          ]);
          await one.inbox.succeed();
          assert.equal(word[0], round + 1n);
          assert.equal(word[1], round, 'the value fetched was written on');
        }
      },
      needAtomics,
    );
  },
};
