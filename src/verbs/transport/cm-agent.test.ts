import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../providers/sim/random.js';
import { type CmAcceptReply, CmAgent, type CmConnectRequest, type CmHost } from './cm-agent.js';
import { serviceIdOf } from './cm-ip.js';
import { type CmRep, type CmReq, RejectReason } from './cm-messages.js';
import { NEVER } from './host.js';
import { DecodeError, decodePacket, Packet } from './packet.js';

/** One side: its agent, and what it was told, as words. */
class Side implements CmHost {
  readonly told: string[] = [];
  readonly requests: { id: number; request: CmReq }[] = [];
  readonly agent: CmAgent;
  reply: CmRep | undefined;
  /** What to do with a request at once. */
  policy: ((id: number) => void) | undefined;

  constructor(firstId: number) {
    this.agent = new CmAgent(this, firstId);
  }

  connectRequest(id: number, request: CmReq): void {
    this.told.push('request');
    this.requests.push({ id, request });
    this.policy?.(id);
  }

  established(_id: number, reply: CmRep | undefined): void {
    this.told.push('established');
    this.reply = reply ?? this.reply;
  }

  rejected(_id: number, reason: number, privateData: Uint8Array): void {
    this.told.push(`rejected ${reason} ${privateData[0] ?? ''}`.trim());
  }

  disconnected(): void {
    this.told.push('disconnected');
  }
}

const REQUEST: CmConnectRequest = {
  serviceId: serviceIdOf(7),
  localGuid: 1n,
  queueKey: 0,
  qpNum: 17,
  responderResources: 4,
  initiatorDepth: 4,
  remoteResponseTimeout: 14,
  service: 0,
  flowControl: 0,
  startingPsn: 100,
  localResponseTimeout: 14,
  retryCount: 7,
  partitionKey: 0xffff,
  mtuCode: 3,
  rnrRetry: 7,
  maxCmRetries: 7,
  hasSrq: 0,
  localLid: 0xffff,
  remoteLid: 0xffff,
  localGid: new Uint8Array(16),
  remoteGid: new Uint8Array(16),
  flowLabel: 0,
  packetRate: 3,
  trafficClass: 0,
  hopLimit: 64,
  serviceLevel: 0,
  isSubnetLocal: 0,
  ackTimeout: 14,
  privateData: Uint8Array.of(42),
};

const REPLY: CmAcceptReply = {
  queueKey: 0,
  qpNum: 18,
  startingPsn: 200,
  responderResources: 4,
  initiatorDepth: 4,
  targetAckDelay: 0,
  failover: 0,
  flowControl: 0,
  rnrRetry: 7,
  hasSrq: 0,
  localGuid: 2n,
  privateData: Uint8Array.of(43),
};

class Wire {
  readonly a = new Side(1000);
  readonly b = new Side(5000);
  now = 0;
  dropPerMillion = 0;
  isCut = false;
  sent = 0;
  private readonly random: Random;
  private readonly flying: { at: number; to: Side; bytes: Uint8Array }[] = [];

  constructor(seed = 1) {
    this.random = new Random(seed);
    this.b.agent.listen(serviceIdOf(7));
  }

  run(until = NEVER): void {
    const buffer = new Uint8Array(512);
    const p = new Packet();
    for (let step = 0; step < 10_000; step++) {
      for (const [from, to] of [
        [this.a, this.b],
        [this.b, this.a],
      ]) {
        for (let n = from.agent.next(buffer, 0); n > 0; n = from.agent.next(buffer, 0)) {
          this.sent++;
          if (this.isCut || this.random.chance(this.dropPerMillion)) continue;
          const copies = this.random.chance(this.dropPerMillion) ? 2 : 1;
          for (let i = 0; i < copies; i++) {
            this.flying.push({ at: this.now + 1000 + this.random.below(2000), to, bytes: buffer.slice(0, n) });
          }
        }
      }
      this.flying.sort((x, y) => x.at - y.at);
      const timer = Math.min(this.a.agent.deadline, this.b.agent.deadline);
      const next = Math.min(timer, this.flying[0]?.at ?? NEVER);
      if (next === NEVER || next > until) return;
      this.now = Math.max(this.now, next);
      const first = this.flying[0];
      if (first !== undefined && first.at <= timer) {
        this.flying.shift();
        assert.equal(decodePacket(first.bytes, 0, first.bytes.length, p), DecodeError.ok);
        first.to.agent.receive(p, first.bytes, this.now, 0);
      } else {
        this.a.agent.tick(this.now);
        this.b.agent.tick(this.now);
      }
    }
    assert.fail('still not done');
  }
}

/** A wire with a connection from a to b. */
function connected(): { wire: Wire; id: number } {
  const wire = new Wire();
  const { a, b } = wire;
  b.policy = (id) => b.agent.accept(id, REPLY, wire.now);
  const id = a.agent.connect(0, REQUEST, 0);
  wire.run(1_000_000);
  return { wire, id };
}

