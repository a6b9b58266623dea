/** Completion queues: sharing, waiting in three modes, events, moderation, channels, the completion thread, overrun. */

import assert from 'node:assert/strict';
import { type Completion, type CompletionQueue, VerbsError, type WaitMode, WorkCompletions } from '../../src/verbs/index.js';
import { type Chapter, type End, type Stage, verbsError } from './stage.js';

/** Ends whose receiving side has a completion queue that nobody polls but the test. */
async function quiet(
  stage: Stage,
  cq: CompletionQueue,
): Promise<{ one: End; two: End; cq: CompletionQueue; wcs: WorkCompletions }> {
  const [one, two] = await stage.connected({ init: [{}, { recvCq: cq, sendCq: stage.b.cq() }] });
  for (let id = 0; id < 100; id++) two.qp.postRecv({ id });
  return { one, two, cq, wcs: new WorkCompletions(16) };
}

const MODES: readonly WaitMode[] = ['poll', 'event', 'adaptive'];

export const completions: Chapter = {
  title: 'completions',
  register(test) {
    test('poll takes what is there, at most the capacity, in order, and never waits', async (stage) => {
      const cq = stage.b.cq();
      const { one } = await quiet(stage, cq);
      const wcs = new WorkCompletions(4);
      assert.equal(cq.poll(wcs), 0);
      assert.equal(cq.isReady(), false);
      for (let id = 0; id < 10; id++) one.qp.postSend({ opcode: 'SEND' });
      await one.inbox.succeed(10);
      const seen: number[] = [];
      await stage.until(
        () => {
          const n = cq.poll(wcs);
          assert.ok(n <= 4);
          seen.push(...wcs.id.subarray(0, n));
          return seen.length >= 10;
        },
        () => 'ten completions',
      );
      assert.deepEqual(seen, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
      assert.equal(cq.poll(wcs), 0);
    });

    test('40 queue pairs share one completion queue: each completion names its pair, in order per pair', async (stage) => {
      const { a, b } = stage;
      const count = stage.scaled(40);
      const perPair = 12;
      const pairs = await Promise.all(
        Array.from({ length: count }, async () => {
          const [one, two] = [a.qp(), b.qp()];
          await one.connect(two.address());
          await two.connect(one.address());
          for (let id = 0; id < perPair; id++) two.postRecv({ id });
          return { one, two };
        }),
      );
      for (let id = 0; id < perPair; id++)
        for (const { one } of pairs) one.postSend({ opcode: 'SEND_WITH_IMM', imm: one.qpNum, id });
      const sent = await a.inbox.succeed(count * perPair);
      const received = await b.inbox.succeed(count * perPair);
      const order = Array.from({ length: perPair }, (_, id) => id);
      for (const { one, two } of pairs) {
        const idsOf = (list: Completion[], qpNum: number) => list.filter((c) => c.qpNum === qpNum).map((c) => c.id);
        assert.deepEqual(idsOf(sent, one.qpNum), order);
        assert.deepEqual(idsOf(received, two.qpNum), order);
        assert.ok(received.filter((c) => c.qpNum === two.qpNum).every((c) => c.imm === one.qpNum));
      }
    });

    test('sends and receives complete on their own queues', async (stage) => {
      const { a, b } = stage;
      const [sends, receives] = [b.watchedCq(), b.watchedCq()];
      const [one, two] = [a.qp(), b.qp({ sendCq: sends.cq, recvCq: receives.cq })];
      await one.connect(two.address());
      await two.connect(one.address());
      one.postRecv({ id: 1 });
      two.postRecv({ id: 2 });
      two.postSend({ opcode: 'SEND', id: 3 });
      one.postSend({ opcode: 'SEND', id: 4 });
      assert.equal((await sends.succeed())[0].id, 3);
      assert.equal((await receives.succeed())[0].id, 2);
      assert.equal(sends.list.length + receives.list.length, 0);
    });

    for (const mode of MODES) {
      test(`next in ${mode} mode resolves when a completion arrives, and before when it is there`, async (stage) => {
        const { one, cq } = await quiet(stage, stage.b.cq({ mode }));
        const waiting = cq.next();
        await stage.elapse(5);
        one.qp.postSend({ opcode: 'SEND_WITH_IMM', imm: 3 });
        const first = await stage.settle(waiting);
        assert.equal(first.status, 'SUCCESS');
        assert.equal(first.imm, 3);
        one.qp.postSend({ opcode: 'SEND' });
        await one.inbox.succeed(2);
        assert.equal((await stage.settle(cq.next())).id, 1);
        for (let round = 0; round < 30; round++) {
          const next = cq.next();
          one.qp.postSend({ opcode: 'SEND' });
          assert.equal((await stage.settle(next)).id, 2 + round);
        }
      });

      test(`next in ${mode} mode ends with VERBS_TIMEOUT or with the reason of its signal, and loses nothing`, async (stage) => {
        const { one, cq } = await quiet(stage, stage.b.cq({ mode }));
        const start = stage.nowMs();
        await stage.settle(assert.rejects(cq.next({ timeoutMs: 30 }), verbsError('VERBS_TIMEOUT')));
        assert.ok(stage.nowMs() - start >= 28, 'not before its time');
        const reason = new Error('enough');
        const abort = new AbortController();
        const aborted = assert.rejects(cq.next({ signal: abort.signal }), (error) => error === reason);
        await stage.pump();
        abort.abort(reason);
        await stage.settle(aborted);
        await stage.settle(assert.rejects(cq.next({ signal: AbortSignal.abort(reason) }), (error) => error === reason));
        one.qp.postSend({ opcode: 'SEND' });
        assert.equal((await stage.settle(cq.next({ timeoutMs: 30_000 }))).id, 0);
      });

      test(`next in ${mode} mode gives a failure as a value with its cause`, async (stage) => {
        const { two, cq } = await quiet(stage, stage.b.cq({ mode }));
        const waiting = cq.next();
        two.qp.modify('ERR');
        const failed = await stage.settle(waiting);
        assert.equal(failed.status, 'WR_FLUSH_ERR');
        assert.ok(failed.cause && failed.cause.words.length > 0);
      });

      test(`closing a queue ends next in ${mode} mode with VERBS_CLOSED`, async (stage) => {
        const cq = stage.b.device.createCq({ mode });
        const waiting = assert.rejects(cq.next(), verbsError('VERBS_CLOSED'));
        await stage.elapse(5);
        cq.close();
        await stage.settle(waiting);
      });
    }

    test('ready resolves when there is something, and takes nothing', async (stage) => {
      const { one, cq, wcs } = await quiet(stage, stage.b.cq({ mode: 'event' }));
      const ready = cq.ready();
      await stage.pump();
      one.qp.postSend({ opcode: 'SEND' });
      await stage.settle(ready);
      await stage.settle(cq.ready());
      assert.equal(cq.isReady(), true);
      assert.equal(cq.poll(wcs), 1);
      assert.equal(cq.isReady(), false);
    });

    test('for await takes completions one by one', async (stage) => {
      const { one, cq } = await quiet(stage, stage.b.cq({ mode: 'event' }));
      const taken = (async () => {
        const ids: number[] = [];
        for await (const completion of cq) {
          ids.push(completion.id);
          if (ids.length === 5) break;
        }
        return ids;
      })();
      for (let i = 0; i < 5; i++) one.qp.postSend({ opcode: 'SEND' });
      assert.deepEqual(await stage.settle(taken), [0, 1, 2, 3, 4]);
    });

    test('several waiters each get a completion of their own', async (stage) => {
      const { one, cq } = await quiet(stage, stage.b.cq({ mode: 'event' }));
      const waiting = Promise.all([cq.next(), cq.next(), cq.next()]);
      await stage.elapse(2);
      for (let i = 0; i < 3; i++) one.qp.postSend({ opcode: 'SEND' });
      const got = await stage.settle(waiting);
      assert.deepEqual(got.map((completion) => completion.id).sort(), [0, 1, 2]);
    });

    test('requestNotify gives one event through the channel, the next only after asking again', async (stage) => {
      const channel = stage.b.device.createCompletionChannel();
      const { one, cq, wcs } = await quiet(stage, stage.b.cq({ channel, mode: 'event' }));
      cq.requestNotify();
      one.qp.postSend({ opcode: 'SEND' });
      assert.equal(await stage.settle(channel.next()), cq);
      one.qp.postSend({ opcode: 'SEND' });
      await one.inbox.succeed(2);
      await stage.settle(assert.rejects(channel.next({ timeoutMs: 30 }), verbsError('VERBS_TIMEOUT')));
      assert.equal(cq.poll(wcs), 2);
      cq.requestNotify();
      one.qp.postSend({ opcode: 'SEND' });
      assert.equal(await stage.settle(channel.next()), cq);
    });

    test('without requestNotify there is no event', async (stage) => {
      const channel = stage.b.device.createCompletionChannel();
      const { one } = await quiet(stage, stage.b.cq({ channel, mode: 'event' }));
      one.qp.postSend({ opcode: 'SEND' });
      await one.inbox.succeed();
      await stage.settle(assert.rejects(channel.next({ timeoutMs: 30 }), verbsError('VERBS_TIMEOUT')));
    });

    test('solicited-only: a plain message gives no event, a solicited one does, and so does an error', async (stage) => {
      const channel = stage.b.device.createCompletionChannel();
      const { one, two, cq, wcs } = await quiet(stage, stage.b.cq({ channel, mode: 'event' }));
      cq.requestNotify(true);
      one.qp.postSend({ opcode: 'SEND' });
      await one.inbox.succeed();
      await stage.settle(assert.rejects(channel.next({ timeoutMs: 30 }), verbsError('VERBS_TIMEOUT')));
      one.qp.postSend({ opcode: 'SEND', solicited: true });
      assert.equal(await stage.settle(channel.next()), cq);
      assert.equal(cq.poll(wcs), 2);
      cq.requestNotify(true);
      two.qp.modify('ERR');
      assert.equal(await stage.settle(channel.next()), cq);
    });

    test('solicited WRITE_WITH_IMM raises the event too', async (stage) => {
      const channel = stage.b.device.createCompletionChannel();
      const { one, cq } = await quiet(stage, stage.b.cq({ channel, mode: 'event' }));
      const far = stage.b.memory(64);
      const write = { opcode: 'RDMA_WRITE_WITH_IMM' as const, imm: 1, remoteAddr: far.addr, rkey: far.rkey };
      cq.requestNotify(true);
      one.qp.postSend(write);
      await one.inbox.succeed();
      await stage.settle(assert.rejects(channel.next({ timeoutMs: 20 }), verbsError('VERBS_TIMEOUT')));
      one.qp.postSend({ ...write, solicited: true });
      assert.equal(await stage.settle(channel.next()), cq);
    });

    test('one channel serves several queues, each event names its queue', async (stage) => {
      const channel = stage.b.device.createCompletionChannel();
      const [left, right] = [stage.b.cq({ channel, mode: 'event' }), stage.b.cq({ channel, mode: 'event' })];
      const first = await quiet(stage, left);
      const second = await quiet(stage, right);
      left.requestNotify();
      right.requestNotify();
      second.one.qp.postSend({ opcode: 'SEND' });
      assert.equal(await stage.settle(channel.next()), right);
      first.one.qp.postSend({ opcode: 'SEND' });
      assert.equal(await stage.settle(channel.next()), left);
    });

    test('a channel wait ends with VERBS_TIMEOUT or the reason of its signal', async (stage) => {
      const channel = stage.b.device.createCompletionChannel();
      await stage.settle(assert.rejects(channel.next({ timeoutMs: 10 }), verbsError('VERBS_TIMEOUT')));
      const reason = new Error('enough');
      const abort = new AbortController();
      const aborted = assert.rejects(channel.next({ signal: abort.signal }), (error) => error === reason);
      abort.abort(reason);
      await stage.settle(aborted);
    });

    test('moderation by count: the event comes with the n-th completion', async (stage) => {
      const channel = stage.b.device.createCompletionChannel();
      const { one, cq, wcs } = await quiet(stage, stage.b.cq({ channel, mode: 'event' }));
      cq.moderate({ count: 4 });
      cq.requestNotify();
      for (let i = 0; i < 3; i++) one.qp.postSend({ opcode: 'SEND' });
      await one.inbox.succeed(3);
      await stage.settle(assert.rejects(channel.next({ timeoutMs: 30 }), verbsError('VERBS_TIMEOUT')));
      one.qp.postSend({ opcode: 'SEND' });
      assert.equal(await stage.settle(channel.next()), cq);
      assert.equal(cq.poll(wcs), 4);
    });

    test('moderation by period: the event comes late, but it comes', async (stage) => {
      const channel = stage.b.device.createCompletionChannel();
      const { one, cq, wcs } = await quiet(stage, stage.b.cq({ channel, mode: 'event' }));
      cq.moderate({ count: 1000, periodUs: 20_000 });
      cq.requestNotify();
      const start = stage.nowMs();
      one.qp.postSend({ opcode: 'SEND' });
      assert.equal(await stage.settle(channel.next()), cq);
      const took = stage.nowMs() - start;
      assert.ok(took >= 15, `the event came after ${took} ms, before its period`);
      assert.equal(cq.poll(wcs), 1);
      cq.moderate({ count: 1, periodUs: 0 });
      cq.requestNotify();
      one.qp.postSend({ opcode: 'SEND' });
      assert.equal(await stage.settle(channel.next()), cq);
    });

    test('moderation out of range is refused', ({ a }) => {
      const cq = a.cq();
      for (const bad of [{ count: 0 }, { count: 65536 }, { periodUs: -1 }, { periodUs: 65536 }, { count: 1.5 }]) {
        assert.throws(() => cq.moderate(bad), verbsError('VERBS_INVALID'));
      }
    });

    test('a completion thread watches several queues', async (stage) => {
      let thread: ReturnType<typeof stage.b.device.createCompletionThread>;
      try {
        thread = stage.keep(stage.b.device.createCompletionThread());
      } catch (error) {
        if (VerbsError.is(error) && error.code === 'VERBS_UNSUPPORTED') stage.skip('the device has no completion thread');
        throw error;
      }
      assert.equal(thread.cpu, -1);
      const first = await quiet(stage, stage.b.cq({ thread, mode: 'event' }));
      const second = await quiet(stage, stage.b.cq({ thread, mode: 'event' }));
      for (let round = 0; round < 10; round++) {
        for (const { one, cq } of [first, second]) {
          const next = cq.next({ timeoutMs: 30_000 });
          await stage.pump();
          one.qp.postSend({ opcode: 'SEND' });
          assert.equal((await stage.settle(next)).id, round);
        }
      }
      await stage.elapse(30);
      const after = first.cq.next({ timeoutMs: 30_000 });
      await stage.elapse(30);
      first.one.qp.postSend({ opcode: 'SEND' });
      assert.equal((await stage.settle(after)).id, 10, 'the thread wakes up after a pause');
    });

    test('a completion thread is pinned where asked, and refuses a core that is not there', (stage) => {
      const { device } = stage.a;
      try {
        stage.keep(device.createCompletionThread({ cpu: 0 }));
      } catch (error) {
        if (VerbsError.is(error) && error.code === 'VERBS_UNSUPPORTED') stage.skip('the device has no completion thread');
        throw error;
      }
      assert.equal(stage.keep(device.createCompletionThread({ cpu: 0 })).cpu, 0);
      for (const cpu of [100_000, -2, 1.5]) {
        assert.throws(() => device.createCompletionThread({ cpu }), verbsError('VERBS_INVALID'));
      }
      assert.throws(() => device.createCompletionThread({ numaNode: 100_000 }), verbsError('VERBS_INVALID'));
    });

    test('an overrun of the send side is an event, and poll says so', async (stage) => {
      const cq = stage.a.cq({ depth: 16 });
      const [one, two] = await stage.connected({ init: [{ sendCq: cq, maxSendWr: 1024 }, {}] });
      const far = two.side.memory(64);
      const post = () =>
        one.qp.postSend({ opcode: 'RDMA_WRITE', inlineData: new Uint8Array(8), remoteAddr: far.addr, rkey: far.rkey });
      for (let i = 0; i < 600 && one.qp.state === 'RTS'; i++) post();
      const event = await stage.event(one.device, 'CQ_ERR');
      assert.ok(event.words.length > 0);
      await stage.until(
        () => one.qp.state === 'ERR',
        () => `the queue pair to fail with its queue, it is in ${one.qp.state}`,
      );
      const wcs = new WorkCompletions(1024);
      assert.throws(() => {
        for (let i = 0; i < 4; i++) cq.poll(wcs);
      }, verbsError('VERBS_ILLEGAL'));
    });

    test('an overrun of the receive side is an event at the receiver', async (stage) => {
      const cq = stage.b.cq({ depth: 16 });
      const [one, two] = await stage.connected({ init: [{ maxSendWr: 1024 }, { recvCq: cq, maxRecvWr: 1024 }] });
      for (let id = 0; id < 600; id++) two.qp.postRecv({ id });
      for (let id = 0; id < 600; id++) one.qp.postSend({ opcode: 'SEND', id });
      await stage.event(two.device, 'CQ_ERR');
      const wcs = new WorkCompletions(1024);
      assert.throws(() => {
        for (let i = 0; i < 4; i++) cq.poll(wcs);
      }, verbsError('VERBS_ILLEGAL'));
    });

    test('a queue that is polled in time never overruns, however many completions pass', async (stage) => {
      const cq = stage.b.cq({ depth: 4 });
      const inbox = stage.watch(cq);
      const [one, two] = await stage.connected({ init: [{}, { recvCq: cq, maxRecvWr: 4 }] });
      for (let id = 0; id < 4; id++) two.qp.postRecv({ id });
      for (let id = 0; id < stage.scaled(500); id++) {
        one.qp.postSend({ opcode: 'SEND', id });
        await one.inbox.succeed();
        await inbox.succeed();
        two.qp.postRecv({ id });
      }
      assert.equal(stage.eventsOf(two.device).length, 0);
    });
  },
};
