/** The messaging suite on UCX: its shared memory transports, and its TCP on the loopback. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe, it, test } from 'node:test';
import { messagingConformance } from '../../conformance/messaging.js';
import { openContext } from '../../src/messaging/index.js';
import { UCX_SKIPS as skip } from './ucx/skips.js';

if (existsSync('/usr/include/ucp/api/ucp.h')) {
  messagingConformance({ name: 'ucx, shared memory', skip, open: () => openContext({ device: 'ucx:TLS=sm,self' }) });
  messagingConformance({ name: 'ucx, TCP', skip, open: () => openContext({ device: 'ucx:TLS=tcp;NET_DEVICES=lo' }) });

  describe('memory that UCX shares', () => {
    it('is fetched by the receiver before and after its receive, in part, and again after other memory took its place', async () => {
      const contexts = await Promise.all([1, 2].map(() => openContext({ device: 'ucx:TLS=sm,self' })));
      const [near, far] = await Promise.all(contexts.map((context) => context.createWorker({ mode: 'event' })));
      const endpoint = near.connect(far.address);
      await endpoint.ready();
      assert.match(endpoint.explain('tag', 1 << 20).engine ?? '', /out of shared memory/);
      for (let round = 0; round < 3; round++) {
        const memory = contexts[0].alloc(3 << 20);
        memory.set(memory.map((_, i) => i * 7 + round));
        for (const isEarly of [true, false]) {
          for (const [from, to] of [
            [0, 1 << 20],
            [4099, 70_000],
            [1 << 20, 3 << 20],
          ]) {
            const into = isEarly ? contexts[1].alloc(to - from) : new Uint8Array(to - from);
            const begun = isEarly ? far.recv(5, into) : undefined;
            const sent = endpoint.send(5, memory.subarray(from, to));
            if (!isEarly) while (far.probe(5) === undefined) await new Promise(setImmediate);
            await Promise.all([begun ?? far.recv(5, into), sent]);
            assert.equal(Buffer.compare(into, memory.subarray(from, to)), 0, `round ${round}, bytes ${from} to ${to}`);
          }
        }
        const short = assert.rejects(far.recv(6, new Uint8Array(100)), { code: 'MSG_TRUNCATED' });
        await endpoint.send(6, memory); // it ends though nobody can take it
        await short;
        contexts[0].free(memory);
      }
      await Promise.all(contexts.map((context) => context.close()));
    });
  });
} else {
  test('the messaging suite on UCX', { skip: 'needs apt-get install libucx-dev' });
}