test('REQ, REP, RTU; then DREQ, DREP; and nothing is left after the time wait', () => {
  const { wire, id } = connected();
  const { a, b } = wire;
  assert.deepEqual([a.told, b.told], [['established'], ['request', 'established']]);
  assert.equal(b.requests[0].request.privateData[0], 42);
  assert.equal(b.requests[0].request.qpNum, 17);
  assert.equal(a.reply?.privateData[0], 43);
  assert.equal(a.reply?.startingPsn, 200);
  a.agent.disconnect(id, wire.now);
  wire.run();
  assert.deepEqual(
    [a.told, b.told],
    [
      ['established', 'disconnected'],
      ['request', 'established', 'disconnected'],
    ],
  );
  assert.equal(wire.sent, 5);
  assert.deepEqual([a.agent.size, b.agent.size], [0, 0]);
});

test('who cannot wait for an answer says several times that a connection is over, and the other side is told once', () => {
  const { wire, id } = connected();
  const { a, b } = wire;
  const before = wire.sent;
  a.agent.disconnect(id, wire.now);
  a.agent.repeatDisconnects(wire.now);
  a.agent.repeatDisconnects(wire.now);
  wire.run(wire.now + 1_000_000);
  assert.equal(wire.sent - before, 6); // three times DREQ and DREP
  assert.deepEqual(b.told, ['request', 'established', 'disconnected']);
  a.agent.repeatDisconnects(wire.now); // it was answered
  wire.run();
  assert.equal(wire.sent - before, 6);
});

test('a refusal brings its reason and private data', () => {
  const wire = new Wire();
  wire.b.policy = (id) => wire.b.agent.reject(id, wire.now, Uint8Array.of(9));
  wire.a.agent.connect(0, REQUEST, 0);
  wire.run();
  assert.deepEqual(wire.a.told, [`rejected ${RejectReason.consumer} 9`]);
});

test('a service nobody listens on is refused at once', () => {
  const wire = new Wire();
  wire.a.agent.connect(0, { ...REQUEST, serviceId: serviceIdOf(8) }, 0);
  wire.run();
  assert.deepEqual(wire.a.told, [`rejected ${RejectReason.invalidServiceId} 0`]);
  assert.deepEqual(wire.b.told, []);
});

test('silence ends in a timeout after all retries', () => {
  const wire = new Wire();
  wire.isCut = true;
  wire.a.agent.connect(0, REQUEST, 0);
  wire.run(900_000_000);
  assert.deepEqual(wire.a.told, [`rejected ${RejectReason.timeout}`]);
  assert.equal(wire.sent, 8);
});

test('an answer that takes long is waited for: the repeated request gets an MRA', () => {
  const wire = new Wire();
  wire.a.agent.connect(0, { ...REQUEST, maxCmRetries: 1 }, 0);
  wire.run(900_000_000);
  assert.deepEqual(wire.a.told, [], 'still waiting, long after two timeouts of 67 ms');
  wire.b.agent.accept(wire.b.requests[0].id, REPLY, wire.now);
  wire.run(wire.now + 1_000_000);
  assert.deepEqual(wire.a.told, ['established']);
});

test('data that arrives before the RTU establishes the passive side', () => {
  const wire = new Wire();
  wire.b.policy = (id) => {
    wire.b.agent.accept(id, REPLY, wire.now);
    wire.b.agent.establish(id);
  };
  wire.a.agent.connect(0, REQUEST, 0);
  wire.run(1_000_000);
  assert.deepEqual(wire.b.told, ['request', 'established']);
});

test('a disconnect for an unknown connection is answered, so that the other side can forget it', () => {
  const wire = new Wire();
  wire.b.policy = (id) => wire.b.agent.accept(id, REPLY, wire.now);
  const id = wire.a.agent.connect(0, REQUEST, 0);
  wire.run(1_000_000);
  wire.b.agent.flush();
  wire.a.agent.disconnect(id, wire.now);
  wire.run(wire.now + 1_000_000);
  assert.deepEqual(wire.a.told, ['established', 'disconnected']);
});

test('with loss and repetition each side is told exactly once, whatever happens', () => {
  const only = process.env['VERBENA_SEED'];
  for (let seed = Number(only ?? 1); seed <= Number(only ?? 300); seed++) {
    const wire = new Wire(seed);
    wire.dropPerMillion = 250_000;
    const isRefused = seed % 3 === 0;
    wire.b.policy = (id) => {
      if (isRefused) wire.b.agent.reject(id, wire.now);
      else wire.b.agent.accept(id, REPLY, wire.now);
    };
    const id = wire.a.agent.connect(0, REQUEST, 0);
    wire.run(2_000_000_000);
    const what = `seed ${seed}: ${wire.a.told} | ${wire.b.told}`;
    assert.equal(wire.a.told.length, 1, what);
    assert.ok(wire.b.told.filter((t) => t === 'request').length <= 1, what);
    if (!isRefused && wire.a.told[0] === 'established' && wire.b.told[1] === 'established') {
      (seed % 2 ? wire.a.agent : wire.b.agent).disconnect(seed % 2 ? id : wire.b.requests[0].id, wire.now);
      wire.run();
      assert.equal(wire.a.told.filter((t) => t === 'disconnected').length <= 1, true, what);
      assert.ok((seed % 2 ? wire.a : wire.b).told.includes('disconnected'), `seed ${seed}: ${wire.a.told} | ${wire.b.told}`);
    }
    wire.run();
    assert.deepEqual([wire.a.agent.deadline, wire.b.agent.deadline], [NEVER, NEVER], 'nothing is left running');
  }
});
