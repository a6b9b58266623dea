import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { openDevice } from '../../verbs/index.js';
import { RegistrationCache } from './registration-cache.js';

describe('the registration cache', () => {
  it('registers a buffer once and finds it again through any view', async () => {
    using device = await openDevice('shm');
    const cache = new RegistrationCache(device.allocPd());
    const buffer = new ArrayBuffer(4096);
    const first = cache.acquire(new Uint8Array(buffer, 8, 16));
    const second = cache.acquire(new Uint8Array(buffer, 1024));
    assert.equal(first, second);
    assert.deepEqual([cache.hits, cache.misses, cache.bytes], [1, 1, 4096]);
    cache.close();
  });

  it('drops the least recently used beyond its bounds, never one in use', async () => {
    using device = await openDevice('shm');
    const cache = new RegistrationCache(device.allocPd(), { maxEntries: 2 });
    const [a, b, c, d] = Array.from({ length: 4 }, () => new Uint8Array(64));
    const held = cache.acquire(a);
    cache.release(cache.acquire(b));
    cache.release(cache.acquire(c));
    assert.equal(cache.size, 2);
    cache.release(cache.acquire(a));
    assert.equal(cache.hits, 1);
    cache.release(cache.acquire(b));
    assert.equal(cache.misses, 4, 'b was the least recently used');
    cache.release(held);
    cache.release(cache.acquire(d));
    assert.ok(cache.size <= 2);
    cache.close();
  });

  it('lets a buffer that nobody used between two looks go', async () => {
    using device = await openDevice('shm');
    const cache = new RegistrationCache(device.allocPd());
    const told: unknown[] = [];
    cache.dropped.add((registration) => told.push(registration));
    const entry = cache.acquire(new Uint8Array(64));
    cache.sweep();
    cache.sweep();
    assert.equal(cache.size, 1, 'it is in use');
    cache.release(entry);
    cache.sweep();
    assert.equal(cache.size, 1, 'it was used since the last look');
    cache.sweep();
    assert.equal(cache.size, 0);
    assert.equal(entry.live, false);
    assert.deepEqual(told, [entry]);
    cache.close();
  });

  it('does not keep a buffer from being collected', { timeout: 20_000 }, async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    using device = await openDevice('shm');
    const cache = new RegistrationCache(device.allocPd(), { idleMs: 20 });
    let buffer: ArrayBuffer | undefined = new ArrayBuffer(1 << 20);
    const watched = new WeakRef(buffer);
    cache.release(cache.acquire(new Uint8Array(buffer)));
    buffer = undefined;
    while (watched.deref() !== undefined) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      collect();
    }
    assert.equal(cache.size, 0);
    assert.equal(cache.bytes, 0);
    cache.close();
  });
});
