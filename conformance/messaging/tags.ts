import assert from 'node:assert/strict';
import type { ProtocolName, WorkerOptions } from '../../src/messaging/index.js';
import { assertBytes, type Case, type Chapter, connectPair, pattern, ringsOf, until } from './stage.js';

const SIZES = [0, 1, 3, 8, 39, 40, 41, 64, 1000, 8184, 8185, 65_536, 65_537, 300_001, 1 << 20, (3 << 20) + 5];

/** All sizes, arena and private memory, expected and unexpected, with the given options. */
function allSizes(options: WorkerOptions): Case {
  return async (stage) => {
    const { near, far, out } = await stage.pair(options);
    for (const size of SIZES) {
      for (const arena of [false, true]) {
        const memory = arena && size > 0 ? near.context.alloc(size) : new Uint8Array(size);
        const into = arena && size > 0 ? far.context.alloc(size) : new Uint8Array(size);
        for (const expected of [true, false]) {
          const bytes = pattern(size, size + (expected ? 1 : 2));
          memory.set(bytes);
          into.fill(0);
          if (expected) {
            const received = far.recv(size, into);
            await Promise.all([out.send(size, memory), received]);
            assert.equal((await received).length, size);
          } else {
            const sent = out.send(size, memory);
            await until(() => far.probe(size) !== undefined, 'the arrival', near, far);
            assert.equal(far.probe(size)?.length, size);
            await far.recv(size, into);
            await sent;
          }
          assertBytes(into, bytes, `${size} bytes, ${arena ? 'arena' : 'private'}, ${expected ? 'expected' : 'unexpected'}`);
        }
      }
    }
  };
}

const forced = (protocol: ProtocolName): Case => allSizes({ protocol });

