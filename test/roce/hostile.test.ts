/** What a device does with packets that nobody should send: it drops them, counts them by reason, and works on. */

import assert from 'node:assert/strict';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { type MemoryRegion, openDevice, type QueuePair } from '../../src/verbs/index.js';
import type { RoceCounters } from '../../src/verbs/providers/roce/counters.js';
import type { RoceDevice } from '../../src/verbs/providers/roce/device.js';
import { IcrcPath } from '../../src/verbs/transport/icrc.js';
import { DcOpcode, OPCODE_CNP, OPCODE_FLAGS, Op, Service } from '../../src/verbs/transport/opcode.js';
import { encodeHeaders, Packet, padPacket } from '../../src/verbs/transport/packet.js';

const LOOPBACK = Uint8Array.of(127, 0, 0, 1);
const CANARY = 0xa5;
const PACKETS = Number(process.env['VERBENA_PACKETS'] ?? 20_000);
/** Packets between two looks at whether the device has taken them: well below what the socket queues. */
const BURST = 50;

/** Whether this process may open raw sockets (CAP_NET_RAW). */
const MAY_SEE_HEADERS =
  (BigInt(`0x${/CapEff:\s*(\w+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]}`) & (1n << 13n)) !== 0n;

/** A small generator, so that a failing seed replays. */
function randomOf(seed: number): (below: number) => number {
  let state = seed >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

describe('a RoCE device under fire', () => {
  let device: RoceDevice;
  let socket: Socket;
  let path: IcrcPath;
  let qp: QueuePair;
  let region: MemoryRegion;
  const memory = { whole: new Uint8Array(0) };

  before(async () => {
    device = (await openDevice('roce')) as RoceDevice;
    socket = createSocket('udp4');
    socket.bind(0, '127.0.0.1');
    await once(socket, 'listening');
    path = new IcrcPath(LOOPBACK, LOOPBACK, socket.address().port, device.port);
    const pd = device.allocPd();
    const cq = device.createCq({ depth: 65536 });
    memory.whole = new Uint8Array(device.alloc(12288)).fill(CANARY);
    region = pd.register(memory.whole.subarray(4096, 8192), { remoteRead: true, remoteWrite: true, remoteAtomic: true });
    qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
  });

  after(() => {
    socket.close();
    device.close();
  });

  /** Connects the queue pair to the socket, which plays a peer. */
  async function connect(): Promise<void> {
    const peer = { ...qp.address(), qpNum: 99, psn: 0 };
    await qp.connect(peer);
  }

  function write(payload: number, change: (p: Packet) => void = () => {}): Uint8Array {
    const p = new Packet();
    p.opcode = Service.rc | Op.writeOnly;
    p.destQp = qp.qpNum;
    p.migrated = true;
    p.ackRequest = true;
    p.remoteAddress = region.addr;
    p.remoteKey = region.rkey;
    p.dmaLength = payload;
    p.payloadLength = payload;
    change(p);
    const b = new Uint8Array(4300).fill(1);
    return b.subarray(0, padPacket(p, b, encodeHeaders(p, b, 0) + payload));
  }

  function sealed(packet: Uint8Array, identification = 0): Uint8Array {
    const b = new Uint8Array(packet.length + 4);
    b.set(packet);
    path.seal(b, 0, packet.length, identification);
    return b;
  }

  async function send(packet: Uint8Array): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      socket.send(packet, device.port, '127.0.0.1', (error) => (error ? reject(error) : resolve()));
    });
  }

  /** Waits until a count has moved by as much. */
  async function counted(count: (c: RoceCounters) => number, by: number, before: number): Promise<void> {
    const deadline = performance.now() + 60_000;
    while (count(device.transportCounters()) - before < by) {
      assert.ok(performance.now() < deadline, `only ${count(device.transportCounters()) - before} of ${by} were counted`);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Everything that a packet can be counted as. */
  const fates = (c: RoceCounters): number =>
    c.malformed +
    c.badIcrc +
    c.unknownQueuePair +
    c.wrongPartition +
    c.wrongSource +
    c.congestionNotices +
    c.errorState +
    c.packetsReceived;

  it('an ICRC that is right for another IP identification counts apart, and is wrong once the identification can be seen', async () => {
    await connect();
    const start = device.transportCounters();
    await send(sealed(write(64), 0x1234));
    await counted((c) => c.assumedIcrc, 1, start.assumedIcrc);
    await counted((c) => c.bytesReceived, 64, 0);
    assert.ok(region.bytes.subarray(0, 64).every((byte) => byte === 1));
    region.bytes.fill(CANARY);
    // That packet made the device look at identifications, if it may.
    const { assumedIcrc, badIcrc } = device.transportCounters();
    await send(
      sealed(
        write(64, (p) => (p.psn = 1)),
        0x1234,
      ),
    );
    if (MAY_SEE_HEADERS) await counted((c) => c.badIcrc, 1, badIcrc);
    else await counted((c) => c.assumedIcrc, 1, assumedIcrc);
    region.bytes.fill(CANARY);
  });

  const REASONS: readonly [string, keyof RoceCounters, () => Uint8Array][] = [
    ['a wrong ICRC', 'badIcrc', () => sealed(write(64)).map((byte, i) => (i === 40 ? byte ^ 1 : byte))],
    ['less than a header', 'malformed', () => new Uint8Array(10)],
    ['more than a packet', 'malformed', () => new Uint8Array(5000)],
    ['an opcode that nobody has', 'malformed', () => sealed(Uint8Array.of(0x7f, ...write(64).subarray(1)))],
    ['an unknown queue pair', 'unknownQueuePair', () => sealed(write(64, (p) => (p.destQp = 0x123456)))],
    ['a service that the queue pair does not have', 'unknownQueuePair', () => sealed(write(64, (p) => (p.opcode |= Service.uc)))],
    ['another partition', 'wrongPartition', () => sealed(write(64, (p) => (p.partitionKey = 0x8001)))],
    ['a congestion notification', 'congestionNotices', () => sealed(write(0, (p) => (p.opcode = OPCODE_CNP)))],
  ];
  for (const [what, reason, make] of REASONS) {
    it(`${what} is dropped and counted as ${reason}`, async () => {
      await connect();
      const count = (c: RoceCounters): number => c[reason];
      const before = count(device.transportCounters());
      await send(make());
      await counted(count, 1, before);
      assert.ok(memory.whole.every((byte) => byte === CANARY));
      assert.equal(qp.state, 'RTS');
    });
  }

  it('a packet from another address than the connected one is dropped', async () => {
    const { av } = qp.address();
    await qp.connect({ ...qp.address(), av: { ...av, gid: '::ffff:127.0.0.77' } });
    const before = device.transportCounters().wrongSource;
    await send(sealed(write(64)));
    await counted((c) => c.wrongSource, 1, before);
    assert.ok(memory.whole.every((byte) => byte === CANARY));
  });

  it(`${PACKETS} mutated packets: nothing outside the region changes, and the device works on`, async (t) => {
    const seed = Number(process.env['VERBENA_SEED'] ?? Date.now() % 2 ** 31);
    t.diagnostic(`VERBENA_SEED=${seed}`);
    const random = randomOf(seed);
    const start = device.transportCounters();
    await connect();
    const opcodes = [...OPCODE_FLAGS.keys()].filter((opcode) => OPCODE_FLAGS[opcode] !== 0 && opcode !== DcOpcode.connect);
    for (let i = 0; i < PACKETS; ) {
      const before = fates(device.transportCounters());
      if (qp.state !== 'RTS') await connect();
      for (let n = 0; n < BURST; n++, i++) {
        const packet = write(random(5) === 0 ? random(4096) : random(64), (p) => {
          p.psn = random(3) === 0 ? random(0x1000000) : random(40);
          if (random(3) === 0) p.remoteAddress = region.addr + random(8192) - 2048;
          if (random(4) === 0) p.dmaLength = random(2) === 0 ? random(0xffffffff) : random(8192);
        });
        if (random(2) === 0) packet[0] = opcodes[random(opcodes.length)];
        for (let flips = random(4); flips > 0; flips--) packet[random(packet.length)] ^= 1 << random(8);
        packet.set([0, qp.qpNum >> 8, qp.qpNum & 255], 5);
        await send(sealed(packet));
      }
      await counted(fates, BURST, before);
    }
    const end = device.transportCounters();
    assert.ok(end.packetsReceived - start.packetsReceived > PACKETS / 4, 'most packets reached the state machines');
    assert.ok(end.bytesReceived > start.bytesReceived, 'some were carried out');
    const inside = memory.whole.subarray(4096, 8192);
    assert.ok(
      memory.whole.subarray(0, 4096).every((byte) => byte === CANARY),
      `before the region, seed ${seed}`,
    );
    assert.ok(
      memory.whole.subarray(8192).every((byte) => byte === CANARY),
      `behind the region, seed ${seed}`,
    );
    inside.fill(CANARY);
    await connect();
    const before = device.transportCounters().bytesReceived;
    await send(sealed(write(64)));
    await counted((c) => c.bytesReceived, 64, before);
    assert.ok(
      inside.subarray(0, 64).every((byte) => byte === 1),
      'an honest WRITE still arrives',
    );
  });
});
