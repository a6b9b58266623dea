/**
 * The responder of a reliable connection: carries out requests in PSN order, once, and answers.
 *
 *                PSN = expected                       PSN after expected              PSN before expected
 *     ready ──────────────────────> execute, answer ; NAK sequence error, once  ;  answer again, execute nothing twice
 *       │            no receive request: RNR NAK, the PSN stays expected; what follows is dropped until it comes again
 *       └── invalid, access, operational error: NAK, then ──> error: nothing is carried out any more, but what was answered
 *                                                              is answered again, the last NAK too: it may have been lost
 *     flush() ──> error, silent
 *
 * What is due to be sent is kept as two things: the latest acknowledge (`reply`; a newer one replaces it, which is the coalescing) and a
 * ring of READs and atomics, the responder resources. They leave in PSN order.
 *
 *     resources:   [ READ 100..107 done | atomic 108 done | READ 110..112, at 111 | free ]      maxDestRdAtomic entries
 *
 * An entry stays after it was sent, so that a duplicate request is answered from it: a READ is read again, from where the requester asks;
 * an atomic returns the value found the first time. The requester has at most maxRdAtomic outstanding, so an entry that is
 * overwritten is one it has the answer of. An entry
 * whose first answer is still to be sent cannot be overwritten: the requester broke its promise.
 */

import { ACCESS_REMOTE_ATOMIC, ACCESS_REMOTE_READ } from '../access.js';
import type { TransportCounters, TransportHost } from './host.js';
import { InboundMessage, Verdict } from './inbound-message.js';
import { AtomicOp, AtomicResult, type TransportMemory } from './memory.js';
import { Flag, Op, Service } from './opcode.js';
import { encodeHeaders, Packet, padPacket } from './packet.js';
import { PSN_MASK, psnAdd, psnDiff } from './psn.js';
import type { RcSettings } from './rc-settings.js';
import type { ReceiveQueue } from './receive-queue.js';
import { MAX_MESSAGE_BYTES, packetBytes, packetCount, readResponseOp } from './segmentation.js';
import type { StateCopy } from './state-copy.js';
import { ACK_UNLIMITED, Nak, rnrSyndrome, SyndromeClass, syndromeClass } from './syndrome.js';

/** A READ or atomic that was carried out, or is being answered. */
class Resource {
  isAtomic = false;
  /** Answers are still to be sent. */
  isPending = false;
  /** All answers were sent at least once; what is pending now is a repetition. */
  isAnswered = false;
  firstPsn = 0;
  /** Packets of the whole answer. */
  packets = 0;
  /** Where the present run of answers began, how many it has, and the next to send. */
  runPsn = 0;
  runPackets = 0;
  nextPsn = 0;
  msn = 0;
  address = 0;
  key = 0;
  length = 0;
  originalHi = 0;
  originalLo = 0;

  copyState(s: StateCopy): void {
    this.isAtomic = s.flag(this.isAtomic);
    this.isPending = s.flag(this.isPending);
    this.isAnswered = s.flag(this.isAnswered);
    this.firstPsn = s.number(this.firstPsn);
    this.packets = s.number(this.packets);
    this.runPsn = s.number(this.runPsn);
    this.runPackets = s.number(this.runPackets);
    this.nextPsn = s.number(this.nextPsn);
    this.msn = s.number(this.msn);
    this.address = s.number(this.address);
    this.key = s.number(this.key);
    this.length = s.number(this.length);
    this.originalHi = s.number(this.originalHi);
    this.originalLo = s.number(this.originalLo);
  }
}

/** Says that the peer's request broke a rule and the queue pair must stop. */
export interface ResponderOwner {
  responderFailed(isAccessError: boolean): void;
}

const NO_REPLY = -1;

export class RcResponder {
  private readonly memory: TransportMemory;
  private readonly owner: ResponderOwner;
  private readonly counters: TransportCounters;
  private readonly settings: RcSettings;
  private readonly isShared: boolean;
  private readonly inbound: InboundMessage;
  private readonly out = new Packet();
  private readonly atomicResult = new AtomicResult();
  /** Made when the first READ or atomic comes, so that a connection that uses none stays small. */
  private readonly resources: Resource[] = [];
  private resourceAt = 0;
  private pendingResources = 0;

  private isReady = true;
  private expectedPsn = 0;
  private msn = 0;
  /** A NAK or RNR NAK for `expectedPsn` is out; what comes after it is dropped silently. */
  private hasNaked = false;
  private replySyndrome = NO_REPLY;
  /** The NAK that ended the connection, repeated for as long as the requester asks. */
  private fatalSyndrome = NO_REPLY;
  private replyPsn = 0;

