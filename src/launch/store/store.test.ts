import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { Coordinator } from '../coordinator.js';
import { LaunchError, type LaunchErrorCode } from '../errors.js';
import { makeSecret } from './authentication.js';
import { FileStore } from './file-store.js';
import type { Store } from './store.js';
import { TcpStore } from './tcp-store.js';

const fails = (code: LaunchErrorCode, words?: RegExp) => (error: unknown) => {
  assert.ok(LaunchError.is(error), String(error));
  assert.equal(error.code, code);
  if (words) assert.match(error.message, words);
  return true;
};

const text = (bytes: Uint8Array | undefined) => bytes && Buffer.from(bytes).toString();

/** What both kinds of store do. `open` gives another client of the same store. */
function suite(name: string, open: () => Promise<Store>): void {
  describe(name, () => {
    const opened: Store[] = [];
    const client = async () => {
      const store = await open();
      opened.push(store);
      return store;
    };
    after(() => {
      for (const store of opened) store.close();
    });

    it('gives back what was set, text or bytes, and undefined for what is not there', async () => {
      const [a, b] = [await client(), await client()];
      await a.set('text', 'größer');
      await a.set('bytes', new Uint8Array([0, 255, 10]));
      await a.set('empty', '');
      assert.equal(text(await b.get('text')), 'größer');
      assert.deepEqual([...((await b.get('bytes')) ?? [])], [0, 255, 10]);
      assert.equal(text(await b.get('empty')), '');
      assert.equal(await b.get('nothing'), undefined);
      assert.equal(await b.delete('text'), true);
      assert.equal(await b.delete('text'), false);
      assert.equal(await a.get('text'), undefined);
    });

    it('waits for a key that another client sets', async () => {
      const [a, b] = [await client(), await client()];
      const waiting = a.wait('later', { timeoutMs: 20_000 });
      await b.set('later', 'now');
      assert.equal(text(await waiting), 'now');
    });

    it('names the key that nobody set in time', async () => {
      await assert.rejects((await client()).wait('never', { timeoutMs: 30 }), fails('LAUNCH_TIMEOUT', /'never'/));
    });

    it('a signal ends a wait with its reason', async () => {
      const store = await client();
      const reason = new Error('enough');
      const stop = new AbortController();
      const waiting = [store.wait('never', { signal: stop.signal }), store.barrier('alone', { count: 2, signal: stop.signal })];
      setImmediate(() => stop.abort(reason));
      for (const one of await Promise.allSettled(waiting)) assert.deepEqual(one, { status: 'rejected', reason });
      await assert.rejects(store.wait('never', { signal: stop.signal }), reason);
    });

    it('adds without losing an addition when many clients add at once', async () => {
      const clients = await Promise.all(Array.from({ length: 6 }, client));
      const sums = await Promise.all(
        clients.flatMap((store) => [store.add('count', 1), store.add('count', 1), store.add('count', 1)]),
      );
      assert.deepEqual(
        sums.sort((a, b) => a - b),
        Array.from({ length: 18 }, (_, i) => i + 1),
      );
      await assert.rejects(
        async () => {
          await clients[0].set('word', 'no number');
          await clients[0].add('word', 1);
        },
        fails('LAUNCH_INVALID', /word/),
      );
    });

    it('lets exactly one of many win a compare-and-set', async () => {
      const clients = await Promise.all(Array.from({ length: 5 }, client));
      const held = await Promise.all(clients.map((store, i) => store.compareAndSet('leader', undefined, String(i))));
      assert.equal(new Set(held.map(text)).size, 1, 'all see the same winner');
      const winner = text(held[0]) as string;
      assert.equal(text(await clients[0].compareAndSet('leader', 'somebody else', 'x')), winner);
      assert.equal(text(await clients[0].compareAndSet('leader', winner, 'next')), 'next');
      assert.equal(await clients[0].compareAndSet('absent', 'expected', 'x'), undefined);
      assert.equal(await clients[0].get('absent'), undefined);
    });

    it('opens a barrier when the last one arrives, and again under the same name', async () => {
      const clients = await Promise.all(Array.from({ length: 3 }, client));
      for (let round = 0; round < 3; round++) {
        let passed = 0;
        const early = clients
          .slice(0, 2)
          .map((store) => store.barrier('door', { count: 3, timeoutMs: 20_000 }).then(() => passed++));
        await clients[0].get('text');
        assert.equal(passed, 0);
        await clients[2].barrier('door', { count: 3 });
        await Promise.all(early);
      }
    });

    it('says how many are missing at a barrier that stays shut', async () => {
      await assert.rejects(
        (await client()).barrier('shut', { count: 2, timeoutMs: 30 }),
        fails('LAUNCH_TIMEOUT', /'shut'.*1 of 2/),
      );
    });

    it('refuses keys and counts that make no sense', async () => {
      const store = await client();
      await assert.rejects(store.set('', 'x'), fails('LAUNCH_INVALID'));
      await assert.rejects(store.set('k'.repeat(1025), 'x'), fails('LAUNCH_INVALID'));
      await assert.rejects(store.barrier('b', { count: 0 }), fails('LAUNCH_INVALID'));
    });

    it('fails waiting calls when it is closed', async () => {
      const store = await client();
      const waiting = store.wait('for ever');
      store.close();
      await assert.rejects(waiting, fails('LAUNCH_CLOSED'));
      await assert.rejects(store.get('x'), fails('LAUNCH_CLOSED'));
    });
  });
}

const secret = makeSecret();
const coordinator = await Coordinator.listen({ size: 4, secret, version: '1', log: () => {}, maxBytes: 1 << 20 });
const directory = mkdtempSync(join(tmpdir(), 'verbena-store-'));
suite('a store over TCP', () => TcpStore.connect({ host: '127.0.0.1', port: coordinator.port, secret, version: '1' }));
suite('a store in files', async () => new FileStore({ directory }));

describe('the bounds of a store over TCP', () => {
  it('refuses a value when its memory is used up, and takes it when keys were deleted', async () => {
    const store = await TcpStore.connect({ host: '127.0.0.1', port: coordinator.port, secret, version: '1' });
    const big = new Uint8Array(600_000);
    await store.set('a', big);
    await assert.rejects(store.set('b', big), fails('LAUNCH_FULL', /delete keys/i));
    await store.delete('a');
    await store.set('b', big);
    assert.equal((await store.get('b'))?.length, big.length);
    store.close();
  });
});

describe('a store in files', () => {
  it('leaves only values in its directory', () => {
    assert.deepEqual(
      readdirSync(directory).filter((name) => !/^[0-9a-f]+$/.test(name)),
      [],
    );
  });
});

after(() => {
  coordinator.close();
  rmSync(directory, { recursive: true });
});
