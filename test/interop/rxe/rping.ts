/**
 * The other end of rping, over connection management:
 *
 *     client ── SEND address, key, length of the source ──> server ── RDMA READ of it
 *     client <── SEND "go on" ── server
 *     client ── SEND address, key, length of the sink ──> server ── RDMA WRITE of what it read
 *     client <── SEND "go on" ── server                      the client compares
 */

import assert from 'node:assert/strict';
import type { CompletionQueue, Connection, Device, MemoryRegion, QueuePair } from '../../../src/verbs/index.js';

const INFO_BYTES = 16;
const PATIENCE_MS = 50_000;
/** Who listens waits from before the guest starts. */
const START_MS = 390_000;

class RpingEnd {
  readonly qp: QueuePair;
  readonly data: MemoryRegion;
  private readonly cq: CompletionQueue;
  private readonly info: MemoryRegion;

  constructor(device: Device, size: number) {
    const pd = device.allocPd();
    this.cq = device.createCq();
    this.qp = pd.createQp({ type: 'RC', sendCq: this.cq, recvCq: this.cq });
    this.data = pd.register(device.alloc(2 * size), { localWrite: true, remoteRead: true, remoteWrite: true });
    this.info = pd.register(device.alloc(2 * INFO_BYTES), { localWrite: true });
  }

  expect(): void {
    this.qp.postRecv({ sgl: [this.info.slice(INFO_BYTES, INFO_BYTES)], id: 1 });
  }

  /** Waits for a completion of this kind; undefined when the connection was ended instead. */
  async done(id: number): Promise<boolean> {
    for (;;) {
      const completion = await this.cq.next({ timeoutMs: PATIENCE_MS });
      if (completion.status === 'WR_FLUSH_ERR') return false;
      assert.equal(completion.status, 'SUCCESS', completion.cause?.words);
      if (completion.id === id) return true;
    }
  }

  tell(addr: number, rkey: number, size: number): void {
    const view = new DataView(this.info.bytes.buffer, this.info.bytes.byteOffset);
    view.setBigUint64(0, BigInt(addr));
    view.setUint32(8, rkey);
    view.setUint32(12, size);
    this.qp.postSend({ opcode: 'SEND', sgl: [this.info.slice(0, INFO_BYTES)], id: 2 });
  }

  told(): { remoteAddr: number; rkey: number; size: number } {
    const view = new DataView(this.info.bytes.buffer, this.info.bytes.byteOffset + INFO_BYTES);
    return { remoteAddr: Number(view.getBigUint64(0)), rkey: view.getUint32(8), size: view.getUint32(12) };
  }
}

/** Serves one client until it disconnects; returns how many rounds it asked for. */
export async function serveRping(device: Device, port: number, size: number): Promise<number> {
  const listener = await device.listen(String(port));
  const request = await listener.accept({ timeoutMs: START_MS });
  const end = new RpingEnd(device, size);
  const connection: Connection = await request.accept(end.qp, { timeoutMs: PATIENCE_MS });
  end.expect();
  let rounds = 0;
  for (; await end.done(1); rounds++) {
    const source = end.told();
    end.expect();
    end.qp.postSend({ opcode: 'RDMA_READ', sgl: [end.data.slice(0, source.size)], ...source, id: 3 });
    await end.done(3);
    assert.match(Buffer.from(end.data.bytes.subarray(0, 12)).toString('latin1'), /^rdma-ping-\d/);
    end.tell(0, 0, 0);
    if (!(await end.done(1))) break;
    const sink = end.told();
    end.expect();
    end.qp.postSend({ opcode: 'RDMA_WRITE', sgl: [end.data.slice(0, sink.size)], ...sink, id: 4 });
    await end.done(4);
    end.tell(0, 0, 0);
  }
  connection.disconnect();
  listener.close();
  return rounds;
}

/** Plays the client against a server at `host`, and compares what it wrote back. */
export async function runRping(device: Device, host: string, port: number, size: number, rounds: number): Promise<void> {
  const end = new RpingEnd(device, size);
  let connection: Connection | undefined;
  for (let tries = 0; connection === undefined; tries++) {
    try {
      connection = await device.connect(`${host}/${port}`, end.qp, { timeoutMs: PATIENCE_MS });
    } catch (error) {
      if (tries > 100) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  end.expect();
  for (let round = 0; round < rounds; round++) {
    const { bytes, addr, rkey } = end.data;
    for (let i = 0; i < size; i++) bytes[i] = 65 + ((i + round) % 26);
    bytes.set(Buffer.from(`rdma-ping-${round}: `), 0);
    bytes.fill(0, size - 1); // rping takes the source for a C string
    end.tell(addr, rkey, size);
    assert.ok(await end.done(1), 'the server read the source');
    end.expect();
    end.tell(addr + size, rkey, size);
    assert.ok(await end.done(1), 'the server wrote the sink');
    end.expect();
    assert.deepEqual(Buffer.from(bytes.subarray(size)), Buffer.from(bytes.subarray(0, size)), `round ${round}`);
  }
  connection.disconnect();
}