export const tags: Chapter = {
  name: 'tag',
  cases: {
    'messages of every size arrive, from and into every kind of memory, early and late': allSizes({}),
    'the same when the receiver reads (rndv-get)': forced('rndv-get'),
    'the same when the sender writes (rndv-put)': forced('rndv-put'),
    'the same in fragments through the ring (rndv-am)': forced('rndv-am'),
    'the same by eager-zcopy, on rings that the device writes': allSizes({ protocol: 'eager-zcopy', ring: 'immediate' }),
    'the same over three lanes (rndv-pipeline)': allSizes({ protocol: 'rndv-pipeline', lanes: 3, fragmentBytes: 65_536 }),
    'the same in event mode': allSizes({ mode: 'event' }),
    'the same in poll mode': allSizes({ mode: 'poll' }),

    'an eager-zcopy send takes no copy at the sender, and is complete when its memory is free again': async (stage) => {
      const { near, far, out } = await stage.pair({ protocol: 'eager-zcopy', ring: 'immediate' });
      const data = pattern(5000, 9);
      const into = new Uint8Array(5000);
      const received = far.recv(1, into);
      const handle = near.postSend(out, data, 1, 0);
      assert.notEqual(handle, 0, 'it waits for the device');
      await until(() => near.test(handle), 'the send', near, far);
      data.fill(0);
      await received;
      assertBytes(into, pattern(5000, 9));
      const mirror = Buffer.from(ringsOf(out).mirrorRegion?.bytes ?? []);
      assert.equal(mirror.indexOf(pattern(5000, 9).subarray(0, 64)), -1, 'no copy of the payload in the bounce memory');
    },

    'messages of one sender are matched in the order of sending, eager and rendezvous mixed': async (stage) => {
      const { near, far, out } = await stage.pair();
      const sizes = [8, 100_000, 8, 5000, 200_000, 0, 8];
      const sends = sizes.map((size, i) => out.send(1, pattern(size, i)));
      for (const [i, size] of sizes.entries()) {
        const into = new Uint8Array(200_000);
        const { length } = await far.recv(1, into);
        assert.equal(length, size);
        assertBytes(into.subarray(0, length), pattern(size, i));
      }
      await Promise.all(sends);
      assert.equal(near.requests.live, 0);
    },

    'receives are served in the order of posting, a wildcard among them': async (stage) => {
      const { far, out } = await stage.pair();
      const into = [0, 1, 2].map(() => new Uint8Array(1));
      const first = far.recv(7, into[0]);
      const wild = far.recv(0, into[1], { mask: 0 });
      const last = far.recv(7, into[2]);
      for (const value of [1, 2, 3]) await out.send(7, new Uint8Array([value]));
      await Promise.all([first, wild, last]);
      assert.deepEqual(
        into.map((bytes) => bytes[0]),
        [1, 2, 3],
      );
    },

    'all 64 bits of a tag and of a mask count': async (stage) => {
      const { far, out } = await stage.pair();
      const into = new Uint8Array(1);
      const high = 1n << 63n;
      await out.send(high | 5n, new Uint8Array([1]));
      await out.send(5, new Uint8Array([2]));
      await far.recv(5, into);
      assert.equal(into[0], 2);
      const received = await far.recv(high, into, { mask: high });
      assert.equal(into[0], 1);
      assert.equal(received.tag, high | 5n);
    },

    'any source takes from everyone, a given source from one': async (stage) => {
      const far = await stage.worker();
      const left = await stage.worker();
      const right = await stage.worker();
      const fromLeft = await connectPair(left, far);
      const fromRight = await connectPair(right, far);
      await fromLeft.out.send(1, new Uint8Array([1]));
      await fromRight.out.send(1, new Uint8Array([2]));
      await fromLeft.out.send(1, new Uint8Array([3]));
      const into = new Uint8Array(1);
      await far.recv(1, into, { from: fromRight.back });
      assert.equal(into[0], 2);
      const anyone = await far.recv(1, into);
      assert.equal(into[0], 1);
      assert.equal(far.endpointOf(anyone.source), fromLeft.back);
      await far.recv(1, into, { from: fromLeft.back });
      assert.equal(into[0], 3);
    },

    'a wildcard of the user takes no message of another context': async (stage) => {
      const { near, far, out } = await stage.pair();
      const into = new Uint8Array(4);
      const wild = far.recv(0, into, { mask: 0 });
      await near.send(out, 1, new Uint8Array([1]), {}, 77);
      await near.send(out, 1, new Uint8Array([2]), {}, 0);
      assert.equal((await wild).length, 1);
      assert.equal(into[0], 2);
      await far.recv(1, into, {}, 77);
      assert.equal(into[0], 1);
    },

    'a message that is too long fails the receive and nothing else': async (stage) => {
      for (const size of [30, 3000, 300_000]) {
        const { far, out } = await stage.pair();
        const into = new Uint8Array(10);
        const early = far.recv(1, into);
        await Promise.all([assert.rejects(early, { code: 'MSG_TRUNCATED' }), out.send(1, pattern(size))]);
        const sent = out.send(1, pattern(size));
        await assert.rejects(far.recv(1, into), { code: 'MSG_TRUNCATED' });
        await sent;
        await out.send(2, pattern(5));
        assert.equal((await far.recv(2, into)).length, 5);
      }
    },

    'probe tells of a message and leaves it; a matched probe takes it from everyone else': async (stage) => {
      const { near, far, out } = await stage.pair();
      assert.equal(far.probe(4), undefined);
      const sends = [out.send(4, pattern(100_000, 1)), out.send(4, pattern(10, 2))];
      await until(() => far.probe(4) !== undefined, 'the arrival', near, far);
      assert.equal(far.probe(0, { mask: 0 })?.length, 100_000);
      const matched = far.probeMatched(4);
      assert.equal(matched?.length, 100_000);
      const into = new Uint8Array(100_000);
      assert.equal((await far.recv(4, into)).length, 10);
      await matched?.recv(into);
      assertBytes(into, pattern(100_000, 1));
      await Promise.all(sends);
    },

    'a cancelled receive ends with MSG_CANCELLED and takes no message': async (stage) => {
      const { far, out } = await stage.pair();
      const into = new Uint8Array(1);
      const request = far.recvBegin(1, into);
      assert.equal(request.cancel(), true);
      await assert.rejects(request.wait(), { code: 'MSG_CANCELLED' });
      assert.equal(request.cancel(), false);
      await out.send(1, new Uint8Array([5]));
      await far.recv(1, into);
      assert.equal(into[0], 5);
    },

    'lists of pieces and strided layouts are gathered and scattered': async (stage) => {
      for (const rows of [4, 1000, 20_000]) {
        const { far, out } = await stage.pair();
        const matrix = pattern(rows * 16, 3);
        const column = { memory: matrix, offset: 4, blockLength: 4, stride: 16, count: rows };
        const expected = new Uint8Array(rows * 4);
        for (let row = 0; row < rows; row++) expected.set(matrix.subarray(row * 16 + 4, row * 16 + 8), row * 4);
        const into = new Uint8Array(rows * 4);
        await Promise.all([out.send(1, column), far.recv(1, into)]);
        assertBytes(into, expected, `${rows} blocks out`);
        const landing = new Uint8Array(rows * 16);
        await Promise.all([out.send(2, into), far.recv(2, { ...column, memory: landing })]);
        for (let row = 0; row < rows; row++) {
          assertBytes(landing.subarray(row * 16 + 4, row * 16 + 8), expected.subarray(row * 4, row * 4 + 4));
        }
        const parts = [expected.slice(0, 7), expected.slice(7, 8), expected.slice(8)];
        await Promise.all([out.send(3, parts), far.recv(3, [into.subarray(0, 5), into.subarray(5)])]);
        assertBytes(into, expected, 'pieces');
        parts[1] = Uint8Array.of(expected[7] ^ 255);
        await Promise.all([out.send(3, parts), far.recv(3, into)]);
        assert.equal(into[7], expected[7] ^ 255, 'a piece of the same list was replaced');
      }
    },

    'callbacks, promises and the synchronous form end the same requests': async (stage) => {
      const { near, far, out } = await stage.pair();
      const into = new Uint8Array(100_000);
      const called = new Promise<number | undefined>((resolve) => {
        far.recvBegin(1, into, {}, (error, received) => resolve(error === undefined ? received?.length : -1));
      });
      const sent = new Promise<Error | undefined>((resolve) => {
        if (out.sendBegin(1, pattern(100_000), resolve) === undefined) resolve(undefined);
      });
      assert.equal(await called, 100_000);
      assert.equal(await sent, undefined);
      const receive = far.postRecv(into, 2, 0);
      const send = near.postSend(out, pattern(50_000), 2, 0);
      let received = false;
      let complete = send === 0;
      await until(
        () => {
          received ||= far.test(receive);
          complete ||= near.test(send);
          return received && complete;
        },
        'the synchronous transfer',
        near,
        far,
      );
      assert.equal(far.lastLength, 50_000);
      assert.equal(far.lastTagLo, 2);
      assert.throws(() => far.test(receive), { code: 'MSG_INVALID' });
      assert.deepEqual([near.requests.live, far.requests.live], [0, 0]);
    },

    'thousands of messages in both directions at once arrive complete and in order': async (stage) => {
      const { near, far, out, back } = await stage.pair({ ringSlots: 16, ringBytes: 4096 });
      const count = 3000;
      const send = async (endpoint: typeof out) => {
        for (let i = 0; i < count; i++) await endpoint.send(1, new Uint32Array([i, ...new Array(i % 50).fill(i)]));
      };
      const receive = async (worker: typeof near) => {
        const into = new Uint32Array(64);
        for (let i = 0; i < count; i++) {
          const { length } = await worker.recv(1, into);
          assert.equal(length, 4 + (i % 50) * 4);
          assert.equal(into[0], i);
        }
      };
      await Promise.all([send(out), send(back), receive(near), receive(far)]);
    },

    'explain names the protocol that is used, with a reason for every other': async (stage) => {
      const { out } = await stage.pair();
      for (const bytes of [8, 1000, 1 << 20]) {
        const explanation = out.explain('tag', bytes);
        assert.equal(explanation.candidates.filter((candidate) => candidate.chosen).length, 1);
        assert.ok(explanation.candidates.every((candidate) => candidate.reason !== ''));
      }
      assert.match(out.explain('tag', 8).protocol, /eager/);
      assert.match(out.explain('tag', 1 << 24).protocol, /rndv/);
    },
  },
};
