import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
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

  it('lets a buffer that nobody uses go by time, so that it can be collected', async () => {
    using device = await openDevice('shm');
    let clock = 0;
    const cache = new RegistrationCache(device.allocPd(), { idleMs: 100 }, () => clock);
    cache.release(cache.acquire(new Uint8Array(64)));
    clock = 99;
    cache.sweep();
    assert.equal(cache.size, 1);
    clock = 101;
    cache.sweep();
    assert.equal(cache.size, 0);
    cache.close();
  });
});
