import assert from 'node:assert/strict';
import { test } from 'node:test';
import { statusName } from '../../status.js';
import { WorkCompletions } from '../../work-completions.js';
import { playAllToAll } from './all-to-all.js';
import type { SimDevice } from './device.js';
import { type FabricOptions, SimFabric } from './fabric.js';
import { playIncast } from './incast.test.fixture.js';

/** Two connected RC ends with a kilobyte each, on a virtual clock. */
function pairOf(options: FabricOptions = {}) {
  const fabric = new SimFabric({ clock: 'virtual', ...options });
  const ends = [fabric.open(), fabric.open()].map((device) => {
    const pd = device.allocPd();
    const cq = device.createCq();
    const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
    const region = pd.register(device.alloc(65536), { remoteRead: true, remoteWrite: true });
    return { device, cq, qp, region };
  });
  const [a, b] = ends;
  const attributes = { timeout: 8, retryCnt: 7 };
  void a.qp.connect(b.qp.address(), attributes);
  void b.qp.connect(a.qp.address(), attributes);
  const wcs = new WorkCompletions(64);
  /** Writes `length` bytes from a to b and says how it ended. */
  const write = (length: number): string => {
    a.qp.postSend({ opcode: 'RDMA_WRITE', sgl: [a.region.slice(0, length)], remoteAddr: b.region.addr, rkey: b.region.rkey });
    fabric.run(() => a.cq.isReady(), 100_000);
    return a.cq.poll(wcs) === 1 ? statusName(wcs.status[0]) : 'nothing';
  };
  return { fabric, a, b, write };
}

const events = (device: SimDevice): string[] => {
  const types: string[] = [];
  for (let event = device.pollEvent(); event; event = device.pollEvent()) types.push(event.type);
  return types;
};

test('virtual time moves by bandwidth and latency alone', () => {
  const { fabric, write } = pairOf({ link: { bitsPerSecond: 8e9, latencyNs: 1000 } });
  assert.equal(write(0), 'SUCCESS');
  // The WRITE: 28 bytes of headers; the acknowledge: 16; each with 90 around it, over two links of 1 ns a byte and 1 us.
  assert.equal(fabric.nowNs, 2 * (118 + 1000) + 2 * (106 + 1000));
  fabric.advance(5000);
  assert.equal(fabric.nowNs, 2 * (118 + 1000) + 2 * (106 + 1000) + 5000);
});

test('a corrupted packet is caught by its ICRC and sent again', () => {
  const { fabric, a, b, write } = pairOf({ faults: { seed: 1, rules: [{ kind: 'corrupt', lastPacket: 1 }] } });
  a.region.bytes.fill(3);
  assert.equal(write(500), 'SUCCESS');
  assert.ok(b.region.bytes.subarray(0, 500).every((v) => v === 3));
  const { corruptCaught, corruptPassed, packets } = fabric.counters();
  assert.deepEqual([corruptCaught, corruptPassed, packets], [1, 0, 3]);
});

test('dropped, doubled and delayed packets change nothing but time', () => {
  for (const kind of ['drop', 'duplicate', 'delay'] as const) {
    const { a, b, write } = pairOf({ faults: { seed: 2, rules: [{ kind, delayNs: 50_000, perMillion: 200_000 }] }, mtu: 256 });
    for (let i = 0; i < a.region.length; i++) a.region.bytes[i] = (i * 11) & 255;
    assert.equal(write(20_000), 'SUCCESS', kind);
    assert.deepEqual(b.region.bytes.subarray(0, 20_000), a.region.bytes.subarray(0, 20_000), kind);
  }
});

test('a link that is down for a while is survived by retries, one that stays down is RETRY_EXC_ERR', () => {
  const short = pairOf({ faults: { seed: 1, rules: [{ kind: 'linkDown', device: 1, beforeNs: 3_000_000 }] } });
  assert.equal(short.write(100), 'SUCCESS');
  assert.ok(short.fabric.nowNs >= 3_000_000);
  const long = pairOf({ faults: { seed: 1, rules: [{ kind: 'partition', devices: [0] }] } });
  assert.equal(long.write(100), 'RETRY_EXC_ERR');
});

test('a device dies at a time, after packets or after bytes, and says so', () => {
  for (const when of [{ atNs: 0 }, { afterPackets: 2 }, { afterBytes: 60 }]) {
    const { a, b, write } = pairOf({ faults: { seed: 1, rules: [{ kind: 'kill', device: 1, ...when }] } });
    const statuses = Array.from({ length: 8 }, () => write(8));
    assert.ok(statuses.includes('RETRY_EXC_ERR'), `${JSON.stringify(when)}: ${statuses.join(' ')}`);
    assert.deepEqual(events(b.device), ['DEVICE_FATAL']);
    assert.deepEqual(events(a.device), []);
  }
});

