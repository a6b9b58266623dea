import assert from 'node:assert/strict';
import { PeerLost } from '../../src/messaging/index.js';
import { assertBytes, type Chapter, connectPair, partsOf, pattern, ringsOf, until } from './stage.js';

export const failing: Chapter = {
  name: 'failing and closing',
  cases: {
    'a peer that goes away fails what depends on it, by name, and nothing else': async (stage) => {
      const near = await stage.worker();
      const doomed = await stage.worker();
      const other = await stage.worker();
      const lost = await connectPair(near, doomed);
      const kept = await connectPair(near, other);
      const into = new Uint8Array(100);
      const fails = [
        lost.out.send(1, pattern(1 << 20)),
        near.recv(2, into, { from: lost.out }),
        lost.out.stream.read(new Uint8Array(10)),
      ].map((promise) =>
        assert.rejects(promise, (error: unknown) => {
          assert.ok(error instanceof PeerLost, String(error));
          assert.equal(error.code, 'MSG_PEER_LOST');
          assert.match(error.peer, /process \d+/);
          return true;
        }),
      );
      const fromAnyone = near.recv(3, into);
      const start = performance.now();
      await doomed.close({ force: true });
      await Promise.all(fails);
      assert.ok(performance.now() - start < 10_000);
      await assert.rejects(lost.out.send(1, into), PeerLost);
      await assert.rejects(near.recv(2, into, { from: lost.out }), PeerLost);
      await kept.back.send(3, pattern(100));
      await fromAnyone;
      assertBytes(into, pattern(100));
    },

    'a graceful close delivers what was sent, and the other side then gets PeerLost': async (stage) => {
      const { near, far, out, back } = await stage.pair();
      const sends = [1, 2, 3].map((i) => out.send(1, pattern(i === 2 ? 100_000 : 50, i)));
      const closing = out.close();
      const into = new Uint8Array(100_000);
      for (const i of [1, 2, 3]) {
        const { length } = await far.recv(1, into);
        assertBytes(into.subarray(0, length), pattern(i === 2 ? 100_000 : 50, i));
      }
      await Promise.all(sends);
      await closing;
      await assert.rejects(out.send(1, into), { code: 'MSG_CLOSED' });
      await until(() => back.closedByPeer || back.state === 'failed', 'the news', near, far);
      await assert.rejects(back.send(1, into), PeerLost);
    },

    'a graceful close does not wait for a peer that takes nothing, and what was sent is there when it is received at last':
      async (stage) => {
        const { near, far, out, back } = await stage.pair({}, { unexpectedBytes: 0, unexpectedMessages: 1 });
        const count = 20;
        for (let i = 0; i < count; i++) await out.send(1, pattern(i * 16, i));
        await near.close();
        await until(() => back.state === 'failed', 'the news', far);
        const into = new Uint8Array(count * 16);
        for (let i = 0; i < count; i++) {
          const { length } = await far.recv(1, into, { from: back });
          assertBytes(into.subarray(0, length), pattern(i * 16, i), `message ${i}`);
        }
        await assert.rejects(far.recv(1, into, { from: back }), PeerLost);
      },

    'a forced close fails what is outstanding at once': async (stage) => {
      const { out } = await stage.pair();
      const stuck = assert.rejects(out.send(1, pattern(1 << 20)), { code: 'MSG_CLOSED' });
      await out.close({ force: true });
      await stuck;
      await out.close();
    },

    'the rings of an endpoint that was closed by force are given back when the peer has let go': async (stage) => {
      const { near, far, out, back } = await stage.pair();
      await out.send(1, pattern(100));
      await out.close({ force: true });
      await until(() => back.state === 'failed' || back.closedByPeer, 'the news', far);
      await until(() => partsOf(near).endings.retiredRings === 0, 'the memory', near, far);
      assert.equal(ringsOf(out).ringRegion, undefined);
    },

    'a peer that connects and is closed at once leaves nothing behind': async (stage) => {
      const far = await stage.worker();
      for (let i = 0; i < 5; i++) {
        const context = await stage.factory.open(1);
        const near = await context.createWorker({ ...stage.factory.worker });
        await near.connect(far.address).ready();
        await context.close();
      }
      await until(() => far.endpoints.every(({ state }) => state === 'failed' || state === 'connecting'), 'the news', far);
      await far.close({ force: true });
    },

    'closing a worker ends its receives and closing twice is harmless': async (stage) => {
      const worker = await stage.worker();
      const waiting = assert.rejects(worker.recv(1, new Uint8Array(1)), { code: 'MSG_CLOSED' });
      await worker.close();
      await waiting;
      await worker.close();
      assert.throws(() => worker.connect('nobody'), { code: 'MSG_CLOSED' });
    },

    'memory is not given back while a send or a receive uses it: VERBS_BUSY says which': async (stage) => {
      const { near, far, out } = await stage.pair();
      const { context } = near;
      const [large, piece, awaited] = [1 << 20, 1 << 19, 64].map((bytes) => context.alloc(bytes));
      large.set(pattern(large.length));
      piece.set(pattern(piece.length));
      const sent = [out.send(1, large), out.send(2, [piece.subarray(0, 10), piece.subarray(10)])];
      const receive = near.recvBegin(3, awaited);
      await until(() => far.probe(1) !== undefined && far.probe(2) !== undefined, 'the announcements', near, far);
      const busy = (message: RegExp) => ({ name: 'VerbsError', code: 'VERBS_BUSY', message });
      assert.throws(() => context.free(large), busy(/tag send of 1048576 bytes uses this memory/));
      assert.throws(() => context.free(piece), busy(/tag send of 524288 bytes/));
      assert.throws(() => context.free(awaited), busy(/tag receive of 64 bytes/));
      const into = new Uint8Array(large.length);
      for (const [tag, memory] of [[1, large] as const, [2, piece] as const]) {
        await far.recv(tag, into);
        assertBytes(into.subarray(0, memory.length), pattern(memory.length));
      }
      await Promise.all(sent);
      receive.cancel();
      await assert.rejects(receive.wait(), { code: 'MSG_CANCELLED' });
      for (const memory of [large, piece, awaited]) context.free(memory);
    },

    'a lane that fails in the middle hands its share to the others, and the transfer completes': async (stage) => {
      const options = { lanes: 3, fragmentBytes: 65_536, protocol: 'rndv-pipeline' } as const;
      const { far, out, back: accepted } = await stage.pair(options);
      const back = ringsOf(accepted);
      await until(() => back.lanes.length === 3 && back.lanes.every((lane) => lane !== undefined), 'the lanes', far);
      const data = pattern(8 << 20);
      const into = new Uint8Array(data.length);
      await Promise.all([out.send(1, data), far.recv(1, into)]);
      assertBytes(into, data);
      assert.ok(
        back.lanes.every((lane) => lane.counted > 0),
        'every lane took part',
      );
      for (let round = 0; round < 2; round++) {
        into.fill(0);
        const received = far.recv(1, into);
        const sent = out.send(1, data);
        back.lanes[2 - round].qp.modify('ERR');
        await Promise.all([sent, received]);
        assertBytes(into, data, `with ${2 - round} lanes`);
      }
      assert.equal(back.state, 'ready');
    },
  },
};
