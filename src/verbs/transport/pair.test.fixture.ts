/**
 * Two endpoints joined by a link in virtual time, for tests. The link seals every packet with its ICRC, does to it what the faults
 * say, and delivers what still checks.
 */

import assert from 'node:assert/strict';
import { ACCESS_LOCAL_WRITE, ACCESS_REMOTE_ATOMIC, ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE } from '../access.js';
import type { AsyncEventType } from '../device.js';
import { Random } from '../providers/sim/random.js';
import { NEVER, TransportCounters, type TransportEndpoint, type TransportHost } from './host.js';
import { IcrcPath, IcrcVerdict } from './icrc.js';
import type { TransportMemory } from './memory.js';
import { opcodeName } from './opcode.js';
import { DecodeError, decodePacket, Packet } from './packet.js';
import { RcEndpoint } from './rc-endpoint.js';
import type { RcSettings } from './rc-settings.js';
import { ReceiveQueue, ReceiveWork } from './receive-queue.js';
import { RegionTable } from './region-table.js';
import { SendQueue, SendWork } from './send-queue.js';
import { StateCopy } from './state-copy.js';

export const ALL_ACCESS = ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC;

export interface SentCompletion {
  id: number;
  status: number;
  opcode: number;
  byteLength: number;
}

export interface ReceivedCompletion extends SentCompletion {
  immediate: number;
  flags: number;
  sourceQp: number;
  solicited: boolean;
}

/** Chances in a million, and times in nanoseconds. */
export interface Faults {
  drop: number;
  duplicate: number;
  corrupt: number;
  /** A packet is held back by up to `delayNs`, so that others overtake it. */
  delay: number;
  delayNs: number;
}

const NO_FAULTS: Faults = { drop: 0, duplicate: 0, corrupt: 0, delay: 0, delayNs: 0 };

const MEMORY_BASE = 0x10_0000_0000;

/** One side: memory, queues, what completed. */
export class End implements TransportHost {
  readonly table = new RegionTable();
  readonly memory: TransportMemory = this.table.view(1);
  readonly bytes: Uint8Array;
  readonly base = MEMORY_BASE;
  readonly key: number;
  readonly sendQueue: SendQueue;
  readonly receiveQueue: ReceiveQueue;
  readonly counters = new TransportCounters();
  readonly sent: SentCompletion[] = [];
  readonly received: ReceivedCompletion[] = [];
  readonly events: AsyncEventType[] = [];
  sendQueueErrors = 0;
  endpoint!: TransportEndpoint;
  readonly work = new SendWork(4);
  readonly receiveWork = new ReceiveWork(4);

  constructor(memoryBytes: number, depth: number) {
    this.bytes = new Uint8Array(memoryBytes);
    this.key = this.table.register(1, this.bytes, this.base, ALL_ACCESS);
    this.sendQueue = new SendQueue({ depth, maxSge: 4, maxInline: 64 });
    this.receiveQueue = new ReceiveQueue({ depth, maxSge: 4 });
  }

  sendComplete(id: number, status: number, opcode: number, byteLength: number): void {
    this.sent.push({ id, status, opcode, byteLength });
  }

  receiveComplete(
    id: number,
    status: number,
    opcode: number,
    byteLength: number,
    immediate: number,
    flags: number,
    sourceQp: number,
    solicited: boolean,
  ): void {
    this.received.push({ id, status, opcode, byteLength, immediate, flags, sourceQp, solicited });
  }

  sendQueueError(): void {
    this.sendQueueErrors++;
  }

  event(type: AsyncEventType): void {
    this.events.push(type);
  }

  /** Posts a request over [offset, offset + length) of this side's memory; further fields by name. */
  post(opcode: number, id: number, offset: number, length: number, more: Partial<SendWork> = {}): void {
    const w = Object.assign(this.work, { flags: 1, immediate: 0, remoteAddress: 0, remoteKey: 0, inlineData: null }, more);
    w.opcode = opcode;
    w.id = id;
    w.sgeCount = 1;
    w.sgeAddress[0] = this.base + offset;
    w.sgeLength[0] = length;
    w.sgeKey[0] = more.sgeKey?.[0] ?? this.key;
    assert.ok(this.sendQueue.push(w), 'send queue full');
  }

  postReceive(id: number, offset: number, length: number): void {
    const w = this.receiveWork;
    w.id = id;
    w.sgeCount = 1;
    w.sgeAddress[0] = this.base + offset;
    w.sgeLength[0] = length;
    w.sgeKey[0] = this.key;
    assert.ok(this.receiveQueue.push(w), 'receive queue full');
  }
}

interface Arrival {
  at: number;
  order: number;
  to: End;
  bytes: Uint8Array;
}

export const DEFAULT_SETTINGS: RcSettings = {
  destQp: 0,
  mtu: 256,
  sendPsn: 0,
  receivePsn: 0,
  timeout: 6,
  retryCount: 7,
  rnrRetry: 7,
  minRnrTimer: 1,
  maxRdAtomic: 4,
  maxDestRdAtomic: 4,
  access: ALL_ACCESS,
};

/** An endpoint of a reliable connection that works on what an end has. */
export function makeRc(end: End, settings: RcSettings): RcEndpoint {
  return new RcEndpoint({ ...end, host: end, memory: end.memory }, settings);
}

