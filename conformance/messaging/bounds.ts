import assert from 'node:assert/strict';
import { assertBytes, type Chapter, partsOf, pattern, until } from './stage.js';

/** A receiver with little room for what it did not ask for. */
const SMALL = { unexpectedBytes: 4096, unexpectedMessages: 16, ringSlots: 16, ringBytes: 16_384 } as const;

export const bounds: Chapter = {
  name: 'bounds',
  cases: {
    'a receiver that never receives holds no more than its bound, and senders wait': async (stage) => {
      const { near, far, out } = await stage.pair({}, SMALL);
      const requests = Array.from({ length: 5000 }, (_, i) => out.sendBegin(1, pattern(512, i)));
      for (let i = 0; i < 2000; i++) {
        near.poll();
        far.poll();
      }
      assert.ok(partsOf(far).tags.store.bytes <= SMALL.unexpectedBytes);
      assert.ok(partsOf(far).tags.store.count <= SMALL.unexpectedMessages);
      const held = requests.filter((request) => request !== undefined && !request.done).length;
      assert.ok(held > 4900, `${held} sends are held back`);
    },

    'a receive that matches goes on while everything before it is held back': async (stage) => {
      const { near, far, out } = await stage.pair({}, SMALL);
      for (let i = 0; i < 500; i++) out.sendBegin(1, pattern(512, i));
      const wanted = out.send(2, pattern(700, 7));
      const into = new Uint8Array(700);
      await Promise.all([far.recv(2, into), wanted]);
      assertBytes(into, pattern(700, 7));
      // Posted before the message is sent, too.
      const early = far.recv(3, into);
      for (let i = 0; i < 100; i++) near.poll() + far.poll();
      await Promise.all([out.send(3, pattern(40, 8)), early]);
      assertBytes(into.subarray(0, 40), pattern(40, 8));
    },

    'a new receive does not overtake one that waits longer, when both find their messages behind one that is held back': async (
      stage,
    ) => {
      const { near, far, out } = await stage.pair({}, { ...SMALL, unexpectedBytes: 0 });
      const into = [new Uint8Array(8), new Uint8Array(8)];
      assert.equal(near.postSend(out, pattern(8, 1), 1, 0), 0);
      await until(() => partsOf(far).endpoints.some((one) => one.stuck), 'the bound', near, far);
      const first = far.postRecv(into[0], 2, 0);
      assert.equal(near.postSend(out, pattern(8, 2), 2, 0), 0);
      await until(() => partsOf(far).endpoints[0].messagesIn.peekAhead(1) >= 0, 'the arrival', near);
      const second = far.postRecv(into[1], 2, 0);
      assert.equal(near.postSend(out, pattern(8, 3), 2, 0), 0);
      await until(() => far.test(first), 'the first', near, far);
      await until(() => far.test(second), 'the second', near, far);
      assertBytes(into[0], pattern(8, 2), 'the older receive has the older message');
      assertBytes(into[1], pattern(8, 3));
    },

    'what was held back arrives in order when it is received at last': async (stage) => {
      const { far, out } = await stage.pair({}, SMALL);
      const count = 300;
      const sends = Array.from({ length: count }, (_, i) => out.send(i % 3, pattern(1 + ((i * 37) % 900), i)));
      const into = new Uint8Array(1000);
      for (const tag of [2, 0, 1]) {
        for (let i = tag; i < count; i += 3) {
          const { length } = await far.recv(tag, into);
          assertBytes(into.subarray(0, length), pattern(1 + ((i * 37) % 900), i), `message ${i}`);
        }
      }
      await Promise.all(sends);
    },

    'announcements of large messages count as well': async (stage) => {
      const { near, far, out } = await stage.pair({}, SMALL);
      const large = pattern(200_000);
      const sends = Array.from({ length: 60 }, () => out.send(1, large));
      for (let i = 0; i < 500; i++) near.poll() + far.poll();
      assert.ok(partsOf(far).tags.store.count <= SMALL.unexpectedMessages);
      const into = new Uint8Array(large.length);
      for (let i = 0; i < sends.length; i++) await far.recv(1, into);
      await Promise.all(sends);
      assertBytes(into, large);
    },

    'active messages, streams and remote memory go on beside messages that are held back': async (stage) => {
      const { near, far, out } = await stage.pair({}, SMALL);
      for (let i = 0; i < 200; i++) out.sendBegin(1, pattern(512));
      let got = 0;
      far.handle(1, ({ length }) => {
        got += length;
      });
      for (let i = 0; i < 100; i++) await out.am(1, new Uint8Array(1), pattern(100));
      await until(() => got === 10_000, 'the active messages', near, far);
      const memory = far.expose(far.context.alloc(64));
      await out.unpack(memory.pack()).put(0, pattern(64));
      await out.flush();
      assertBytes(memory.bytes, pattern(64));
      memory.close();
    },
  },
};