  constructor(
    queue: ReceiveQueue,
    isShared: boolean,
    memory: TransportMemory,
    host: TransportHost,
    owner: ResponderOwner,
    counters: TransportCounters,
    settings: RcSettings,
  ) {
    this.memory = memory;
    this.owner = owner;
    this.counters = counters;
    this.settings = settings;
    this.isShared = isShared;
    this.inbound = new InboundMessage(queue, memory, host, settings);
    this.out.migrated = true;
    this.out.partitionKey = settings.partitionKey ?? 0xffff;
    this.restart(settings.destQp, settings.receivePsn);
  }

  /** Begins a connection at a PSN; what the old one still had to say is forgotten. */
  restart(destQp: number, psn: number): void {
    this.out.destQp = destQp;
    this.expectedPsn = psn;
    this.msn = 0;
    this.isReady = true;
    this.hasNaked = false;
    this.replySyndrome = NO_REPLY;
    this.fatalSyndrome = NO_REPLY;
    this.resources.length = 0;
    this.resourceAt = 0;
    this.pendingResources = 0;
  }

  copyState(s: StateCopy): void {
    this.isReady = s.flag(this.isReady);
    this.expectedPsn = s.number(this.expectedPsn);
    this.msn = s.number(this.msn);
    this.hasNaked = s.flag(this.hasNaked);
    this.replySyndrome = s.number(this.replySyndrome);
    this.fatalSyndrome = s.number(this.fatalSyndrome);
    this.replyPsn = s.number(this.replyPsn);
    this.resourceAt = s.number(this.resourceAt);
    this.pendingResources = s.number(this.pendingResources);
    this.inbound.copyState(s);
    const resources = s.number(this.resources.length);
    while (this.resources.length < resources) this.resources.push(new Resource());
    if (this.resources.length > resources) this.resources.length = resources;
    for (let i = 0; i < resources; i++) this.resources[i].copyState(s);
  }

  /** Something is due to be sent. */
  get hasOutput(): boolean {
    return this.pendingResources > 0 || this.replySyndrome !== NO_REPLY;
  }

  /** What is due is one acknowledge, or nothing negative and no data. */
  get owesOnlyAck(): boolean {
    return this.replySyndrome === ACK_UNLIMITED && this.pendingResources === 0;
  }

  /** To the error state; every receive request of the queue pair's own queue gets WR_FLUSH_ERR. Answers that are due stay due. */
  flush(): void {
    this.isReady = false;
    this.inbound.flush(this.isShared);
  }

  /** Takes a request packet. */
  receive(p: Packet, b: Uint8Array): void {
    if (!this.isReady && this.fatalSyndrome === NO_REPLY) return;
    this.counters.packetsReceived++;
    const ahead = psnDiff(p.psn, this.expectedPsn);
    if (!this.isReady) {
      if (ahead < 0) this.duplicate(p);
      else if (ahead === 0) this.reply(this.fatalSyndrome, this.expectedPsn);
    } else if (ahead > 0) {
      this.counters.outOfSequence++;
      if (!this.hasNaked) this.negative(Nak.sequenceError);
    } else if (ahead < 0) {
      this.counters.duplicates++;
      this.duplicate(p);
    } else {
      this.hasNaked = false;
      if (p.flags & Flag.read) this.read(p);
      else if (p.flags & Flag.atomic) this.atomic(p);
      else this.data(p, b);
    }
  }

  private data(p: Packet, b: Uint8Array): void {
    const verdict = this.inbound.accept(p, b);
    switch (verdict) {
      case Verdict.ok:
        this.counters.bytesReceived += p.payloadLength;
        this.expectedPsn = psnAdd(this.expectedPsn, 1);
        if (p.flags & Flag.last) this.msn = (this.msn + 1) & PSN_MASK;
        if (p.ackRequest || this.replySyndrome !== NO_REPLY) this.reply(ACK_UNLIMITED, p.psn);
        return;
      case Verdict.notReady:
        this.negative(rnrSyndrome(this.settings.minRnrTimer));
        return;
      case Verdict.accessError:
        this.fail(Nak.remoteAccess);
        return;
      case Verdict.localFault:
        this.fail(Nak.remoteOperational);
        return;
      default:
        this.fail(Nak.invalidRequest);
    }
  }

