/** Messaging between processes: what one process cannot show. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { assertBytes, pattern } from '../../conformance/messaging/stage.js';
import {
  type Context,
  type Endpoint,
  openContext,
  PeerLost,
  type Worker,
  type WorkerOptions,
} from '../../src/messaging/index.js';
import { noticeLimitMs } from '../load.js';
import { type Companion, startCompanion } from './companion.js';

interface Scene {
  readonly context: Context;
  readonly worker: Worker;
  readonly endpoint: Endpoint;
  readonly companion: Companion;
}

let scenes = 0;

/** A test with a companion that is gone at the end. */
function sceneTest(
  sentence: string,
  part: Parameters<typeof startCompanion>[0],
  body: (scene: Scene) => Promise<void>,
  options: WorkerOptions = {},
): void {
  test(sentence, { timeout: 90_000 }, async () => {
    const context = await openContext({ device: 'shm', name: 'messaging test' });
    const worker = await context.createWorker(options);
    const name = `messaging-test/${process.pid}/${++scenes}`;
    const listener = await worker.listen(name);
    const companion = startCompanion(part, name);
    try {
      const endpoint = await listener.accept();
      await body({ context, worker, endpoint, companion });
    } finally {
      companion.process.kill('SIGKILL');
      await companion.ended;
      await context.close();
    }
  });
}

sceneTest(
  'messages of every size go to another process and come back unchanged',
  'echo',
  async ({ context, worker, endpoint, companion }) => {
    for (const size of [1, 8, 40, 41, 1000, 8192, 65_536, 1 << 20, 4 << 20]) {
      for (const memory of [new Uint8Array(size), context.alloc(size)]) {
        memory.set(pattern(size, size));
        const into = new Uint8Array(size);
        const back = worker.recv(size, into);
        await endpoint.send(size, memory);
        assert.equal((await back).length, size);
        assertBytes(into, memory, `${size} bytes`);
      }
    }
    await endpoint.send(0, new Uint8Array(0));
    assert.equal(await companion.ended, 0);
  },
);

/** Sends what is complete at once, closes, and returns the sum of the bytes. */
async function sendAndClose(endpoint: Endpoint): Promise<number> {
  let sum = 0;
  for (let i = 1; i <= 200; i++) {
    const data = pattern(i * 5, i);
    await endpoint.send(i, data);
    for (const byte of data) sum += byte;
  }
  await endpoint.send(0, new Uint8Array(0));
  await endpoint.close();
  return sum;
}

sceneTest(
  'a close does not wait for a peer process that looks at nothing, and nothing is lost',
  'late',
  async ({ endpoint, companion }) => {
    await once(companion.process, 'message');
    const sum = await sendAndClose(endpoint); // the companion is told only then
    companion.process.send('receive');
    assert.deepEqual(await once(companion.process, 'message'), [sum, undefined]);
    assert.equal(await companion.ended, 0);
  },
);

sceneTest('nor for one whose thread is blocked', 'lateBlocked', async ({ endpoint, companion }) => {
  await once(companion.process, 'message');
  const awake = once(companion.process, 'message').then(() => 'awake');
  const closed = sendAndClose(endpoint);
  assert.notEqual(await Promise.race([closed, awake]), 'awake');
  await awake;
  assert.deepEqual(await once(companion.process, 'message'), [await closed, undefined]);
  assert.equal(await companion.ended, 0);
});

sceneTest(
  'a killed peer fails every outstanding request within a second, by name',
  'idle',
  async ({ worker, endpoint, companion }) => {
    await once(companion.process, 'message');
    const outstanding = [
      endpoint.send(1, pattern(1 << 20)),
      worker.recv(2, new Uint8Array(8), { from: endpoint }),
      endpoint.stream.read(new Uint8Array(8)),
    ];
    const { pid } = companion.process;
    const killed = performance.now();
    companion.process.kill('SIGKILL');
    for (const promise of outstanding) {
      await assert.rejects(promise, (error: unknown) => {
        assert.ok(error instanceof PeerLost, String(error));
        assert.match(error.peer, new RegExp(`process ${pid}`));
        assert.notEqual(error.operation, '');
        return true;
      });
    }
    const took = performance.now() - killed;
    assert.ok(took < noticeLimitMs(), `it took ${took.toFixed(0)} ms`);
  },
);

sceneTest(
  'a sender whose receiver never receives is held back, and nobody grows',
  'idle',
  async ({ worker, endpoint, companion }) => {
    await once(companion.process, 'message');
    const message = pattern(1024);
    let held = 0;
    for (let i = 0; i < 20_000; i++) if (endpoint.sendBegin(1, message) !== undefined) held++;
    // The receiver does not poll: its ring is all that can have been used.
    assert.ok(held >= 20_000 - 256, `${held} sends wait`);
    assert.equal(worker.requests.live, held);
  },
);

sceneTest(
  'remote memory of a process whose thread is blocked is read and written',
  'blocked',
  async ({ worker, endpoint, companion }) => {
    const packed = new Uint8Array(32);
    await worker.recv(1, packed);
    const remote = endpoint.unpack(packed);
    const blocked = once(companion.process, 'message');
    await endpoint.send(2, new Uint8Array(1));
    await blocked;
    await remote.put(0, pattern(4096));
    assert.equal(await remote.fetchAdd(0, 1n), new BigUint64Array(pattern(8).buffer)[0]);
    const into = new Uint8Array(4096);
    await remote.get(0, into);
    await remote.put(4096, Uint8Array.of(1)); // only this releases the thread
    assertBytes(into.subarray(8), pattern(4096).subarray(8));
    const told = new Uint8Array(4096);
    await worker.recv(3, told);
    assertBytes(told, into);
    await endpoint.send(4, new Uint8Array(1));
  },
);

sceneTest(
  'a process that waits in event mode uses next to no CPU, and wakes up',
  'sleeper',
  async ({ worker, endpoint }) => {
    const into = new Uint8Array(8);
    await worker.recv(1, into);
    const waitMs = 2000;
    await new Promise((resolve) => setTimeout(resolve, waitMs));
    await endpoint.send(2, new Uint8Array(1));
    await worker.recv(3, into);
    const usedUs = new Float64Array(into.buffer)[0];
    assert.ok(usedUs / 1000 < waitMs * 0.05, `${usedUs} us of CPU in ${waitMs} ms`);
    await endpoint.send(4, new Uint8Array(1));
  },
  { mode: 'event' },
);
