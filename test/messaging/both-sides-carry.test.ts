/** Large messages over shared memory: both sides copy when both are awake, and one copies everything when the other does something else. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertBytes, connectPair, pattern, ringsOf } from '../../conformance/messaging/stage.js';
import { openContext } from '../../src/messaging/index.js';

const BYTES = 8 << 20;

for (const kind of ['arena', 'private'] as const) {
  test(`${kind} memory: the sender writes fragments from the back while the receiver reads from the front`, {
    timeout: 60_000,
  }, async () => {
    const contexts = await Promise.all([openContext({ device: 'shm' }), openContext({ device: 'shm' })]);
    try {
      const [near, far] = await Promise.all(contexts.map((context) => context.createWorker()));
      const { out, back } = await connectPair(near, far);
      const make = (index: number) => (kind === 'arena' ? contexts[index].alloc(BYTES) : new Uint8Array(BYTES));
      const [data, into] = [make(0), make(1)];
      data.set(pattern(BYTES));

      const receive = far.postRecv(into, 1, 0);
      const send = near.postSend(out, data, 1, 0);
      while (!far.test(receive)) {
        far.poll();
        near.poll();
      }
      while (!near.test(send)) near.poll();
      assertBytes(into, data);
      const helped = ringsOf(out).lanes[0].counted;
      assert.ok(helped > 0, 'the sender carried some');
      assert.equal(helped + ringsOf(back).lanes[0].counted, BYTES, 'every byte was carried once');

      // A sender that does not poll claims nothing; its part of the board stays open until it does.
      into.fill(0);
      const again = far.postRecv(into, 2, 0);
      const sent = near.postSend(out, data, 2, 0);
      while (!far.test(again)) far.poll();
      assertBytes(into, data);
      assert.equal(ringsOf(out).lanes[0].counted, helped, 'the sender was busy');
      while (!near.test(sent)) near.poll();
    } finally {
      for (const context of contexts) await context.close();
    }
  });
}