  private read(p: Packet): void {
    if (this.inbound.isOpen || (this.settings.access & ACCESS_REMOTE_READ) === 0 || p.dmaLength > MAX_MESSAGE_BYTES) {
      this.fail(Nak.invalidRequest);
      return;
    }
    if (p.dmaLength > 0 && !this.memory.check(p.remoteKey, p.remoteAddress, p.dmaLength, ACCESS_REMOTE_READ)) {
      this.fail(Nak.remoteAccess);
      return;
    }
    if (!this.hasRoom()) {
      this.fail(Nak.invalidRequest);
      return;
    }
    const r = this.claim(p, packetCount(p.dmaLength, this.settings.mtu));
    r.isAtomic = false;
    r.address = p.remoteAddress;
    r.key = p.remoteKey;
    r.length = p.dmaLength;
  }

  private atomic(p: Packet): void {
    if (this.inbound.isOpen || (this.settings.access & ACCESS_REMOTE_ATOMIC) === 0 || p.remoteAddress % 8 !== 0) {
      this.fail(Nak.invalidRequest);
      return;
    }
    if (!this.hasRoom()) {
      this.fail(Nak.invalidRequest);
      return;
    }
    const op = (p.opcode & 31) === Op.compareSwap ? AtomicOp.compareSwap : AtomicOp.fetchAdd;
    const found = this.atomicResult;
    if (
      !this.memory.check(p.remoteKey, p.remoteAddress, 8, ACCESS_REMOTE_ATOMIC) ||
      !this.memory.atomic(p.remoteKey, p.remoteAddress, op, p.swapHi, p.swapLo, p.compareHi, p.compareLo, found)
    ) {
      this.fail(Nak.remoteAccess);
      return;
    }
    const r = this.claim(p, 1);
    r.isAtomic = true;
    r.originalHi = found.hi;
    r.originalLo = found.lo;
  }

  /** False when the next entry of the ring still has its first answer to send, or there is no ring. */
  private hasRoom(): boolean {
    const r = this.resources[this.resourceAt];
    return this.settings.maxDestRdAtomic > 0 && (r === undefined || !r.isPending || r.isAnswered);
  }

  /** The next entry of the ring for a new READ or atomic, with the PSNs it takes. */
  private claim(p: Packet, packets: number): Resource {
    let r = this.resources[this.resourceAt];
    if (r === undefined) {
      r = new Resource();
      this.resources.push(r);
    }
    this.resourceAt = (this.resourceAt + 1) % this.settings.maxDestRdAtomic;
    this.msn = (this.msn + 1) & PSN_MASK;
    r.isAnswered = false;
    r.firstPsn = p.psn;
    r.packets = packets;
    r.msn = this.msn;
    this.run(r, p.psn, packets);
    this.expectedPsn = psnAdd(p.psn, packets);
    return r;
  }

  private run(r: Resource, fromPsn: number, packets: number): void {
    if (!r.isPending) this.pendingResources++;
    r.isPending = true;
    r.runPsn = r.nextPsn = fromPsn;
    r.runPackets = packets;
  }

  /** A request that was carried out before. */
  private duplicate(p: Packet): void {
    if (p.flags & (Flag.read | Flag.atomic)) {
      const r = this.find(p.psn);
      if (r === undefined || r.isAtomic !== ((p.flags & Flag.atomic) !== 0)) return;
      if (r.isPending && psnDiff(p.psn, r.nextPsn) >= 0) return;
      if (r.isAtomic) {
        this.run(r, p.psn, 1);
        return;
      }
      const done = psnDiff(p.psn, r.firstPsn) * this.settings.mtu;
      if (p.remoteKey !== r.key || p.remoteAddress !== r.address + done || p.dmaLength > r.length - done) return;
      this.run(r, p.psn, packetCount(p.dmaLength, this.settings.mtu));
      return;
    }
    if (this.replySyndrome === NO_REPLY) this.reply(ACK_UNLIMITED, this.acknowledgeable(p.psn));
  }

  /** The youngest entry that holds `psn`: an old one may hold the same number from before the wrap. */
  private find(psn: number): Resource | undefined {
    const n = this.resources.length;
    for (let i = 1; i <= n; i++) {
      const r = this.resources[(this.resourceAt - i + n) % n];
      const index = psnDiff(psn, r.firstPsn);
      if (index >= 0 && index < r.packets && psnDiff(this.expectedPsn, psn) > 0) return r;
    }
    return undefined;
  }

