/** Order and visibility: a hundred thousand messages of random sizes arrive in order, each whole at the moment of its completion. */

import assert from 'node:assert/strict';
import { chooseSeed, processTest } from './harness.js';
import { Link, type Offer } from './link.js';
import { Stream } from './stream.js';

const WINDOW = 16;

processTest('every message of a long random stream is in order and whole at its completion', async (hand) => {
  const seed = chooseSeed();
  const count = 100_000;
  hand.context.diagnostic(`VERBENA_SEED=${seed}`);
  const receiver = hand.process('receiver', { seed, count }, { watchdogMs: 40_000 });
  const link = await Link.open(Stream.SLOT * WINDOW, {}, { depth: 4096 });
  const offer = await receiver.hear<Offer>('offer');
  await link.join(offer);
  receiver.say({ type: 'offer', ...link.offer() });
  await receiver.hear('ready');
  const stream = new Stream(seed);
  const send = link.qp.prepare({ opcode: 'SEND_WITH_IMM', local: link.region });
  let posted = 0;
  let done = 0;
  let bytes = 0;
  const deadline = performance.now() + 30_000;
  while (done < count) {
    while (posted < count && posted - done < WINDOW) {
      const offset = (posted % WINDOW) * Stream.SLOT;
      const length = stream.fill(link.region.bytes, offset);
      send.imm = posted;
      send.post(offset, length, posted);
      bytes += length;
      posted++;
    }
    const n = link.cq.poll(link.wcs);
    if (n === 0) link.patience.lose();
    else link.patience.win();
    for (let i = 0; i < n; i++) {
      assert.equal(link.wcs.status[i], 0, link.cq.cause(link.wcs.causeId[i])?.words);
      assert.equal(link.wcs.id[i], done, 'completions come in order');
      done++;
    }
    if (n === 0 && performance.now() > deadline) {
      // Gives the receiver's own complaint the word, if there is one.
      await receiver.hear('received');
      assert.fail(`only ${done} messages were sent`);
    }
  }
  assert.deepEqual(await receiver.hear('received'), { type: 'received', received: count, bytes });
  receiver.say({ type: 'end' });
  await receiver.exited;
  link.close();
});
