import assert from 'node:assert/strict';
import { assertBytes, type Chapter, pattern, until } from './stage.js';

export const activeMessages: Chapter = {
  name: 'active messages',
  cases: {
    'a handler gets header and payload of every size, small ones whole and large ones on request': async (stage) => {
      const { near, far, out } = await stage.pair();
      for (const size of [0, 8, 40, 41, 5000, 100_000, 2 << 20]) {
        for (const headerLength of [0, 5, 16, 17, 300]) {
          const arrived = new Promise<{ header: Uint8Array; data: Uint8Array }>((resolve, reject) => {
            far.handle(3, async (message) => {
              try {
                const header = message.header.slice();
                const data = new Uint8Array(message.length);
                await message.receive(data);
                resolve({ header, data });
              } catch (error) {
                reject(error);
              }
            });
          });
          await out.am(3, pattern(headerLength, 1), pattern(size, 2));
          const { header, data } = await arrived;
          assertBytes(header, pattern(headerLength, 1), 'the header');
          assertBytes(data, pattern(size, 2), `the payload of ${size} bytes`);
        }
      }
      assert.equal(near.requests.live, 0);
    },

    'they arrive in the order of sending, and a handler can answer': async (stage) => {
      const { near, far, out } = await stage.pair();
      const answers: number[] = [];
      far.handle(1, ({ endpoint, header }) => void endpoint.am(2, header.slice(), new Uint8Array(0)));
      near.handle(2, ({ header }) => {
        answers.push(header[0] | (header[1] << 8));
      });
      for (let i = 0; i < 2000; i++) await out.am(1, new Uint8Array([i & 0xff, i >> 8]), new Uint8Array(i % 64));
      await until(() => answers.length === 2000, 'the answers', near, far);
      assert.deepEqual(
        answers,
        answers.map((_, i) => i),
      );
    },

    'a large payload that the handler does not take is dropped, and the sender goes on': async (stage) => {
      const { far, out } = await stage.pair();
      let seen = 0;
      far.handle(1, ({ length }) => {
        seen = length;
      });
      await out.am(1, new Uint8Array(0), pattern(500_000));
      assert.equal(seen, 500_000);
    },

    'an error of a handler and a message without one are told to the worker that received it': async (stage) => {
      const { near, far, out } = await stage.pair();
      const errors: unknown[] = [];
      far.onError = (error) => errors.push(error);
      far.handle(1, () => {
        throw new Error('broken handler');
      });
      await out.am(1, new Uint8Array(0), new Uint8Array(0));
      await out.am(9, new Uint8Array(0), new Uint8Array(0));
      await until(() => errors.length === 2, 'the errors', near, far);
      assert.match(String(errors[0]), /broken handler/);
      assert.match(String(errors[1]), /no handler 9/);
      assert.throws(() => far.handle(-1, () => {}), { code: 'MSG_INVALID' });
    },
  },
};
