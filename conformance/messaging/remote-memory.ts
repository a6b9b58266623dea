import assert from 'node:assert/strict';
import { type Endpoint, type RemoteMemory, SymmetricHeap, type Worker } from '../../src/messaging/index.js';
import { assertBytes, type Chapter, connectPair, pattern, until } from './stage.js';

export const remoteMemory: Chapter = {
  name: 'remote memory',
  cases: {
    'put and get reach exposed memory of every kind, and nothing outside it': async (stage) => {
      const { near, far, out } = await stage.pair();
      for (const size of [8, 5000, 2 << 20]) {
        for (const memory of [far.context.alloc(size), new Uint8Array(size)]) {
          const exposed = far.expose(memory);
          const remote = out.unpack(exposed.pack());
          assert.equal(remote.length, size);
          const data = pattern(size, size);
          await remote.put(0, data);
          await out.flush();
          assertBytes(exposed.bytes, data);
          const into = near.context.alloc(size - 3);
          await remote.get(3, into);
          assertBytes(into, data.subarray(3));
          assert.throws(() => remote.postPut(size - 3, near.payload(new Uint8Array(4))), { code: 'MSG_INVALID' });
          exposed.close();
        }
      }
      assert.throws(() => out.unpack(new Uint8Array(24)), { code: 'MSG_INVALID' });
    },

    'every atomic returns what was there and stores what it should': async (stage) => {
      const { near, far, out } = await stage.pair();
      const exposed = far.expose(far.context.alloc(64));
      const remote = out.unpack(exposed.pack());
      await remote.put(8, new BigUint64Array([10n]));
      await out.flush();
      assert.equal(await remote.fetchAdd(8, 5n), 10n);
      assert.equal(await remote.fetchAdd(8, -1n), 15n);
      assert.equal(await remote.compareSwap(8, 14n, 6n), 14n);
      assert.equal(await remote.compareSwap(8, 99n, 1n), 6n);
      assert.equal(await remote.fetchOr(8, 9n), 6n);
      assert.equal(await remote.fetchAnd(8, 0xbn), 15n);
      assert.equal(await remote.fetchXor(8, 2n), 11n);
      assert.equal(await remote.swap(8, 1n << 63n), 9n);
      assert.equal(new BigUint64Array(exposed.bytes.buffer)[1], 1n << 63n);
      await assert.rejects(remote.fetchAdd(4, 1n), { code: 'MSG_INVALID' });
      const ordinary = out.unpack(far.expose(new Uint8Array(16)).pack());
      // What the device cannot do on ordinary memory the owner does, when it makes progress.
      const emulated: bigint[] = [];
      const asked = (async () => {
        emulated.push(await ordinary.fetchAdd(8, 3n), await ordinary.compareSwap(8, 3n, 9n), await ordinary.swap(8, 1n << 63n));
      })();
      await until(() => emulated.length === 3, 'the atomics of the owner', near, far);
      await asked;
      assert.deepEqual(emulated, [0n, 3n, 9n]);
      await assert.rejects(ordinary.fetchAdd(4, 1n), { code: 'MSG_INVALID' });
    },

    'atomics of two peers on one word add up, the emulated ones too': async (stage) => {
      const owner = await stage.worker();
      const exposed = owner.expose(owner.context.alloc(16));
      const adders: RemoteMemory[] = [];
      for (let who = 0; who < 2; who++) {
        const { out } = await connectPair(await stage.worker(), owner);
        adders.push(out.unpack(exposed.pack()));
      }
      await Promise.all(
        adders.map(async (remote, who) => {
          for (let i = 0; i < 100; i++) {
            await remote.fetchAdd(0, 1n);
            await remote.fetchXor(8, 1n << BigInt((i * 2 + who) % 64));
          }
        }),
      );
      const words = new BigUint64Array(exposed.bytes.buffer);
      assert.equal(words[0], 200n);
      // Each bit was flipped by one peer only, as often as its number comes up in 100 rounds.
      let expected = 0n;
      for (const who of [0, 1]) for (let i = 0; i < 100; i++) expected ^= 1n << BigInt((i * 2 + who) % 64);
      assert.equal(words[1], expected);
    },

    'flush waits for all puts, and a fence keeps what comes after it behind': async (stage) => {
      const { near, far, out } = await stage.pair();
      const exposed = far.expose(far.context.alloc(2 << 20));
      const remote = out.unpack(exposed.pack());
      const handles = Array.from({ length: 40 }, (_, i) => remote.postPut(i * 1000, near.payload(pattern(1000, i))));
      await out.flush();
      for (let i = 0; i < 40; i++) assertBytes(exposed.bytes.subarray(i * 1000, i * 1000 + 1000), pattern(1000, i));
      for (const handle of handles) assert.equal(near.test(handle), true);
      const big = near.context.alloc(1 << 20);
      const get = remote.get(0, big);
      out.fence();
      const put = remote.put(0, new Uint8Array(1 << 20).fill(255));
      await Promise.all([get, put]);
      assertBytes(big.subarray(0, 1000), pattern(1000, 0), 'what the get saw');
      assert.equal(exposed.bytes[0], 255);
    },

    'a symmetric heap of three ranks: one offset, every rank': async (stage) => {
      const workers: Worker[] = [];
      for (let rank = 0; rank < 3; rank++) workers.push(await stage.worker());
      const endpoints: (Endpoint | undefined)[][] = workers.map(() => []);
      for (const [a, b] of [
        [0, 1],
        [0, 2],
        [1, 2],
      ]) {
        const { out, back } = await connectPair(workers[a], workers[b]);
        endpoints[a][b] = out;
        endpoints[b][a] = back;
      }
      for (let rank = 0; rank < 3; rank++) endpoints[rank].length = 3;
      const heaps = await Promise.all(
        workers.map((worker, rank) => {
          const all = Array.from({ length: 3 }, (_, other) => endpoints[rank][other]);
          return SymmetricHeap.create(worker, { rank, endpoints: all, bytes: 4096 });
        }),
      );
      const offsets = heaps.map((heap) => [heap.alloc(100), heap.alloc(8)]);
      assert.deepEqual(offsets[0], offsets[2]);
      const [data, flag] = offsets[0];
      // Every rank tells its right neighbour, then raises the flag there.
      await Promise.all(
        heaps.map(async (heap, rank) => {
          const right = (rank + 1) % 3;
          await heap.put(right, data, pattern(100, rank));
          await heap.quiet();
          await heap.fetchAdd(right, flag, BigInt(rank + 1));
        }),
      );
      await Promise.all(
        heaps.map(async (heap, rank) => {
          const left = (rank + 2) % 3;
          assert.equal(await heap.waitUntil(flag, '>=', BigInt(left + 1)), BigInt(left + 1));
          assertBytes(heap.local.subarray(data, data + 100), pattern(100, left));
          const into = new Uint8Array(100);
          await heap.get((rank + 1) % 3, data, into);
          assertBytes(into, pattern(100, rank));
        }),
      );
      const word = heaps.map((heap) => heap.alloc(8))[0];
      for (const rank of [0, 1]) {
        assert.equal(await heaps[0].swap(rank, word, 12n), 0n);
        assert.equal(await heaps[0].fetchAnd(rank, word, 10n), 12n);
        assert.equal(await heaps[0].fetchOr(rank, word, 1n), 8n);
        assert.equal(await heaps[0].fetchXor(rank, word, -1n), 9n);
        assert.equal(await heaps[0].compareSwap(rank, word, -10n, 3n), -10n);
        assert.equal(await heaps[0].fetchAdd(rank, word, 0n), 3n);
      }
      assert.throws(() => heaps[0].alloc(10_000), { code: 'MSG_INVALID' });
      await assert.rejects(heaps[0].waitUntil(flag, '==', 99n, { timeoutMs: 20 }), { code: 'MSG_TIMEOUT' });
    },
  },
};
