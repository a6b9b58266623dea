/** Async events: what belongs to no work request. */

import assert from 'node:assert/strict';
import { patternOf } from './payload.js';
import { type Chapter, verbsError } from './stage.js';

export const events: Chapter = {
  title: 'events',
  register(test) {
    test('an access violation is QP_ACCESS_ERR at the target, with the queue pair and words', async (stage) => {
      const [one, two] = await stage.connected();
      const far = two.side.memory(64);
      one.qp.postSend({ opcode: 'RDMA_WRITE', inlineData: patternOf(8, 1), remoteAddr: far.addr, rkey: far.rkey ^ 0x44 });
      await one.inbox.fail('REM_ACCESS_ERR');
      const event = await stage.event(two.device, 'QP_ACCESS_ERR', two.qp.qpNum);
      assert.ok(event.words.length >= 20, event.words);
    });

    test('nothing happens, nothing is reported', async (stage) => {
      const [one, two] = await stage.connected();
      two.qp.postRecv({});
      one.qp.postSend({ opcode: 'SEND' });
      await one.inbox.succeed();
      await two.inbox.succeed();
      await stage.elapse(5);
      const serious = [...stage.eventsOf(one.device), ...stage.eventsOf(two.device)].filter((event) => event.type !== 'COMM_EST');
      assert.deepEqual(serious, []);
    });

    test('nextEvent waits for the event, and ends with VERBS_TIMEOUT, the reason of its signal, or VERBS_CLOSED', async (stage) => {
      const device = await stage.factory.open();
      await stage.settle(assert.rejects(device.nextEvent({ timeoutMs: 20 }), verbsError('VERBS_TIMEOUT')));
      const reason = new Error('enough');
      const abort = new AbortController();
      const aborted = assert.rejects(device.nextEvent({ signal: abort.signal }), (error) => error === reason);
      abort.abort(reason);
      await stage.settle(aborted);

      const pd = device.allocPd();
      const cq = device.createCq();
      const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
      const peer = stage.a.qp();
      await qp.connect(peer.address());
      const waiting = device.nextEvent({ timeoutMs: 30_000 });
      await stage.elapse(5);
      qp.modify('SQD', { enSqdAsyncNotify: true });
      const event = await stage.settle(waiting);
      assert.equal(event.type, 'SQ_DRAINED');
      assert.equal(event.qpNum, qp.qpNum);
      assert.equal(device.pollEvent(), undefined);

      const closed = assert.rejects(device.nextEvent(), verbsError('VERBS_CLOSED'));
      await stage.pump();
      device.close();
      await stage.settle(closed);
    });

    test('events wait for who asks later, in order', async (stage) => {
      const [one] = await stage.connected();
      const [three] = await stage.connected();
      for (const end of [one, three]) end.qp.modify('SQD', { enSqdAsyncNotify: true });
      await stage.until(
        () => stage.eventsOf(one.device).length >= 2,
        () => 'two events',
      );
      assert.deepEqual(
        stage.eventsOf(one.device).map((event) => event.qpNum),
        [one.qp.qpNum, three.qp.qpNum],
      );
    });
  },
};
