/** A program that polls runs the data path in its own thread; whatever it does next, peers notice nothing of that. */

import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { openDevice, type QueuePair, STATUS, WorkCompletions } from '../../src/verbs/index.js';
import type { RoceDevice } from '../../src/verbs/providers/roce/device.js';

const PATIENCE_MS = 60_000;
const BYTES = 1 << 20;

const wcs = new WorkCompletions(16);

class End {
  readonly pd;
  readonly cq;
  readonly region;
  qp: QueuePair;
  readonly device: RoceDevice;

  constructor(device: RoceDevice) {
    this.device = device;
    this.pd = device.allocPd();
    this.cq = device.createCq({ depth: 1024 });
    const rights = { localWrite: true, remoteRead: true, remoteWrite: true, remoteAtomic: true };
    this.region = this.pd.register(device.alloc(BYTES), rights);
    this.qp = this.makeQp();
  }

  makeQp(): QueuePair {
    return this.pd.createQp({ type: 'RC', sendCq: this.cq, recvCq: this.cq });
  }

  /** Polls until the data path is borrowed. */
  borrow(): void {
    const limit = performance.now() + PATIENCE_MS;
    while (!this.device.lease.isHeld) {
      for (let i = 0; i < 300; i++) this.cq.poll(wcs);
      assert.ok(performance.now() < limit, 'polling borrows the data path');
    }
  }

  /** Polls this end only until it has a completion. */
  reap(): void {
    const limit = performance.now() + PATIENCE_MS;
    while (this.cq.poll(wcs) === 0) assert.ok(performance.now() < limit, 'a completion came');
    assert.equal(wcs.status[0], STATUS.SUCCESS);
  }

  write(peer: End, length: number, id = 0): void {
    const { addr, rkey } = peer.region;
    this.qp.postSend({ opcode: 'RDMA_WRITE', sgl: [this.region.slice(0, length)], remoteAddr: addr, rkey, id });
  }
}

describe('Polling a RoCE device', () => {
  let a: End;
  let b: End;

  before(async () => {
    a = new End((await openDevice('roce')) as RoceDevice);
    b = new End((await openDevice('roce')) as RoceDevice);
  });

  beforeEach(async () => {
    for (const end of [a, b]) {
      end.qp.close();
      end.qp = end.makeQp();
    }
    await Promise.all([a.qp.connect(b.qp.address()), b.qp.connect(a.qp.address())]);
  });

  after(() => {
    a.device.close();
    b.device.close();
  });

  it('carries operations of every kind while both ends poll', () => {
    for (let i = 0; i < 2000; i++) {
      a.region.bytes[0] = i;
      a.write(b, i % 10 === 0 ? 20_000 : 8);
      const limit = performance.now() + PATIENCE_MS;
      while (a.cq.poll(wcs) === 0) {
        b.cq.poll(wcs);
        assert.ok(performance.now() < limit, 'a completion came');
      }
      assert.equal(wcs.status[0], STATUS.SUCCESS);
      assert.equal(b.region.bytes[0], i & 255);
    }
    const { addr, rkey } = b.region;
    a.borrow();
    b.borrow();
    a.qp.postSend({ opcode: 'RDMA_READ', sgl: [a.region.slice(4096, 9000)], remoteAddr: addr, rkey });
    a.reap();
    assert.deepEqual(a.region.bytes.subarray(4096, 13_096), b.region.bytes.subarray(0, 9000));
    const words = new BigUint64Array(b.region.bytes.buffer, b.region.bytes.byteOffset, 1);
    words[0] = 5n;
    a.qp.postSend({ opcode: 'ATOMIC_FETCH_AND_ADD', sgl: [a.region.slice(64, 8)], remoteAddr: addr, rkey, add: 3n });
    a.reap();
    assert.equal(words[0], 8n);
  });

  it('serves peers soon after it has stopped, in the state that polling left', () => {
    for (let round = 0; round < 20; round++) {
      b.borrow();
      // From here on nobody polls b: its engine must notice, and go on where b's thread was.
      a.region.bytes.fill(round + 1, 0, 50_000);
      a.write(b, 50_000);
      a.reap();
      assert.ok(b.region.bytes.subarray(0, 50_000).every((byte) => byte === round + 1));
    }
  });

  it('lets the program wait for events afterwards', async () => {
    b.borrow();
    b.qp.postRecv({ sgl: [b.region.slice(0, 64)], id: 7 });
    const waiting = b.cq.next({ timeoutMs: PATIENCE_MS });
    a.qp.postSend({ opcode: 'SEND', sgl: [a.region.slice(0, 64)] });
    assert.equal((await waiting).id, 7);
    assert.equal((await a.cq.next({ timeoutMs: PATIENCE_MS })).status, 'SUCCESS');
  });

  it('lets the program make and close objects in between, and refuses a key that is gone', () => {
    a.borrow();
    b.borrow();
    const extra = b.pd.register(b.device.alloc(4096), { remoteWrite: true });
    b.borrow();
    a.qp.postSend({ opcode: 'RDMA_WRITE', sgl: [a.region.slice(0, 8)], remoteAddr: extra.addr, rkey: extra.rkey });
    a.reap();
    b.borrow();
    extra.deregister();
    b.borrow();
    a.qp.postSend({ opcode: 'RDMA_WRITE', sgl: [a.region.slice(0, 8)], remoteAddr: extra.addr, rkey: extra.rkey });
    const limit = performance.now() + PATIENCE_MS;
    while (a.cq.poll(wcs) === 0) assert.ok(performance.now() < limit);
    assert.equal(wcs.status[0], STATUS.REM_ACCESS_ERR);
    assert.equal(a.qp.state, 'ERR');
  });

  it('connects by name while both poll', async () => {
    const listener = await b.device.listen('polled');
    b.borrow();
    a.borrow();
    const qp = a.makeQp();
    const other = b.makeQp();
    const timer = setInterval(() => {
      for (let i = 0; i < 300; i++) {
        a.cq.poll(wcs);
        b.cq.poll(wcs);
      }
    }, 1);
    const accepting = listener.accept({ timeoutMs: PATIENCE_MS }).then((request) => request.accept(other));
    try {
      await Promise.all([a.device.connect(listener.target, qp, { timeoutMs: PATIENCE_MS }), accepting]);
    } finally {
      clearInterval(timer);
      listener.close();
    }
    assert.equal(qp.state, 'RTS');
    qp.close();
    other.close();
  });

  it('counts what both threads did', () => {
    const counters = a.device.transportCounters();
    assert.ok(counters.packetsSent > 2000 && counters.systemCalls > 2000);
  });
});
