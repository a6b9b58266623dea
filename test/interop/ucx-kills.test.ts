/** A peer that disappears in the middle of every kind of call leaves PeerLost behind and no crash: UCX ends processes for less. */

import assert from 'node:assert/strict';
import { type ChildProcess, fork, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Endpoint, openContext, PeerLost, type RemoteMemory, type Worker } from '../../src/messaging/index.js';
import { loadUcx } from '../../src/messaging/ucx/addon.js';
import { until } from '../launch/job.js';

const VICTIM = fileURLToPath(new URL('./ucx/victim.js', import.meta.url));
const PASSER_BY = fileURLToPath(new URL('./ucx/passer-by.js', import.meta.url));
const HALF_A_MESSAGE = fileURLToPath(new URL('./ucx/half-a-message.js', import.meta.url));
const DEVICES = ['ucx:TLS=sm,self', 'ucx:TLS=tcp;NET_DEVICES=lo'];
const ROUNDS = 4;
const skip = !existsSync('/usr/include/ucp/api/ucp.h') && 'needs apt-get install libucx-dev';
const isOld = !skip && /^1\.\d\.|^1\.1[0-3]\./.test(loadUcx().version());

/** Connects to a victim that just started, and to its memory. */
async function meet(worker: Worker, victim: ChildProcess): Promise<{ endpoint: Endpoint; remote: RemoteMemory }> {
  const [{ address, key }] = (await once(victim, 'message')) as [{ address: number[]; key: number[] }];
  const endpoint = worker.connect(Uint8Array.from(address));
  await endpoint.ready();
  return { endpoint, remote: endpoint.unpack(Uint8Array.from(key)) };
}

/** Calls again and again; resolves with what ended it. */
async function untilItFails(call: () => Promise<unknown>): Promise<unknown> {
  try {
    for (;;) {
      await call();
      await new Promise((resolve) => setImmediate(resolve));
    }
  } catch (error) {
    return error;
  }
}

for (const device of DEVICES) {
  test(`on ${device} a killed peer is PeerLost to all that is under way`, { skip, timeout: 180_000 }, async (context) => {
    const seed = Number(process.env['VERBENA_SEED'] ?? Date.now() % 1e6);
    context.diagnostic(`VERBENA_SEED=${seed}`);
    const here = await openContext({ device });
    const shared = here.alloc(1 << 20);
    for (let round = 0; round < ROUNDS; round++) {
      const worker = await here.createWorker({ timeoutMs: 60_000 }); // the last one may be deaf
      const victim = fork(VICTIM, [device]);
      try {
        const { endpoint, remote } = await meet(worker, victim);
        const [large, into, small] = [new Uint8Array(1 << 20), new Uint8Array(1 << 20), new Uint8Array(100)];
        const ends = [
          () => endpoint.send(1, large),
          () => endpoint.send(1, shared),
          () => endpoint.send(1, small),
          () => endpoint.am(1, small.subarray(0, 8), small),
          () => endpoint.am(1, small.subarray(0, 8), large),
          () => endpoint.stream.write(large),
          () => remote.put(0, large),
          () => remote.put(0, small),
          () => remote.get(0, into),
          () => remote.fetchAdd(0, 1n),
          () => worker.recv(9, small, { from: endpoint }),
        ].map(untilItFails);
        await new Promise((resolve) => setTimeout(resolve, (seed * (round + 1) * 7919) % 200));
        victim.kill('SIGKILL');
        for (const error of await Promise.all(ends)) assert.ok(error instanceof PeerLost, String(error));
        assert.equal(endpoint.state, 'failed');
      } finally {
        victim.kill('SIGKILL');
      }
    }
    await here.close();
  });
}

for (const device of DEVICES) {
  test(`on ${device} atomics that wait for a peer end when it is killed`, { skip, timeout: 60_000 }, async () => {
    const here = await openContext({ device });
    const worker = await here.createWorker({ timeoutMs: 30_000 });
    const victim = fork(VICTIM, [device]);
    try {
      const { endpoint, remote } = await meet(worker, victim);
      // Requests of other kinds leave their traces in the memory that UCX then gives the atomics.
      const large = new Uint8Array(1 << 20);
      const mixed = () => [endpoint.send(1, large), remote.put(0, large), remote.get(0, large), endpoint.flush()];
      await Promise.all(Array.from({ length: 20 }, mixed).flat());
      victim.kill('SIGSTOP');
      const ends = Promise.allSettled(
        Array.from({ length: 200 }, (_, i) => (i % 2 === 0 ? remote.fetchAdd(0, 1n) : remote.compareSwap(8, 0n, 1n))),
      );
      await new Promise((resolve) => setTimeout(resolve, 50));
      victim.kill('SIGKILL');
      // Where memory is shared, the atomics need nobody.
      for (const end of await ends) {
        if (end.status === 'rejected') assert.ok(end.reason instanceof PeerLost, String(end.reason));
        else assert.ok(device.includes('sm'), 'who stands still answers nothing');
      }
    } finally {
      victim.kill('SIGKILL');
    }
    await here.close();
  });
}

