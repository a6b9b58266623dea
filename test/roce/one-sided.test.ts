/** One-sided means one-sided on RoCE too: operations complete while the target's JavaScript thread is in a loop. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDevice } from '../../src/verbs/index.js';
import { Peer, type Released } from './peer.js';

for (const memory of ['arena', 'private'] as const) {
  test(`WRITE, READ${memory === 'arena' ? ' and atomics' : ''} complete while the target process is blocked, ${memory} memory`, async () => {
    const device = await openDevice('roce');
    const { peer, offer } = await Peer.start('roce', memory);
    const pd = device.allocPd();
    const cq = device.createCq();
    const region = pd.register(device.alloc(2 << 20), { localWrite: true });
    const words = new BigInt64Array(region.bytes.buffer, 0, 8);
    const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
    await qp.connect(offer.address);
    peer.say({ address: qp.address() });
    assert.equal(await peer.hear(), 'joined');
    peer.say('block');
    assert.equal(await peer.hear(), 'blocked');
    const to = (offset: number) => ({ remoteAddr: offer.remote.addr + offset, rkey: offer.remote.rkey });
    const done = async (id: number) => {
      const completion = await cq.next({ timeoutMs: 60_000 });
      assert.equal(completion.status, 'SUCCESS', completion.cause?.words);
      assert.equal(completion.id, id);
    };
    for (const length of [16, 5000, 1 << 20]) {
      region.bytes.fill(length % 251, 0, length);
      qp.postSend({ opcode: 'RDMA_WRITE', sgl: [region.slice(0, length)], ...to(64), id: length });
      await done(length);
      region.bytes.fill(0);
      qp.postSend({ opcode: 'RDMA_READ', sgl: [region.slice(100, length)], ...to(64), id: length + 1 });
      await done(length + 1);
      assert.ok(region.bytes.subarray(100, 100 + length).every((byte) => byte === length % 251));
    }
    if (memory === 'arena') {
      for (let i = 0; i < 50; i++) {
        qp.postSend({ opcode: 'ATOMIC_FETCH_AND_ADD', sgl: [region.slice(0, 8)], ...to(8), add: 3n, id: i });
        await done(i);
        assert.equal(words[0], BigInt(3 * i));
      }
      qp.postSend({ opcode: 'ATOMIC_CMP_AND_SWP', sgl: [region.slice(0, 8)], ...to(16), compare: 0n, swap: 5n, id: 7 });
      await done(7);
    }
    words[0] = 1n;
    qp.postSend({ opcode: 'RDMA_WRITE', sgl: [region.slice(0, 8)], ...to(0), id: 8 });
    await done(8);
    const released = await peer.hear<Released>();
    assert.equal(released.counter, memory === 'arena' ? '150' : '0');
    assert.equal(released.swapped, memory === 'arena' ? '5' : '0');
    assert.equal(released.sum, ((1 << 20) % 251) * (1 << 20));
    await peer.end();
    device.close();
  });
}
