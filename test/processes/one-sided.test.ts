/** One-sided means one-sided: WRITE, READ and atomics complete while the thread of the target is blocked in a loop. */

import assert from 'node:assert/strict';
import { processTest, type Scenario } from './harness.js';
import { Link, type Offer } from './link.js';

interface Released {
  counter: string;
  swapped: string;
  data: number[];
}

/** Runs every one-sided operation against a blocked target and checks that it saw them. Polls only: this thread never yields either. */
async function againstBlocked(target: Scenario, atomics: boolean): Promise<void> {
  const link = await Link.open(1 << 21);
  const { remote, address } = await target.hear<Offer>('offer');
  target.say({ type: 'offer', ...link.offer() });
  await link.join({ remote, address });
  target.say({ type: 'block' });
  await target.hear('blocked');
  const to = (offset: number) => ({ remoteAddr: remote.addr + offset, rkey: remote.rkey });

  for (const length of [16, 5000, 1 << 20]) {
    link.region.bytes.fill(length & 0xff, 0, length);
    link.qp.postSend({ opcode: 'RDMA_WRITE', sgl: [link.region.slice(0, length)], ...to(64), id: length });
    assert.equal(link.next().id, length);
    link.region.bytes.fill(0);
    link.qp.postSend({ opcode: 'RDMA_READ', sgl: [link.region.slice(100, length)], ...to(64), id: length + 1 });
    assert.equal(link.next().id, length + 1);
    assert.ok(link.region.bytes.subarray(100, 100 + length).every((byte) => byte === (length & 0xff)));
  }
  link.region.bytes.fill(9);
  link.qp.postSend({ opcode: 'RDMA_WRITE', sgl: [link.region.slice(0, 16)], ...to(64) });
  link.next();
  if (atomics) {
    for (let i = 0; i < 100; i++) {
      link.qp.postSend({ opcode: 'ATOMIC_FETCH_AND_ADD', sgl: [link.region.slice(0, 8)], ...to(8), add: 3n });
      link.next();
      assert.equal(link.words[0], BigInt(3 * i));
    }
    link.qp.postSend({ opcode: 'ATOMIC_CMP_AND_SWP', sgl: [link.region.slice(0, 8)], ...to(16), compare: 0n, swap: 5n });
    link.next();
  }
  link.words[0] = 1n;
  link.qp.postSend({ opcode: 'RDMA_WRITE', sgl: [link.region.slice(0, 8)], ...to(0) });
  link.next();
  const released = await target.hear<Released>('released');
  assert.equal(released.counter, atomics ? '300' : '0');
  assert.equal(released.swapped, atomics ? '5' : '0');
  assert.deepEqual(released.data, Array(16).fill(9));
  target.say({ type: 'end' });
  await target.exited;
  link.close();
}

processTest('WRITE, READ and atomics complete while the target process is blocked', async (hand) => {
  await againstBlocked(hand.process('blocked-target', { memory: 'arena' }), true);
});

processTest('WRITE and READ of ordinary memory complete while the target process is blocked', async (hand) => {
  await againstBlocked(hand.process('blocked-target', { memory: 'private' }), false);
});

processTest('WRITE, READ and atomics complete while the target worker thread is blocked', async (hand) => {
  await againstBlocked(hand.worker('blocked-target', { memory: 'arena' }), true);
});

processTest('WRITE and READ of ordinary memory complete while the target worker thread is blocked', async (hand) => {
  await againstBlocked(hand.worker('blocked-target', { memory: 'private' }), false);
});