for (const device of DEVICES) {
  test(`on ${device} a peer that dies while it is connected to or closed ends the call by name`, {
    skip,
    timeout: 180_000,
  }, async (context) => {
    const seed = Number(process.env['VERBENA_SEED'] ?? Date.now() % 1e6);
    context.diagnostic(`VERBENA_SEED=${seed}`);
    const here = await openContext({ device });
    for (let round = 0; round < ROUNDS; round++) {
      const worker = await here.createWorker({ timeoutMs: 20_000 }); // the last one may be deaf
      const victim = fork(VICTIM, [device]);
      try {
        const [{ address }] = (await once(victim, 'message')) as [{ address: number[] }];
        const endpoint = worker.connect(Uint8Array.from(address));
        const isClosing = round % 2 === 1;
        if (isClosing) await endpoint.ready();
        const waited = [
          isClosing ? endpoint.close() : endpoint.ready(),
          endpoint.send(1, new Uint8Array(1 << 20)),
          endpoint.flush(),
        ];
        const ends = Promise.allSettled(waited);
        await new Promise((resolve) => setTimeout(resolve, (seed * (round + 1) * 7919) % 20));
        victim.kill('SIGKILL');
        for (const end of await ends) {
          if (end.status === 'rejected') assert.match(String(end.reason.code), /^MSG_(PEER_LOST|CLOSED)$/, String(end.reason));
        }
        if (victim.signalCode === null) await once(victim, 'exit');
        // Nobody is there any more.
        const again = worker.connect(Uint8Array.from(address));
        const error = await untilItFails(() => again.send(1, new Uint8Array(1)));
        assert.ok(error instanceof PeerLost, String(error));
        await again.close();
      } finally {
        victim.kill('SIGKILL');
      }
    }
    await here.close();
  });
}

for (const device of DEVICES) {
  test(`on ${device} who connects and dies in the middle disturbs nobody`, {
    skip: skip || (isOld && device.includes('tcp') && 'UCX before 1.14 ends the process by an assertion (openucx/ucx #8175)'),
    timeout: 120_000,
  }, async (context) => {
    const seed = Number(process.env['VERBENA_SEED'] ?? Date.now() % 1e6);
    context.diagnostic(`VERBENA_SEED=${seed}`);
    const here = await openContext({ device });
    const worker = await here.createWorker();
    const heard: unknown[] = [];
    worker.onError = (error) => heard.push(error);
    const address = Buffer.from(worker.address).toString('base64');
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    for (let round = 0; round < 3 * ROUNDS; round++) {
      const words = [PASSER_BY, device, address, String((seed * (round + 1) * 7919) % 30)];
      const passerBy = spawn(process.execPath, words, { env, stdio: 'ignore' });
      const left = once(passerBy, 'exit');
      // In every other round this process stands still until the other is dead.
      if (round % 2 === 0)
        spawnSync('sh', ['-c', `while [ -e /proc/${passerBy.pid}/exe ]; do sleep 0.01; done`], { timeout: 30_000 });
      assert.deepEqual(await left, [null, 'SIGKILL']);
    }
    assert.deepEqual(heard, []);
    await until('all are gone', () => worker.endpoints.every(({ state }) => state !== 'ready'));
    const other = await here.createWorker();
    const into = new Uint8Array(1);
    await Promise.all([other.connect(worker.address).send(2, Uint8Array.of(7)), worker.recv(2, into)]);
    assert.equal(into[0], 7);
    await here.close();
  });
}

test('a worker that a peer left deaf says so, to its peers as well, and another one hears', {
  skip,
  timeout: 60_000,
}, async () => {
  const here = await openContext({ device: 'ucx:TLS=sm,self' });
  const [worker, other, hearing] = await Promise.all([1, 2, 3].map(() => here.createWorker({ keepaliveMs: 1500 })));
  const endpoint = worker.connect(other.address);
  await Promise.all([endpoint.send(2, Uint8Array.of(7)), other.recv(2, new Uint8Array(1))]);
  const waiting = [
    worker.recv(2, new Uint8Array(1), { from: endpoint, timeoutMs: 30_000 }),
    other.recv(2, new Uint8Array(1), { from: other.endpoints[0], timeoutMs: 30_000 }),
  ];
  const ends = Promise.allSettled(waiting);
  // SIGBUS comes in the middle of a message, and is left alone where sanitizers are at work.
  const env = { ...process.env, ASAN_OPTIONS: `${process.env['ASAN_OPTIONS'] ?? ''}:handle_sigbus=0` };
  const words = ['--core=0', process.execPath, HALF_A_MESSAGE, Buffer.from(worker.address).toString('base64')];
  const killed = (await once(spawn('prlimit', words, { env, stdio: 'ignore' }), 'exit')) as [null, string];
  assert.deepEqual(killed, [null, 'SIGBUS']);
  const [own, peers] = (await ends) as PromiseRejectedResult[];
  assert.ok(own.reason instanceof PeerLost && /killed while it wrote.*open another worker/.test(own.reason.message), own.reason);
  assert.ok(peers.reason instanceof PeerLost, peers.reason);
  await assert.rejects(worker.connect(hearing.address).ready(), /open another worker/);
  await Promise.all([other.connect(hearing.address).send(2, Uint8Array.of(7)), hearing.recv(2, new Uint8Array(1))]);
  await here.close();
});

test('a worker whose peers die between messages hears on', { skip, timeout: 60_000 }, async () => {
  const here = await openContext({ device: 'ucx:TLS=sm,self' });
  const worker = await here.createWorker({ keepaliveMs: 500 });
  for (let round = 0; round < 2; round++) {
    const victim = fork(VICTIM, ['ucx:TLS=sm,self']);
    try {
      const { endpoint } = await meet(worker, victim);
      await endpoint.send(1, new Uint8Array(1));
      await new Promise((resolve) => setTimeout(resolve, 100)); // it answers nothing: it is idle by now
      victim.kill('SIGKILL');
      await until('its death was noticed', () => endpoint.state === 'failed');
      await new Promise((resolve) => setTimeout(resolve, 1000)); // longer than deafness takes to show
    } finally {
      victim.kill('SIGKILL');
    }
  }
  await here.close();
});