/** Two ends and the link between them. */
export class Pair {
  readonly a: End;
  readonly b: End;
  now = 0;
  faults: Faults = NO_FAULTS;
  readonly random: Random;
  /** Packets that passed the link, as "a>b RC sendOnly psn 5". */
  readonly trace: string[] = [];
  /** Called with every packet put on the link; it may change the bytes (the ICRC is made after it). Return false to lose it. */
  filter: ((from: End, p: Packet, bytes: Uint8Array) => boolean) | undefined;
  private settingsOfA = DEFAULT_SETTINGS;
  private settingsOfB = DEFAULT_SETTINGS;
  private readonly flying: Arrival[] = [];
  private order = 0;
  private readonly buffer = new Uint8Array(8192);
  private readonly packet = new Packet();
  private readonly path = new IcrcPath(Uint8Array.of(10, 0, 0, 1), Uint8Array.of(10, 0, 0, 2), 49152, 4791);

  constructor(seed = 1, memoryBytes = 65536, depth = 64) {
    this.random = new Random(seed);
    this.a = new End(memoryBytes, depth);
    this.b = new End(memoryBytes, depth);
  }

  /** A pair of reliably connected endpoints. */
  static rc(
    settings: Partial<RcSettings> = {},
    ofB: Partial<RcSettings> = {},
    seed = 1,
    memoryBytes = 65536,
    depth = 64,
    make: (end: End, settings: RcSettings) => TransportEndpoint = makeRc,
  ): Pair {
    const pair = new Pair(seed, memoryBytes, depth);
    const forA = { ...DEFAULT_SETTINGS, destQp: 2, sendPsn: 0xfffffa, receivePsn: 100, ...settings };
    const forB = { ...forA, destQp: 1, sendPsn: forA.receivePsn, receivePsn: forA.sendPsn, ...ofB };
    for (const [end, s] of [
      [pair.a, forA],
      [pair.b, forB],
    ] as const) {
      end.endpoint = make(end, s);
    }
    pair.settingsOfA = forA;
    pair.settingsOfB = forB;
    return pair;
  }

  /** Puts a new endpoint in the place of an old one, as when another thread takes over: only what `copyState` moves is kept. */
  move(end: End): void {
    const settings = end === this.a ? this.settingsOfA : this.settingsOfB;
    const old = end.endpoint as RcEndpoint;
    const buffer = new SharedArrayBuffer(8 * RcEndpoint.stateWords(64, settings.maxDestRdAtomic));
    old.copyState(new StateCopy(buffer).disown());
    const fresh = makeRc(end, { ...settings, sendPsn: 0, receivePsn: 0 });
    const copy = new StateCopy(buffer);
    assert.ok(copy.own());
    fresh.copyState(copy);
    end.endpoint = fresh;
  }

  /** Lets both ends send what they have. */
  pump(): void {
    for (const [from, to] of [
      [this.a, this.b],
      [this.b, this.a],
    ]) {
      for (;;) {
        const length = from.endpoint.next(this.buffer, 0, this.now);
        if (length === 0) break;
        this.transmit(from, to, this.buffer.slice(0, length + 4));
      }
    }
  }

  private transmit(from: End, to: End, bytes: Uint8Array): void {
    const f = this.faults;
    assert.equal(decodePacket(bytes, 0, bytes.length - 4, this.packet), DecodeError.ok);
    this.trace.push(`${from === this.a ? 'a>b' : 'b>a'} ${opcodeName(this.packet.opcode)} psn ${this.packet.psn}`);
    if (this.filter && !this.filter(from, this.packet, bytes)) return;
    this.path.seal(bytes, 0, bytes.length - 4);
    if (this.random.chance(f.drop)) return;
    const copies = this.random.chance(f.duplicate) ? 2 : 1;
    for (let i = 0; i < copies; i++) {
      const flown = bytes.slice();
      if (this.random.chance(f.corrupt)) flown[this.random.below(flown.length)] ^= 1 << this.random.below(8);
      const extra = this.random.chance(f.delay) ? this.random.below(f.delayNs) : 0;
      this.flying.push({ at: this.now + 1000 + extra, order: this.order++, to, bytes: flown });
    }
  }

  private deliver(arrival: Arrival): void {
    const { bytes, to } = arrival;
    const end = bytes.length - 4;
    if (this.path.check(bytes, 0, end) !== IcrcVerdict.right) return;
    if (decodePacket(bytes, 0, end, this.packet) !== DecodeError.ok) return;
    to.endpoint.receive(this.packet, bytes, this.now, 0);
  }

  /** Runs until nothing is on the way and no timer runs, or `isDone`. Throws when it takes more than `steps`: a hang in virtual time. */
  run(isDone: () => boolean = () => false, steps = 200_000): void {
    for (let step = 0; ; step++) {
      this.pump();
      if (isDone()) return;
      let first: Arrival | undefined;
      for (const f of this.flying) if (!first || f.at < first.at || (f.at === first.at && f.order < first.order)) first = f;
      const timer = Math.min(this.a.endpoint.deadline, this.b.endpoint.deadline);
      if (first === undefined && timer === NEVER) return;
      if (step >= steps) throw new Error(`still not done after ${steps} events`);
      if (first !== undefined && first.at <= timer) {
        this.flying.splice(this.flying.indexOf(first), 1);
        this.now = Math.max(this.now, first.at);
        this.deliver(first);
      } else {
        this.now = Math.max(this.now, timer);
        this.a.endpoint.tick(this.now);
        this.b.endpoint.tick(this.now);
      }
    }
  }
}
