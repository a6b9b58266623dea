/** Devices by name. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { getProvider, openDevice, providerNames } from './open-device.js';

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

  it('auto opens the first provider that works', async () => {
    let first: string | undefined;
    for (const name of providerNames()) {
      const reason = await (await getProvider(name)).unavailable();
      if (reason === undefined) first ??= name;
    }
    const device = await openDevice();
    assert.equal(device.provider, first);
    device.close();
  });
});
