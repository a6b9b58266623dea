import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OPCODES } from '../opcode.js';
import { Random } from '../providers/sim/random.js';
import { STATUS, statusName } from '../status.js';
import { DC_IDLE_NS, DcInitiator } from './dc-initiator.js';
import { type ContextNumbers, DcTarget } from './dc-target.js';
import { NEVER, type TransportEndpoint } from './host.js';
import { DecodeError, decodePacket, Packet } from './packet.js';
import { DEFAULT_SETTINGS, End } from './pair.test.fixture.js';

const [SEND, , WRITE, , READ, , FAA] = OPCODES.map((_, i) => i);
const DCI = 16;
const DCT = 17;
const KEY = 0xabcdef01;

/** Several devices, each with an initiator and a target, joined by a link that loses and repeats packets. */
class Mesh {
  readonly initiators: End[] = [];
  readonly targets: End[] = [];
  readonly dcts: DcTarget[] = [];
  now = 0;
  packets = 0;
  dropPerMillion = 0;
  private readonly routes: Map<number, TransportEndpoint>[] = [];
  private readonly random: Random;
  private readonly flying: { at: number; order: number; from: number; to: number; bytes: Uint8Array }[] = [];
  private order = 0;

  constructor(devices: number, seed: number, ofTarget: { dcKey?: number; mtu?: number; maxContexts?: number } = {}) {
    this.random = new Random(seed);
    for (let i = 0; i < devices; i++) {
      const initiator = new End(65536, 64);
      const target = new End(65536, 256);
      const routes = new Map<number, TransportEndpoint>();
      let number = 100;
      const numbers: ContextNumbers = {
        allocate: () => {
          routes.set(number, dct);
          return number++;
        },
        release: (n) => routes.delete(n),
      };
      const dci = new DcInitiator(
        { qpNum: DCI, sendQueue: initiator.sendQueue, memory: initiator.memory, host: initiator, counters: initiator.counters },
        { ...DEFAULT_SETTINGS, sendPsn: 0xfffff0 },
      );
      const { dcKey = KEY, mtu = 256, maxContexts = 100 } = ofTarget;
      const dct = new DcTarget(
        { ...target, host: target, qpNum: DCT, numbers, dcKey, maxContexts },
        { ...DEFAULT_SETTINGS, mtu },
      );
      initiator.endpoint = dci;
      target.endpoint = dct;
      routes.set(DCI, dci).set(DCT, dct);
      this.initiators.push(initiator);
      this.targets.push(target);
      this.dcts.push(dct);
      this.routes.push(routes);
    }
  }

  private *endpoints(): Generator<[number, TransportEndpoint]> {
    for (let i = 0; i < this.initiators.length; i++) {
      yield [i, this.initiators[i].endpoint];
      yield [i, this.targets[i].endpoint];
    }
  }

  run(until = NEVER): void {
    const b = new Uint8Array(8192);
    const p = new Packet();
    for (let step = 0; ; step++) {
      assert.ok(step < 500_000, 'still not done');
      for (const [from, endpoint] of this.endpoints()) {
        for (let n = endpoint.next(b, 0, this.now); n > 0; n = endpoint.next(b, 0, this.now)) {
          this.packets++;
          if (this.random.chance(this.dropPerMillion)) continue;
          const copies = this.random.chance(this.dropPerMillion) ? 2 : 1;
          for (let c = 0; c < copies; c++) {
            const late = this.random.chance(this.dropPerMillion) ? this.random.below(300_000) : 0;
            this.flying.push({
              at: this.now + 1000 + late,
              order: this.order++,
              from,
              to: endpoint.destination,
              bytes: b.slice(0, n),
            });
          }
        }
      }
      this.flying.sort((x, y) => x.at - y.at || x.order - y.order);
      let timer = NEVER;
      for (const [, endpoint] of this.endpoints()) timer = Math.min(timer, endpoint.deadline);
      const first = this.flying[0];
      const next = Math.min(first?.at ?? NEVER, timer);
      if (next === NEVER || next > until) return;
      this.now = Math.max(this.now, next);
      if (first !== undefined && first.at <= timer) {
        this.flying.shift();
        assert.equal(decodePacket(first.bytes, 0, first.bytes.length, p), DecodeError.ok);
        this.routes[first.to].get(p.destQp)?.receive(p, first.bytes, this.now, first.from);
      } else {
        for (const [, endpoint] of this.endpoints()) endpoint.tick(this.now);
      }
    }
  }
}

const to = (device: number) => ({ destination: device, destQp: DCT, destKey: KEY });

test('one initiator reaches several targets, one connection at a time, and an idle one costs nothing', () => {
  const mesh = new Mesh(3, 1);
  const me = mesh.initiators[0];
  me.bytes.fill(5, 0, 1000);
  for (const [id, device] of [1, 1, 2, 1].entries()) {
    mesh.targets[device].postReceive(id, id * 1000, 1000);
    me.post(SEND, id, 0, 700, to(device));
  }
  mesh.run();
  assert.deepEqual(
    me.sent.map((c) => [c.id, c.status]),
    [0, 1, 2, 3].map((id) => [id, STATUS.SUCCESS]),
  );
  assert.deepEqual(
    mesh.targets[1].received.map((c) => c.id),
    [0, 1, 3],
  );
  assert.ok(mesh.targets[2].bytes.subarray(2000, 2700).every((v) => v === 5));
  assert.deepEqual(
    mesh.dcts.map((dct) => dct.contexts),
    [0, 0, 0],
    'the last connection was dropped after the idle time',
  );
  assert.ok(mesh.now >= DC_IDLE_NS);
});

