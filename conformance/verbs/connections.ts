/** Connections in the manner of rdma-cm: listen, connect, accept, reject, private data, time limits, disconnect. */

import assert from 'node:assert/strict';
import { type Connection, type Listener, MAX_PRIVATE_DATA, VerbsError } from '../../src/verbs/index.js';
import { assertBytes, patternOf } from './payload.js';
import { assertFailed, type Chapter, type Stage, verbsError } from './stage.js';

let names = 0;

/** A name that no other test and no other process uses. */
function freshName(): string {
  return `conformance-${process.pid}-${names++}`;
}

async function listen(stage: Stage, name = freshName()): Promise<Listener> {
  return stage.keep(await stage.settle(stage.b.device.listen(name)));
}

/** Connects a fresh pair through a listener on b. */
async function connectPair(stage: Stage, listener: Listener): Promise<[Connection, Connection]> {
  const connecting = stage.a.device.connect(listener.name, stage.a.qp());
  const accepting = listener.accept().then((request) => request.accept(stage.b.qp()));
  return stage.settle(Promise.all([connecting, accepting]));
}

export const connections: Chapter = {
  title: 'connections',
  register(test) {
    test('listen and connect bring two queue pairs together and carry private data both ways', async (stage) => {
      const listener = await listen(stage);
      const [one, two] = [stage.a.qp(), stage.b.qp()];
      const target = stage.b.memory(64);
      const connecting = stage.a.device.connect(listener.name, one, { privateData: patternOf(MAX_PRIVATE_DATA, 1) });
      const request = await stage.settle(listener.accept());
      assertBytes(request.privateData, patternOf(MAX_PRIVATE_DATA, 1), 'private data of the request');
      const accepted = await stage.settle(request.accept(two, { privateData: patternOf(5, 2) }));
      const connected = await stage.settle(connecting);
      assertBytes(connected.privateData, patternOf(5, 2), 'private data of the reply');
      assert.equal(connected.qp, one);
      assert.equal(accepted.qp, two);
      assert.equal(one.state, 'RTS');
      assert.equal(two.state, 'RTS');
      two.postRecv({ id: 1 });
      one.postSend({ opcode: 'SEND', id: 2 });
      await stage.a.inbox.succeed();
      await stage.b.inbox.succeed();
      one.postSend({ opcode: 'RDMA_WRITE', inlineData: patternOf(16, 3), remoteAddr: target.addr, rkey: target.rkey });
      await stage.a.inbox.succeed();
      assertBytes(target.bytes.subarray(0, 16), patternOf(16, 3), 'written');
    });

    test('no private data is an empty array', async (stage) => {
      const listener = await listen(stage);
      const connecting = stage.a.device.connect(listener.name, stage.a.qp());
      const request = await stage.settle(listener.accept());
      assert.equal(request.privateData.length, 0);
      await stage.settle(request.accept(stage.b.qp()));
      assert.equal((await stage.settle(connecting)).privateData.length, 0);
    });

    test('attributes of connect and accept reach the queue pairs', async (stage) => {
      const listener = await listen(stage);
      const [one, two] = [stage.a.qp(), stage.b.qp()];
      const connecting = stage.a.device.connect(listener.name, one, { attributes: { rnrRetry: 3, timeout: 10 } });
      const request = await stage.settle(listener.accept());
      await stage.settle(request.accept(two, { attributes: { minRnrTimer: 5 } }));
      await stage.settle(connecting);
      assert.equal(one.query().rnrRetry, 3);
      assert.equal(one.query().timeout, 10);
      assert.equal(two.query().minRnrTimer, 5);
    });

    test('a rejection is VERBS_REFUSED with its private data, and the queue pair can try again', async (stage) => {
      const listener = await listen(stage);
      const qp = stage.a.qp();
      const refused = assert.rejects(stage.a.device.connect(listener.name, qp), (error) => {
        assert.ok(VerbsError.is(error));
        assert.equal(error.code, 'VERBS_REFUSED');
        assertBytes(error.privateData ?? new Uint8Array(), patternOf(7, 9), 'private data of the rejection');
        return true;
      });
      (await stage.settle(listener.accept())).reject(patternOf(7, 9));
      await stage.settle(refused);
      const connecting = stage.a.device.connect(listener.name, qp);
      await stage.settle((await stage.settle(listener.accept())).accept(stage.b.qp()));
      await stage.settle(connecting);
      assert.equal(qp.state, 'RTS');
    });

    test('connecting to a name that nobody listens under is VERBS_NO_DEVICE', async (stage) => {
      const connecting = stage.a.device.connect(freshName(), stage.a.qp(), { timeoutMs: 2000 });
      await stage.settle(assert.rejects(connecting, verbsError('VERBS_NO_DEVICE')));
    });

    test('a name is taken once, also by another device, and free again after close', async (stage) => {
      const listener = await listen(stage);
      await stage.settle(assert.rejects(stage.b.device.listen(listener.name), verbsError('VERBS_BUSY')));
      await stage.settle(assert.rejects(stage.a.device.listen(listener.name), verbsError('VERBS_BUSY')));
      listener.close();
      const again = await stage.settle(stage.a.device.listen(listener.name));
      assert.equal(again.name, listener.name);
      again.close();
    });

    test('a name that is none is refused', async (stage) => {
      for (const name of ['', 'x'.repeat(5000), 'a\0b']) {
        await stage.settle(assert.rejects(stage.a.device.listen(name), verbsError('VERBS_INVALID')));
      }
    });

    test('an unanswered request ends with VERBS_TIMEOUT, for the one who asked and for the one who answers late', async (stage) => {
      const listener = await listen(stage);
      const start = stage.nowMs();
      const connecting = stage.a.device.connect(listener.name, stage.a.qp(), { timeoutMs: 500 });
      const late = assert.rejects(connecting, verbsError('VERBS_TIMEOUT'));
      const request = await stage.settle(listener.accept());
      await stage.settle(late);
      assert.ok(stage.nowMs() - start >= 495, 'not before its time');
      await stage.elapse(10);
      await stage.settle(assert.rejects(request.accept(stage.b.qp()), verbsError('VERBS_TIMEOUT')));
    });

    test('AbortSignal ends connect with its reason', async (stage) => {
      const listener = await listen(stage);
      const reason = new Error('enough');
      const abort = new AbortController();
      const connecting = stage.a.device.connect(listener.name, stage.a.qp(), { signal: abort.signal });
      await stage.settle(listener.accept());
      abort.abort(reason);
      await stage.settle(assert.rejects(connecting, (error) => error === reason));
      const early = stage.a.device.connect(listener.name, stage.a.qp(), { signal: AbortSignal.abort(reason) });
      await stage.settle(assert.rejects(early, (error) => error === reason));
    });

    test('listener.accept ends with VERBS_TIMEOUT, the reason of its signal, or VERBS_CLOSED', async (stage) => {
      const listener = await listen(stage);
      await stage.settle(assert.rejects(listener.accept({ timeoutMs: 20 }), verbsError('VERBS_TIMEOUT')));
      const reason = new Error('enough');
      const abort = new AbortController();
      const aborted = assert.rejects(listener.accept({ signal: abort.signal }), (error) => error === reason);
      abort.abort(reason);
      await stage.settle(aborted);
      const closed = assert.rejects(listener.accept(), verbsError('VERBS_CLOSED'));
      listener.close();
      await stage.settle(closed);
      await stage.settle(assert.rejects(listener.accept(), verbsError('VERBS_CLOSED')));
    });

    test('closing the listener rejects the requests that wait', async (stage) => {
      const listener = await listen(stage);
      const waiting = stage.a.device.connect(listener.name, stage.a.qp());
      await stage.settle(listener.accept());
      const unseen = stage.a.device.connect(listener.name, stage.a.qp());
      await stage.elapse(5);
      const ends = [waiting, unseen].map((connecting) =>
        assert.rejects(connecting, verbsError(['VERBS_REFUSED', 'VERBS_NO_DEVICE'])),
      );
      listener.close();
      await stage.settle(Promise.all(ends));
    });

    test('too much private data is refused by every message', async (stage) => {
      const listener = await listen(stage);
      const privateData = new Uint8Array(MAX_PRIVATE_DATA + 1);
      const long = stage.a.device.connect(listener.name, stage.a.qp(), { privateData });
      await stage.settle(assert.rejects(long, verbsError('VERBS_INVALID')));
      const connecting = stage.a.device.connect(listener.name, stage.a.qp());
      const request = await stage.settle(listener.accept());
      assert.throws(() => request.reject(privateData), verbsError('VERBS_INVALID'));
      await stage.settle(assert.rejects(request.accept(stage.b.qp(), { privateData }), verbsError('VERBS_INVALID')));
      await stage.settle(request.accept(stage.b.qp()));
      await stage.settle(connecting);
    });

    test('disconnect tells the peer, moves both queue pairs to ERR and flushes', async (stage) => {
      const listener = await listen(stage);
      const [one, two] = await connectPair(stage, listener);
      one.qp.postRecv({ id: 1 });
      two.qp.postRecv({ id: 2 });
      one.disconnect();
      const reasons = await stage.settle(Promise.all([one.closed, two.closed]));
      for (const reason of reasons) assert.ok(reason.length > 0, 'the reason in words');
      assertFailed(await stage.a.inbox.one(), 'WR_FLUSH_ERR');
      assertFailed(await stage.b.inbox.one(), 'WR_FLUSH_ERR');
      assert.equal(one.qp.state, 'ERR');
      assert.equal(two.qp.state, 'ERR');
      one.disconnect();
      two.disconnect();
    });

    test('many connect at once, each gets its own peer', async (stage) => {
      const listener = await listen(stage);
      const count = stage.scaled(32);
      const serving = (async () => {
        const accepted: { tag: number; connection: Connection }[] = [];
        for await (const request of listener) {
          const tag = request.privateData[0];
          accepted.push({ tag, connection: await request.accept(stage.b.qp(), { privateData: Uint8Array.of(tag ^ 0xff) }) });
          if (accepted.length === count) break;
        }
        return accepted;
      })();
      const connecting = Array.from({ length: count }, (_, tag) =>
        stage.a.device.connect(listener.name, stage.a.qp(), { privateData: Uint8Array.of(tag) }),
      );
      const connected = await stage.settle(Promise.all(connecting), 15000);
      const accepted = await stage.settle(serving);
      for (const [tag, connection] of connected.entries()) assert.equal(connection.privateData[0], tag ^ 0xff);
      for (const { tag, connection } of accepted) connection.qp.postRecv({ id: tag });
      for (const [tag, connection] of connected.entries()) connection.qp.postSend({ opcode: 'SEND_WITH_IMM', imm: tag });
      await stage.a.inbox.succeed(count);
      for (const received of await stage.b.inbox.succeed(count)) assert.equal(received.imm, received.id);
    });

    test('a connection ends when the device of the peer is closed', async (stage) => {
      const guest = await stage.extraDevice();
      const listener = await listen(stage);
      const connecting = guest.device.connect(listener.name, guest.qp());
      const accepting = listener.accept().then((request) => request.accept(stage.b.qp()));
      const [, accepted] = await stage.settle(Promise.all([connecting, accepting]));
      accepted.qp.postRecv({ id: 3 });
      stage.unwatch(guest.inbox);
      guest.device.close();
      assert.ok((await stage.settle(accepted.closed)).length > 0);
      assertFailed(await stage.b.inbox.one(), 'WR_FLUSH_ERR');
    });

    test('the listener is gone with its device', async (stage) => {
      const host = await stage.extraDevice();
      const name = freshName();
      await stage.settle(host.device.listen(name));
      host.device.close();
      const connecting = stage.a.device.connect(name, stage.a.qp());
      await stage.settle(assert.rejects(connecting, verbsError('VERBS_NO_DEVICE')));
    });
  },
};