test('a short queue at the receiver loses packets of many senders, and RC brings all of them', () => {
  const fabric = new SimFabric({ clock: 'virtual', mtu: 1024, link: { bitsPerSecond: 1e9, latencyNs: 100, queueBytes: 8000 } });
  const target = fabric.open();
  const pd = target.allocPd();
  const cq = target.createCq();
  const region = pd.register(target.alloc(20 * 8192), { remoteWrite: true });
  const senders = Array.from({ length: 20 }, (_, i) => {
    const device = fabric.open();
    const own = device.allocPd();
    const sendCq = device.createCq();
    const memory = own.register(new Uint8Array(device.alloc(8192)).fill(i + 1));
    const qp = own.createQp({ type: 'RC', sendCq, recvCq: sendCq });
    const other = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
    void qp.connect(other.address(), { timeout: 9 });
    void other.connect(qp.address());
    qp.postSend({ opcode: 'RDMA_WRITE', sgl: [memory.slice()], remoteAddr: region.addr + i * 8192, rkey: region.rkey });
    return sendCq;
  });
  fabric.run(() => senders.every((sendCq) => sendCq.isReady()));
  assert.ok(fabric.counters().queueDrops > 0);
  for (let i = 0; i < 20; i++) assert.ok(region.bytes.subarray(i * 8192, (i + 1) * 8192).every((v) => v === i + 1));
});

test('marks of a congested switch slow senders down: the same bytes arrive sooner, with fewer packets lost', () => {
  const plain = playIncast(32, 128 << 10, { queueBytes: 64_000 });
  const marked = playIncast(32, 128 << 10, { queueBytes: 64_000, markBytes: 16_000 });
  assert.deepEqual([plain.failed, marked.failed], [0, 0]);
  assert.ok(marked.elapsedNs < plain.elapsedNs, `${marked.elapsedNs} ns with marks, ${plain.elapsedNs} ns without`);
  assert.ok(marked.drops < plain.drops, `${marked.drops} lost with marks, ${plain.drops} without`);
});

test('settle lets a program of promises run on virtual time', async () => {
  const { fabric, a, b } = pairOf();
  const program = async (): Promise<number> => {
    let rounds = 0;
    for (; rounds < 10; rounds++) {
      b.qp.postRecv({ id: rounds });
      a.qp.postSend({ opcode: 'SEND', id: rounds });
      await Promise.all([a.cq.next(), b.cq.next()]);
    }
    return rounds;
  };
  assert.equal(await fabric.settle(program()), 10);
  await assert.rejects(fabric.settle(new Promise(() => {})), /nothing is left to happen/);
});

test('an option that a fabric does not have, or a bad value, is refused by name', () => {
  assert.throws(() => new SimFabric({ speed: 1 } as FabricOptions), /no option 'speed'/);
  assert.throws(() => new SimFabric({ mtu: 1500 }), /mtu must be/);
  assert.throws(() => new SimFabric({ clock: 'fast' as 'real' }), /clock/);
  assert.throws(() => new SimFabric({ faults: { seed: 1, rules: [{ kind: 'kill', device: 0 }] } }), /fault plan: rule 0/);
});

for (const type of ['UD', 'DC'] as const) {
  test(`all-to-all of small messages over ${type} among 96 devices arrives, the same way every time`, () => {
    const first = playAllToAll(type, 96);
    assert.equal(first.messages, 96 * 95);
    assert.ok(first.packets >= first.messages && first.virtualNs > 0);
    assert.equal(playAllToAll(type, 96).traceHash, first.traceHash);
  });
}

test('a completion channel waits on virtual time too', async () => {
  const fabric = new SimFabric({ clock: 'virtual' });
  const device = fabric.open();
  const channel = device.createCompletionChannel();
  const cq = device.createCq({ channel });
  const pd = device.allocPd();
  const qp = pd.createQp({ type: 'UD', sendCq: cq, recvCq: cq });
  void qp.connect();
  const before = fabric.nowNs;
  await assert.rejects(fabric.settle(channel.next({ timeoutMs: 3_600_000 })), /no event within/);
  assert.equal(fabric.nowNs - before, 3_600_000 * 1e6);
  cq.requestNotify();
  const memory = pd.register(device.alloc(64));
  const ah = pd.createAh({ gid: device.gid });
  qp.postSend({ opcode: 'SEND', sgl: [memory.slice()], ah, remoteQpn: qp.qpNum, remoteQkey: 0x11111111 });
  assert.equal(await fabric.settle(channel.next({ timeoutMs: 1000 })), cq);
});
