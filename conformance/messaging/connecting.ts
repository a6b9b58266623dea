import assert from 'node:assert/strict';
import { MessagingError, type Worker } from '../../src/messaging/index.js';
import { Random } from '../../src/verbs/providers/sim/random.js';
import { assertBytes, type Chapter, pattern } from './stage.js';

let names = 0;
const freshName = () => `messaging-suite/${process.pid}/${++names}`;

export const connecting: Chapter = {
  name: 'connecting',
  cases: {
    'a listener takes connections under its name, and both sides can send': async (stage) => {
      const server = await stage.worker();
      const client = await stage.worker();
      const name = freshName();
      const listener = await server.listen(name);
      const out = client.connect(name);
      const sent = out.send(5, pattern(10));
      const back = await listener.accept();
      const into = new Uint8Array(10);
      await server.recv(5, into);
      await sent;
      assertBytes(into, pattern(10));
      await back.send(6, pattern(3));
      assert.equal((await client.recv(6, into)).length, 3);
      listener.close();
    },

    'a listener is reached by its target, too, which is for other hosts': async (stage) => {
      const server = await stage.worker();
      const client = await stage.worker();
      const listener = await server.listen(freshName());
      const out = client.connect(listener.targets[0]);
      await Promise.all([out.ready(), listener.accept()]);
      listener.close();
    },

    'nothing is connected before the first use, and what is sent before waits in order': async (stage) => {
      const near = await stage.worker();
      const far = await stage.worker();
      const endpoint = near.connect(far.address);
      assert.equal(endpoint.state, 'idle');
      const sends = [1, 2, 3].map((value) => endpoint.send(1, new Uint8Array([value])));
      const got: number[] = [];
      const into = new Uint8Array(1);
      for (let i = 0; i < 3; i++) {
        await far.recv(1, into);
        got.push(into[0]);
      }
      await Promise.all(sends);
      assert.deepEqual(got, [1, 2, 3]);
      assert.equal(endpoint.state, 'ready');
    },

    'an address is bytes with the version first, and an endpoint to it is found again': async (stage) => {
      const { near, far, out } = await stage.pair();
      assert.equal(far.address[0], 2);
      assert.equal(near.connect(far.address), out);
    },

    'workers that connect to each other at the same moment have one endpoint to each other, and its stream': async (stage) => {
      const seed = Number(process.env['VERBENA_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
      const random = new Random(seed);
      const workers: Worker[] = [];
      for (let i = 0; i < 6; i++) workers.push(await stage.worker());
      const meetings = workers.flatMap((near) =>
        workers.filter((far) => far !== near).map((far) => ({ near, far, turns: random.below(4) })),
      );
      const endpoints = await Promise.all(
        meetings.map(async ({ near, far, turns }) => {
          for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
          const endpoint = near.connect(far.address);
          if (random.below(2) === 0) await new Promise((resolve) => setImmediate(resolve));
          await endpoint.stream.write(Buffer.from(near.id));
          return endpoint;
        }),
      );
      for (const [i, { near, far }] of meetings.entries()) {
        const words = `VERBENA_SEED=${seed}, from worker ${workers.indexOf(near)} to ${workers.indexOf(far)}`;
        const into = Buffer.alloc(16);
        for (let at = 0; at < 16; ) at += await endpoints[i].stream.read(into.subarray(at));
        assert.equal(into.toString(), far.id, words);
        assert.equal(near.connect(far.address), endpoints[i], words);
      }
      for (const worker of workers) {
        assert.equal(
          worker.endpoints.filter(({ state }) => state === 'ready').length,
          workers.length - 1,
          `VERBENA_SEED=${seed}`,
        );
      }
    },

    'connecting to nobody fails and names whom': async (stage) => {
      const worker = await stage.worker();
      const endpoint = worker.connect('messaging-suite/nobody');
      await assert.rejects(endpoint.ready(), (error: unknown) => {
        assert.ok(MessagingError.is(error));
        assert.match((error as Error).message, /messaging-suite\/nobody/);
        return true;
      });
      await assert.rejects(endpoint.send(1, new Uint8Array(1)), MessagingError.is);
    },

    'every wait gives up after its timeout and by its signal': async (stage) => {
      const { near, far, out } = await stage.pair();
      const into = new Uint8Array(1);
      await assert.rejects(far.recv(1, into, { timeoutMs: 20 }), { code: 'MSG_TIMEOUT' });
      const abort = new AbortController();
      const waiting = far.recv(1, into, { signal: abort.signal });
      abort.abort(new Error('enough'));
      await assert.rejects(waiting, /enough/);
      // Both receives are gone: the message goes to the third.
      await out.send(1, new Uint8Array([9]));
      await far.recv(1, into);
      assert.equal(into[0], 9);
      const listener = await near.listen(freshName());
      await assert.rejects(listener.accept({ timeoutMs: 20 }), { code: 'MSG_TIMEOUT' });
      await assert.rejects(out.stream.read(into, { timeoutMs: 20 }), { code: 'MSG_TIMEOUT' });
    },

    'an unknown or bad option is refused with words': async (stage) => {
      const context = await stage.context();
      await assert.rejects(context.createWorker({ rings: 3 } as never), /has no option 'rings'/);
      await assert.rejects(context.createWorker({ ringSlots: 100 }), /power of two/);
      await assert.rejects(context.createWorker({ mode: 'fast' as never }), /poll, event, adaptive/);
    },
  },
};