test('one-sided operations run as on RC', () => {
  const mesh = new Mesh(2, 1);
  const [me, target] = [mesh.initiators[0], mesh.targets[1]];
  me.bytes.fill(7, 0, 600);
  const remote = { remoteAddress: target.base + 8000, remoteKey: target.key, ...to(1) };
  me.post(WRITE, 1, 0, 600, remote);
  me.post(READ, 2, 2000, 600, remote);
  me.post(FAA, 3, 3000, 8, { ...remote, remoteAddress: target.base, swapLo: 9, swapHi: 0 });
  mesh.run();
  assert.deepEqual(
    me.sent.map((c) => c.status),
    [0, 0, 0],
  );
  assert.ok(me.bytes.subarray(2000, 2600).every((v) => v === 7));
  assert.equal(target.bytes[0], 9);
});

for (const [what, options, status] of [
  ['a wrong key', { dcKey: 5 }, 'REM_ACCESS_ERR'],
  ['another path MTU', { mtu: 512 }, 'REM_INV_REQ_ERR'],
  ['a target without room for connections', { maxContexts: 0 }, 'RETRY_EXC_ERR'],
] as const) {
  test(`${what} is refused with ${status}`, () => {
    const mesh = new Mesh(2, 1, options);
    mesh.initiators[0].post(SEND, 1, 0, 8, to(1));
    mesh.initiators[0].post(SEND, 2, 0, 8, to(1));
    mesh.run();
    assert.deepEqual(
      mesh.initiators[0].sent.map((c) => statusName(c.status)),
      [status, 'WR_FLUSH_ERR'],
    );
    assert.deepEqual(mesh.initiators[0].events, ['QP_FATAL']);
  });
}

test('a target that is not there is RETRY_EXC_ERR', () => {
  const mesh = new Mesh(2, 1);
  mesh.initiators[0].post(SEND, 1, 0, 8, { ...to(1), destQp: 99 });
  mesh.run();
  assert.deepEqual(
    mesh.initiators[0].sent.map((c) => statusName(c.status)),
    ['RETRY_EXC_ERR'],
  );
});

test('a refused request stops its initiator only: the target serves the others', () => {
  const mesh = new Mesh(3, 1);
  mesh.initiators[0].post(WRITE, 1, 0, 8, { ...to(2), remoteAddress: 1, remoteKey: 1 });
  mesh.run();
  mesh.targets[2].postReceive(1, 0, 100);
  mesh.initiators[1].post(SEND, 1, 0, 8, to(2));
  mesh.run();
  assert.deepEqual(
    mesh.initiators.map((end) => end.sent.map((c) => statusName(c.status))),
    [['REM_ACCESS_ERR'], ['SUCCESS'], []],
  );
  assert.deepEqual(mesh.targets[2].events, []);
});

test('with loss, repetition and reordering every message arrives once, and counters add up', () => {
  const only = process.env['VERBENA_SEED'];
  const seeds = only === undefined ? Array.from({ length: 60 }, (_, i) => i + 1) : [Number(only)];
  for (const seed of seeds) {
    const random = new Random(seed);
    const devices = 4;
    const mesh = new Mesh(devices, seed);
    mesh.dropPerMillion = [0, 10_000, 60_000][random.below(3)];
    const sums = new Array<number>(devices).fill(0);
    const messages = new Array<number>(devices).fill(0);
    for (const end of mesh.targets) for (let i = 0; i < 150; i++) end.postReceive(i, 1024, 1024);
    for (const [i, me] of mesh.initiators.entries()) {
      for (let n = 0; n < 40; n++) {
        const device = random.below(devices);
        if (random.below(2) === 0) {
          me.post(SEND, n, 0, random.below(900), to(device));
          messages[device]++;
        } else {
          const target = mesh.targets[device];
          me.post(FAA, n, 2000, 8, {
            ...to(device),
            remoteAddress: target.base,
            remoteKey: target.key,
            swapHi: 0,
            swapLo: i + 1,
          });
          sums[device] += i + 1;
        }
      }
    }
    mesh.run();
    const statuses = new Set(mesh.initiators.flatMap((end) => end.sent.map((c) => statusName(c.status))));
    assert.ok(
      mesh.initiators.every((end) => end.sent.length === 40 && end.sendQueue.count === 0),
      `seed ${seed}: a hang`,
    );
    if (statuses.size > 1) continue;
    assert.deepEqual(
      mesh.targets.map((end) => end.received.length),
      messages,
      `seed ${seed}`,
    );
    assert.deepEqual(
      mesh.targets.map((end) => new DataView(end.bytes.buffer).getUint32(0, true)),
      sums,
      `seed ${seed}`,
    );
  }
});
