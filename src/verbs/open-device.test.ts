/** Devices by name. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { firstThatWorks, getProvider, openDevice, providerNames } from './open-device.js';

describe('openDevice', () => {
  it('refuses a provider that nobody knows, with the list of those there are', async () => {
    for (const name of ['nonsense', 'nonsense:device']) {
      await assert.rejects(openDevice(name), (error: Error & { code?: string }) => {
        assert.equal(error.code, 'VERBS_NO_DEVICE');
        for (const known of providerNames()) assert.ok(error.message.includes(known), error.message);
        return true;
      });
    }
  });

  it('every provider in the table has its name, a summary and says whether it works here', async () => {
    assert.ok(providerNames().includes('shm'));
    for (const name of providerNames()) {
      const provider = await getProvider(name);
      assert.equal(provider.name, name);
      assert.ok(provider.summary.length > 10);
      const reason = await provider.unavailable();
      assert.ok(reason === undefined || reason.length > 10);
    }
  });

  it('auto opens shared memory, without a word', async (context) => {
    const warn = context.mock.method(process, 'emitWarning');
    const device = await openDevice();
    assert.equal(device.provider, 'shm');
    assert.equal(warn.mock.callCount(), 0);
    device.close();
  });

  it('auto warns once of a fallback: what does not work and what to do; and says all when nothing works', async () => {
    const broken = { unavailable: async () => 'no memory file system: mount /dev/shm.' };
    const working = { unavailable: async () => undefined };
    const warned = once(process, 'warning') as Promise<[Error & { code?: string }]>;
    for (let again = 0; again < 2; again++) {
      assert.equal(await firstThatWorks(['a', 'b', 'c'], async (name) => (name === 'a' ? broken : working)), 'b');
    }
    const [{ code, name, message }] = await warned;
    assert.deepEqual([code, name], ['VERBENA_FALLBACK', 'VerbenaWarning']);
    assert.match(message, /'auto' opened b .*a: no memory file system: mount/);
    await new Promise(setImmediate);
    process.once('warning', ({ message }) => assert.fail(message));
    assert.equal(await firstThatWorks(['a', 'b'], async (name) => (name === 'a' ? broken : working)), 'b');
    await new Promise(setImmediate);
    await assert.rejects(
      firstThatWorks(['a', 'b'], async () => broken),
      /no provider works here\. a: no memory .* b: no memory/,
    );
  });
});
