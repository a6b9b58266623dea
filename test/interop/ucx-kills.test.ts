/** A peer that disappears in the middle of every kind of call leaves PeerLost behind and no crash: UCX ends processes for less. */

import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { openContext, PeerLost } from '../../src/messaging/index.js';

const VICTIM = fileURLToPath(new URL('./ucx/victim.js', import.meta.url));
const ROUNDS = 4;
const skip = !existsSync('/usr/include/ucp/api/ucp.h') && 'needs apt-get install libucx-dev';

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

for (const device of ['ucx:TLS=sm,self', 'ucx:TLS=tcp;NET_DEVICES=lo']) {
  test(`on ${device} a killed peer is PeerLost to all that is under way`, { skip, timeout: 180_000 }, async (context) => {
    const seed = Number(process.env['VERBENA_SEED'] ?? Date.now() % 1e6);
    context.diagnostic(`VERBENA_SEED=${seed}`);
    const here = await openContext({ device });
    const worker = await here.createWorker({ timeoutMs: 60_000 });
    const shared = here.alloc(1 << 20);
    for (let round = 0; round < ROUNDS; round++) {
      const victim = fork(VICTIM, [device]);
      try {
        const [{ address, key }] = (await once(victim, 'message')) as [{ address: number[]; key: number[] }];
        const endpoint = worker.connect(Uint8Array.from(address));
        await endpoint.ready();
        const remote = endpoint.unpack(Uint8Array.from(key));
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
