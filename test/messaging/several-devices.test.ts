/** Contexts of several devices: which one carries a pair, and large messages over two networks at once. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertBytes, connectPair, partsOf, pattern, ringsOf, until } from '../../conformance/messaging/stage.js';
import { type Context, openContext, type Worker, type WorkerOptions } from '../../src/messaging/index.js';

const LIMIT = { timeout: 60_000 };

/** Two workers that are closed when the body is over. */
async function withPair(
  devices: readonly [near: readonly string[], far: readonly string[]],
  hosts: readonly [near: string, far: string],
  options: WorkerOptions,
  body: (near: Worker, far: Worker) => Promise<void>,
): Promise<void> {
  const contexts: Context[] = [];
  try {
    for (const [i, device] of devices.entries()) contexts.push(await openContext({ device, host: hosts[i], name: `side ${i}` }));
    const [near, far] = await Promise.all(contexts.map((context) => context.createWorker({ timeoutMs: 20_000, ...options })));
    await body(near, far);
  } finally {
    for (const context of contexts) await context.close();
  }
}

/** Tags, remote memory and atomics between two workers, over whatever joins them. */
async function exercise(near: Worker, far: Worker, provider: string): Promise<void> {
  const { out, back } = await connectPair(near, far);
  assert.deepEqual(
    [out, back].map((endpoint) => endpoint.provider),
    [provider, provider],
  );
  for (const size of [8, 5000, 300_000]) {
    for (const memory of [new Uint8Array(size), near.context.alloc(size)]) {
      memory.set(pattern(size));
      const into = new Uint8Array(size);
      await Promise.all([far.recv(1, into), out.send(1, memory)]);
      assertBytes(into, memory, `${size} bytes`);
    }
  }
  const exposed = far.expose(far.context.alloc(4096));
  const remote = out.unpack(exposed.pack());
  await remote.put(8, pattern(1000));
  await remote.put(2048, pattern(8));
  await out.flush();
  assertBytes(exposed.bytes.subarray(8, 1008), pattern(1000));
  assertBytes(exposed.bytes.subarray(2048, 2056), pattern(8));
  // Memory of shared memory is nothing that a network's atomics work on: then the owner runs them, who is awake while it receives.
  const awake = far.recv(99, new Uint8Array(1));
  assert.equal(await remote.fetchAdd(0, 5n), 0n);
  assert.equal(await remote.compareSwap(0, 5n, 7n), 5n);
  assert.equal(await remote.fetchXor(0, 1n), 7n);
  await out.send(99, new Uint8Array(1));
  await awake;
  const got = new Uint8Array(1000);
  await remote.get(8, got);
  assertBytes(got, pattern(1000));
}

describe('a context of shared memory and a network', () => {
  const both = ['shm', 'roce'];

  test('reaches a peer on the same machine by shared memory', LIMIT, () =>
    withPair([both, both], ['here', 'here'], {}, (near, far) => exercise(near, far, 'shm')),
  );

  test('reaches a peer elsewhere by the network', LIMIT, () =>
    withPair([both, both], ['here', 'there'], {}, (near, far) => exercise(near, far, 'roce')),
  );

  test('reaches a peer that has only one of them, in any order', LIMIT, async () => {
    await withPair([both, ['roce']], ['here', 'here'], {}, (near, far) => exercise(near, far, 'roce'));
    await withPair([['shm'], ['roce', 'shm']], ['here', 'here'], {}, (near, far) => exercise(near, far, 'shm'));
  });

  test('says so when there is none in common', LIMIT, () =>
    withPair([['shm'], ['roce']], ['here', 'here'], {}, async (near, far) => {
      assert.throws(() => near.connect(far.address), /on 'roce', this one is on 'shm'/);
    }),
  );

  test('takes connections by name on both, and looks at a device only when it has endpoints', LIMIT, () =>
    withPair([both, both], ['here', 'here'], {}, async (near, far) => {
      const listener = await far.listen(`several-devices/${process.pid}`);
      const out = near.connect(`several-devices/${process.pid}`);
      const into = new Uint8Array(3);
      await Promise.all([out.send(1, pattern(3)), listener.accept(), far.recv(1, into)]);
      assertBytes(into, pattern(3));
      // On a network a name comes with address and port, and then the network is taken.
      const [, remoteTarget] = listener.targets;
      assert.match(remoteTarget, /:\d+\/several-devices/);
      assert.deepEqual(
        [near, far].map((worker) => partsOf(worker).ports.map(({ endpoints }) => endpoints > 0)),
        [
          [true, false],
          [true, false],
        ],
      );
      const byAddress = near.connect(remoteTarget);
      await Promise.all([byAddress.send(2, pattern(3)), far.recv(2, into)]);
      assert.equal(byAddress.provider, 'roce');
    }),
  );
});

describe('two networks on both sides', () => {
  const two = ['roce', 'roce'];
  const options: WorkerOptions = { protocol: 'rndv-pipeline', fragmentBytes: 65_536, lanes: 2 };

  test('carry one large message together, and one goes on alone when the other breaks', LIMIT, () =>
    withPair([two, two], ['here', 'there'], options, async (near, far) => {
      const { out, back: accepted } = await connectPair(near, far);
      const back = ringsOf(accepted);
      await until(() => back.lanes.length === 4, 'the lanes', near, far);
      assert.deepEqual(
        back.lanes.map(({ path }) => path),
        [0, 0, 1, 1],
      );
      const data = pattern(4 << 20);
      const into = new Uint8Array(data.length);
      await Promise.all([out.send(1, data), far.recv(1, into)]);
      assertBytes(into, data);
      assert.ok(
        back.lanes.every(({ counted }) => counted > 0),
        'every lane took part',
      );
      into.fill(0);
      const both = Promise.all([out.send(1, data), far.recv(1, into)]);
      for (const lane of back.lanes.slice(2)) lane.qp.modify('ERR');
      await both;
      assertBytes(into, data, 'with one network');
      assert.equal(back.state, 'ready');
    }),
  );

  test('carry the payload of an active message together', LIMIT, () =>
    withPair([two, two], ['here', 'there'], options, async (near, far) => {
      const { out, back: accepted } = await connectPair(near, far);
      const back = ringsOf(accepted);
      await until(() => back.lanes.length === 4, 'the lanes', near, far);
      const data = pattern(2 << 20);
      const into = new Uint8Array(data.length);
      const header = pattern(20, 3);
      const arrived = new Promise<void>((resolve, reject) => {
        far.handle(3, async (message) => {
          assertBytes(Uint8Array.from(message.header), header, 'the header');
          message.receive(into).then(resolve, reject);
        });
      });
      await Promise.all([out.am(3, header, data), arrived]);
      assertBytes(into, data);
      assert.ok(back.lanes.filter(({ path }) => path === 1).every(({ counted }) => counted > 0));
    }),
  );
});