  /**
   * How far a duplicate may be acknowledged: to the last PSN carried out, but not past a READ or atomic after it, whose answer the requester
   * may not have: an acknowledge past it would tell the requester that the answer is lost.
   */
  private acknowledgeable(psn: number): number {
    let last = psnAdd(this.expectedPsn, -1);
    for (let i = 0; i < this.resources.length; i++) {
      const first = this.resources[i].firstPsn;
      if (psnDiff(first, psn) > 0 && psnDiff(first, last) <= 0) last = psnAdd(first, -1);
    }
    return last;
  }

  private reply(syndrome: number, psn: number): void {
    this.replySyndrome = syndrome;
    this.replyPsn = psn;
  }

  private negative(syndrome: number): void {
    if (syndromeClass(syndrome) === SyndromeClass.rnr) this.counters.rnrNaks++;
    else this.counters.sequenceNaks++;
    this.hasNaked = true;
    this.reply(syndrome, this.expectedPsn);
  }

  private fail(syndrome: number): void {
    this.reply(syndrome, this.expectedPsn);
    this.fatalSyndrome = syndrome;
    this.isReady = false;
    this.owner.responderFailed(syndrome === Nak.remoteAccess);
  }

  /** One answer at `b[at]`, its length, or 0. */
  next(b: Uint8Array, at: number): number {
    const r = this.pendingResources > 0 ? this.oldestPending() : undefined;
    let length = 0;
    if (this.replySyndrome !== NO_REPLY && (r === undefined || psnDiff(this.replyPsn, r.nextPsn) < 0)) {
      length = this.sendReply(b, at);
    } else if (r !== undefined) {
      length = r.isAtomic ? this.sendAtomic(r, b, at) : this.sendRead(r, b, at);
    }
    if (length > 0) {
      this.counters.packetsSent++;
      this.counters.bytesSent += length;
    }
    return length;
  }

  private oldestPending(): Resource | undefined {
    let oldest: Resource | undefined;
    for (let i = 0; i < this.resources.length; i++) {
      const r = this.resources[i];
      if (r.isPending && (oldest === undefined || psnDiff(r.firstPsn, oldest.firstPsn) < 0)) oldest = r;
    }
    return oldest;
  }

  private sendReply(b: Uint8Array, at: number): number {
    const p = this.out;
    p.opcode = Service.rc | Op.acknowledge;
    p.psn = this.replyPsn;
    p.syndrome = this.replySyndrome;
    p.msn = this.msn;
    p.payloadLength = 0;
    this.replySyndrome = NO_REPLY;
    return encodeHeaders(p, b, at) - at;
  }

  private sendAtomic(r: Resource, b: Uint8Array, at: number): number {
    const p = this.out;
    p.opcode = Service.rc | Op.atomicAcknowledge;
    p.psn = r.firstPsn;
    p.syndrome = ACK_UNLIMITED;
    p.msn = r.msn;
    p.originalHi = r.originalHi;
    p.originalLo = r.originalLo;
    p.payloadLength = 0;
    this.sent(r);
    return encodeHeaders(p, b, at) - at;
  }

  private sendRead(r: Resource, b: Uint8Array, at: number): number {
    const p = this.out;
    const index = psnDiff(r.nextPsn, r.firstPsn);
    const mtu = this.settings.mtu;
    const length = packetBytes(r.length, mtu, index);
    const runIndex = psnDiff(r.nextPsn, r.runPsn);
    p.opcode = Service.rc | readResponseOp(runIndex, r.runPackets);
    p.psn = r.nextPsn;
    p.syndrome = ACK_UNLIMITED;
    p.msn = r.msn;
    p.payloadLength = length;
    const payloadAt = encodeHeaders(p, b, at);
    if (length > 0 && !this.readMemory(r, index * mtu, length, b, payloadAt)) {
      this.abortRead(r);
      return this.sendReply(b, at);
    }
    r.nextPsn = psnAdd(r.nextPsn, 1);
    if (runIndex + 1 === r.runPackets) this.sent(r);
    return padPacket(p, b, payloadAt + length) - at;
  }

  private readMemory(r: Resource, offset: number, length: number, b: Uint8Array, at: number): boolean {
    const from = r.address + offset;
    return this.memory.check(r.key, from, length, ACCESS_REMOTE_READ) && this.memory.read(r.key, from, length, b, at);
  }

  /** The region went away while it was being read. */
  private abortRead(r: Resource): void {
    for (const other of this.resources) other.isPending = false;
    this.pendingResources = 0;
    const failing = r.nextPsn;
    if (this.isReady) this.fail(Nak.remoteAccess);
    this.reply(Nak.remoteAccess, failing);
  }

  private sent(r: Resource): void {
    r.isPending = false;
    r.isAnswered = true;
    this.pendingResources--;
  }
}
