/** The whole cycle between processes, between worker threads of one process and between both, event-driven. */

import assert from 'node:assert/strict';
import { processTest, type Scenario } from './harness.js';
import { Link, type Offer } from './link.js';
import { Random } from './random.js';

const SLOT = 4096;

async function exchange(partner: Scenario, count: number): Promise<void> {
  const link = await Link.open(2 * SLOT, {}, { mode: 'event' });
  const offer = await partner.hear<Offer>('offer');
  partner.say({ type: 'offer', ...link.offer() });
  await link.join(offer);
  await partner.hear('ready');
  const random = new Random(5);
  for (let round = 0; round < count; round++) {
    const length = random.between(1, SLOT);
    const [out, into] = [link.region.bytes.subarray(0, length), link.region.bytes.subarray(SLOT, SLOT + length)];
    for (let i = 0; i < length; i += 97) out[i] = random.next();
    into.fill(0);
    link.qp.postRecv({ sgl: [link.region.slice(SLOT, SLOT)], id: 1 });
    link.qp.postSend({ opcode: 'SEND', sgl: [link.region.slice(0, length)], id: 2 });
    for (let n = 0; n < 2; n++) {
      const completion = await link.cq.next({ timeoutMs: 5000 });
      assert.equal(completion.status, 'SUCCESS', completion.cause?.words);
      if (completion.opcode === 'RECV') assert.equal(completion.byteLen, length);
    }
    assert.equal(Buffer.compare(out, into), 0, `round ${round}`);
  }
  link.qp.postSend({ opcode: 'SEND' });
  await link.cq.next({ timeoutMs: 5000 });
  assert.deepEqual(await partner.hear('echoed'), { type: 'echoed', echoed: count });
  partner.say({ type: 'end' });
  await partner.exited;
  link.close();
}

processTest('messages go to another process and back', (hand) => exchange(hand.process('echo'), 500));

processTest('messages go to a worker thread of the same process and back', (hand) => exchange(hand.worker('echo'), 500));

processTest('two worker threads and a process are served at the same time', async (hand) => {
  await Promise.all([
    exchange(hand.worker('echo'), 200),
    exchange(hand.worker('echo'), 200),
    exchange(hand.process('echo'), 200),
  ]);
});
