/** UC: connected and unreliable. What does not arrive is lost, and nobody is told. */

import assert from 'node:assert/strict';
import { assertUntouched, CANARY, patternOf } from './payload.js';
import { assertFailed, type Chapter, needType } from './stage.js';

export const unreliable: Chapter = {
  title: 'unreliable connections',
  register(test) {
    const needs = [needType('UC')];

    test(
      'a message without a receive request is lost without an error',
      async (stage) => {
        const [one, two] = await stage.connected({ type: 'UC' });
        for (let id = 0; id < 3; id++) one.qp.postSend({ opcode: 'SEND', inlineData: patternOf(8, id), id });
        await one.inbox.succeed(3);
        await stage.elapse(100); // a send of UC is complete when it left: on a network the messages are still on their way
        const far = two.side.memory(64);
        two.qp.postRecv({ sgl: [far.slice()], id: 9 });
        await stage.elapse(10);
        assert.equal(two.inbox.list.length, 0, 'lost for good');
        one.qp.postSend({ opcode: 'SEND_WITH_IMM', inlineData: patternOf(8, 5), imm: 5, id: 4 });
        await one.inbox.succeed();
        assert.equal((await two.inbox.succeed())[0].imm, 5);
        assert.equal(one.qp.state, 'RTS');
        assert.equal(two.qp.state, 'RTS');
      },
      ...needs,
    );

    test(
      'a WRITE with a wrong key moves nothing and the sender does not learn it',
      async (stage) => {
        const [one, two] = await stage.connected({ type: 'UC' });
        const far = two.side.memory(64);
        far.bytes.fill(CANARY);
        one.qp.postSend({ opcode: 'RDMA_WRITE', inlineData: patternOf(8, 1), remoteAddr: far.addr, rkey: far.rkey ^ 0x123 });
        await one.inbox.succeed();
        await stage.elapse(10);
        assertUntouched(far.bytes, 'wrong key');
        assert.equal(one.qp.state, 'RTS');
      },
      ...needs,
    );

    test(
      'sends to a peer that is gone succeed',
      async (stage) => {
        const [one, two] = await stage.connected({ type: 'UC' });
        two.qp.close();
        one.qp.postSend({ opcode: 'SEND', inlineData: patternOf(8, 1), id: 1 });
        await one.inbox.succeed();
        assert.equal(one.qp.state, 'RTS');
      },
      ...needs,
    );

    test(
      'a bad local key is LOC_PROT_ERR and leads to SQE, from where RTS resumes',
      async (stage) => {
        const [one, two] = await stage.connected({ type: 'UC' });
        const near = one.side.memory(64);
        one.qp.postSend({ opcode: 'SEND', sgl: [{ ...near.slice(0, 8), lkey: near.lkey ^ 0x777 }], id: 1 });
        assert.equal((await one.inbox.fail('LOC_PROT_ERR')).id, 1);
        assert.equal(one.qp.state, 'SQE');
        one.qp.postSend({ opcode: 'SEND', id: 2 });
        assertFailed(await one.inbox.one(), 'WR_FLUSH_ERR');
        one.qp.modify('RTS');
        two.qp.postRecv({ id: 3 });
        one.qp.postSend({ opcode: 'SEND', id: 4 });
        assert.equal((await one.inbox.succeed())[0].id, 4);
        assert.equal((await two.inbox.succeed())[0].id, 3);
      },
      ...needs,
    );

    test(
      'ERR flushes, as everywhere',
      async (stage) => {
        const [, two] = await stage.connected({ type: 'UC' });
        two.qp.postRecv([{ id: 1 }, { id: 2 }]);
        two.qp.modify('ERR');
        for (const id of [1, 2]) {
          const flushed = await two.inbox.fail('WR_FLUSH_ERR');
          assert.equal(flushed.id, id);
        }
      },
      ...needs,
    );
  },
};
