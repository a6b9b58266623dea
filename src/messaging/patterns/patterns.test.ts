import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Device, openDevice, type ProtectionDomain, type QueuePair, WorkCompletions } from '../../verbs/index.js';
import { INLINE_BYTES, S_LENGTH, S_PAYLOAD } from '../wire/slot.js';
import { CompletionQueues } from './completion-queues.js';
import { RingReader, RingWriter, ringBytes } from './ring-region.js';
import { OneSidedTable } from './rpc-one-sided.js';
import { RingRpc } from './rpc-ring.js';
import { type RpcHandler, TwoSidedRpc } from './rpc-two-sided.js';

interface Side {
  readonly device: Device;
  readonly pd: ProtectionDomain;
  readonly qp: QueuePair;
}

async function connectedPair(): Promise<[Side, Side]> {
  const make = async (): Promise<Side> => {
    const device = await openDevice('shm');
    const pd = device.allocPd();
    const qp = pd.createQp({ type: 'RC', sendCq: device.createCq(), recvCq: device.createCq() });
    return { device, pd, qp };
  };
  const sides: [Side, Side] = [await make(), await make()];
  await sides[0].qp.connect(sides[1].qp.address());
  await sides[1].qp.connect(sides[0].qp.address());
  return sides;
}

/** Answers with every byte plus one. */
const increment: RpcHandler = (request, reply) => {
  for (let i = 0; i < request.length; i++) reply[i] = request[i] + 1;
  return request.length;
};

describe('the ring region', () => {
  const shape = { slots: 8, bulkBytes: 1024 };

  it('carries more than it holds, in order, and gives room back only when the reader has taken it', () => {
    const memory = new Uint8Array(ringBytes(shape));
    const writer = new RingWriter(memory, shape, true);
    const reader = new RingReader(memory, shape, false);
    let sent = 0;
    let taken = 0;
    for (let round = 0; round < 500; round++) {
      for (;;) {
        const length = (sent * 37) % 200;
        const slot = length <= INLINE_BYTES ? writer.reserve() : writer.reserveBulk(length);
        if (slot < 0) break;
        const at = length <= INLINE_BYTES ? (slot + S_PAYLOAD) << 2 : writer.bulkAt + writer.bulkOffset;
        writer.u8.fill(sent & 0xff, at, at + length);
        writer.i32[slot + S_LENGTH] = length;
        writer.i32[slot + 5] = writer.bulkOffset;
        writer.publish(slot);
        sent++;
      }
      assert.ok(sent - taken <= shape.slots && sent > taken);
      for (let n = 0; n < 1 + (round % 3); n++) {
        const slot = reader.peek();
        if (slot < 0) break;
        const length = reader.i32[slot + S_LENGTH];
        assert.equal(length, (taken * 37) % 200);
        const at = length <= INLINE_BYTES ? (slot + S_PAYLOAD) << 2 : reader.bulkAt + reader.i32[slot + 5];
        assert.ok(reader.u8.subarray(at, at + length).every((byte) => byte === (taken & 0xff)));
        reader.release(length > INLINE_BYTES ? length : 0);
        taken++;
      }
    }
    assert.ok(taken > 500);
  });
});

describe('completion queues', () => {
  for (const layout of ['shared', 'per-queue-pair'] as const) {
    it(`${layout}: every completion comes out once, with a thread that watches and without`, async () => {
      for (const thread of [false, true]) {
        using device = await openDevice('shm');
        const pd = device.allocPd();
        const queues = new CompletionQueues(device, { layout, thread });
        const target = pd.register(device.alloc(64), { remoteWrite: true });
        const pairs = await Promise.all(
          [0, 1, 2].map(async () => {
            const cq = queues.take();
            const near = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
            const other = device.createCq();
            const far = pd.createQp({ type: 'RC', sendCq: other, recvCq: other });
            await near.connect(far.address());
            await far.connect(near.address());
            return { near, far };
          }),
        );
        assert.equal(queues.size, layout === 'shared' ? 1 : 3);
        for (const [i, { near }] of pairs.entries()) {
          near.postSend({ opcode: 'RDMA_WRITE', sgl: [target.slice(0, 8)], remoteAddr: target.addr, rkey: target.rkey, id: i });
        }
        const seen: number[] = [];
        const wcs = new WorkCompletions(8);
        const take = (found: WorkCompletions, count: number) => {
          for (let i = 0; i < count; i++) seen.push(found.id[i]);
        };
        while (seen.length < 3) queues.poll(wcs, take);
        assert.deepEqual(seen.sort(), [0, 1, 2]);
        for (const { near, far } of pairs) {
          near.close();
          far.close();
        }
        queues.close();
      }
    });
  }
});

describe('RPC', () => {
  it('two-sided: the handler answers each request', async () => {
    const [client, server] = await connectedPair();
    const near = new TwoSidedRpc(client.device, client.pd, client.qp);
    const far = new TwoSidedRpc(server.device, server.pd, server.qp, increment);
    for (let i = 0; i < 200; i++) {
      near.call(new Uint8Array([i, 7]));
      while (far.poll() === 0);
      while (near.poll() === 0);
      assert.deepEqual([...(near.reply ?? [])], [(i + 1) & 0xff, 8]);
    }
    client.device.close();
    server.device.close();
  });

  it('by rings: the handler answers each request, of any size', async () => {
    const [client, server] = await connectedPair();
    const near = new RingRpc(client.device, client.pd);
    const far = new RingRpc(server.device, server.pd, increment);
    near.connect(server.qp.address(), far.remote());
    far.connect(client.qp.address(), near.remote());
    for (const size of [1, 40, 41, 3000]) {
      for (let i = 0; i < 100; i++) {
        assert.equal(near.call(new Uint8Array(size).fill(i)), true);
        while (far.poll() === 0);
        while (near.poll() === 0);
        assert.ok(near.reply?.length === size && near.reply.every((byte) => byte === i + 1));
      }
    }
    client.device.close();
    server.device.close();
  });

  it('one-sided: records are read while the server does nothing', async () => {
    const [client, server] = await connectedPair();
    const table = server.pd.register(server.device.alloc(64 * 100), { remoteRead: true });
    for (let record = 0; record < 100; record++) table.bytes.fill(record, record * 64, record * 64 + 64);
    const near = new OneSidedTable(client.device, client.pd, client.qp, table.remote(), 64);
    for (const record of [0, 99, 42]) {
      near.call(record);
      while (near.poll() === 0);
      assert.ok(near.reply?.every((byte) => byte === record));
    }
    assert.throws(() => near.call(100), RangeError);
    client.device.close();
    server.device.close();
  });
});
