/** A progress worker: large messages are there when the main thread has computed, and handlers run on the main thread. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertBytes, pattern } from '../../conformance/messaging/stage.js';
import {
  openContext,
  openProgressWorker,
  PeerLost,
  type ProgressEndpoint,
  type ProgressWorker,
} from '../../src/messaging/index.js';
import { type Companion, startCompanion } from './companion.js';

let scenes = 0;

/** A test with a companion process that is gone at the end. */
function sceneTest(
  sentence: string,
  part: Parameters<typeof startCompanion>[0],
  body: (worker: ProgressWorker, endpoint: ProgressEndpoint, companion: Companion) => Promise<void>,
): void {
  test(sentence, { timeout: 90_000 }, async () => {
    const worker = await openProgressWorker({ context: { device: 'shm', name: 'progress test' } });
    const name = `progress-test/${process.pid}/${++scenes}`;
    const arrived = withResolvers<ProgressEndpoint>();
    await worker.listen(name, arrived.resolve);
    const companion = startCompanion(part, name);
    try {
      await body(worker, await arrived.promise, companion);
    } finally {
      companion.process.kill('SIGKILL');
      await companion.ended;
      await worker.close({ force: true });
    }
  });
}

function withResolvers<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

sceneTest('a large message comes and goes while the main thread computes', 'echo', async (worker, endpoint) => {
  const size = 4 << 20;
  for (const memory of [new Uint8Array(size), await worker.alloc(size)]) {
    memory.set(pattern(size));
    const into = new Uint8Array(size);
    const received = worker.recv(5, into);
    const sent = endpoint.send(5, memory);
    // No turn of the event loop from here on: whatever happens, happens in the thread.
    const deadline = performance.now() + 20_000;
    let looks = 0;
    while (into[size - 1] !== memory[size - 1] || into[0] !== memory[0]) {
      looks++;
      assert.ok(performance.now() < deadline, 'nothing came while this thread was busy');
    }
    assert.ok(looks > 0);
    const { length } = await received;
    await sent;
    assert.equal(length, size);
    assertBytes(into, memory);
  }
});

sceneTest(
  'small messages, timeouts, signals and lost peers are as with a worker',
  'echo',
  async (worker, endpoint, companion) => {
    const into = new Uint8Array(64);
    for (const size of [0, 1, 40, 64]) {
      const back = worker.recv(2n ** 40n + 7n, into, { from: endpoint });
      await endpoint.send(2n ** 40n + 7n, pattern(size));
      assert.deepEqual(await back, { length: size, tag: 2 ** 40 + 7, source: endpoint.id });
      assertBytes(into.subarray(0, size), pattern(size));
    }
    await assert.rejects(worker.recv(9, into, { timeoutMs: 20 }), { code: 'MSG_TIMEOUT' });
    const abort = new AbortController();
    const waiting = worker.recv(9, into, { signal: abort.signal });
    abort.abort(new Error('enough'));
    await assert.rejects(waiting, /enough/);
    await assert.rejects(endpoint.send(1, [new Uint8Array(1), new Uint8Array(1)]), { code: 'MSG_INVALID' });
    const lost = worker.recv(9, into, { from: endpoint });
    companion.process.kill('SIGKILL');
    await assert.rejects(lost, (error: unknown) => error instanceof PeerLost && /process \d+/.test(error.peer));
  },
);

test('handlers of active messages run on the main thread, with small and large payloads', { timeout: 60_000 }, async () => {
  const worker = await openProgressWorker({ context: { device: 'shm' } });
  const context = await openContext({ device: 'shm' });
  try {
    const near = await context.createWorker();
    const got: { header: Uint8Array; data: Uint8Array }[] = [];
    const two = withResolvers<void>();
    await worker.handle(4, ({ header, data }) => {
      got.push({ header, data });
      if (got.length === 2) two.resolve();
    });
    const endpoint = near.connect(worker.address);
    await endpoint.am(4, pattern(3), pattern(10));
    await endpoint.am(4, pattern(5), pattern(1 << 20));
    await two.promise;
    assertBytes(got[0].header, pattern(3));
    assertBytes(got[0].data, pattern(10));
    assertBytes(got[1].header, pattern(5));
    assertBytes(got[1].data, pattern(1 << 20));
  } finally {
    await worker.close({ force: true });
    await context.close();
  }
});
