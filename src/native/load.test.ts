import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { Worker } from 'node:worker_threads';
import { loadAddon } from './load.js';

const LOAD = JSON.stringify(new URL('./load.js', import.meta.url).href);

describe('loading the addon', () => {
  it('gives the same exports at every call in a thread', () => {
    const addon = loadAddon();
    assert.ok(Object.keys(addon).length > 0);
    assert.equal(loadAddon(), addon);
  });

  it('works in worker threads, several at a time, after the main thread has loaded it', async () => {
    const names = Object.keys(loadAddon()).sort();
    const program = `import(${LOAD}).then(({ loadAddon }) =>
      require('node:worker_threads').parentPort.postMessage(Object.keys(loadAddon()).sort()))`;
    const workers = Array.from({ length: 3 }, () => new Worker(program, { eval: true }));
    const seen = await Promise.all(workers.map(async (worker) => (await once(worker, 'message'))[0]));
    assert.deepEqual(seen, [names, names, names]);
    await Promise.all(workers.map((worker) => worker.terminate()));
  });

  it('brings no holes back into C from a thread that is terminated between two calls', async () => {
    const program = `import(${LOAD}).then(({ loadAddon }) => {
      const addon = loadAddon();
      const fd = addon.create('terminated', 0);
      addon.reserve(fd, 0, 4096, -1);
      require('node:worker_threads').parentPort.postMessage('calls');
      for (;;) {
        const [mapping] = addon.map(fd, 0, 4096, 1, 0);
        addon.view(mapping, 0, 4096);
        addon.stop(mapping);
      }
    })`;
    for (let i = 0; i < 10; i++) {
      const worker = new Worker(program, { eval: true });
      await once(worker, 'message');
      await worker.terminate(); // a null pointer in C would end this process
    }
  });

  it('takes the addon that VERBENA_ADDON names, and does nothing before the first call', () => {
    const program = `
      const { loadAddon } = await import(${LOAD});
      console.log('imported');
      loadAddon();`;
    const env = { ...process.env, VERBENA_ADDON: '/nowhere/verbena.node' };
    const { stdout, stderr, status } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      env,
      encoding: 'utf8',
    });
    assert.equal(stdout, 'imported\n');
    assert.match(stderr, /\/nowhere\/verbena\.node/);
    assert.equal(status, 1);
  });
});
