/**
 * The data path of a device: packets in, packets out, timers; whoever owns the socket at the moment runs it.
 *
 *     packets in (a batch) ──> endpoints        timers that are due ──> endpoints
 *     ready endpoints ──> packets out (a batch), in turns
 *
 * Usual packets of reliable connections are carried out in C (fast-path.ts); the others, and all other services, by the machines of transport/. The
 * machine of a connection takes its values from shared memory when it is touched and puts them back when the turn is over.
 *
 * Nearly always that is the engine's thread (engine.ts). A program that polls without pause runs it in its own thread (inline-engine.ts):
 * then nothing has to be handed from thread to thread.
 */

import { performance } from 'node:perf_hooks';
import type { Addon } from '../../../native/addon.js';
import { CM_QP } from '../../transport/cm-messages.js';
import { EventQueue } from '../../transport/event-queue.js';
import { NO_IDENTIFICATION, solveIdentification } from '../../transport/icrc.js';
import { OPCODE_CNP, Service } from '../../transport/opcode.js';
import { DecodeError, decodePacket, Packet } from '../../transport/packet.js';
import { RcEndpoint } from '../../transport/rc-endpoint.js';
import { MULTICAST_QP, UdEndpoint } from '../../transport/ud-endpoint.js';
import { answerPort } from './address.js';
import { AddressTable } from './address-memory.js';
import type { CompletionRing } from './completion-ring.js';
import { RoceCounters } from './counters.js';
import type { EngineQueuePair } from './engine-queue-pair.js';
import { BATCH, FastPath, MESSAGES, Sent, SLOT, WORDS } from './fast-path.js';
import { Groups } from './groups.js';
import type { End, EngineData, Notice } from './messages.js';
import { type Path, Paths } from './paths.js';
import { countersAsNumbers, SHARE_NUMBERS, SHOW_EVERY_NS, shareOffset } from './status-page.js';
import { Switchboard } from './switchboard.js';

const ICRC_BYTES = 4;

/** Packets that one queue pair sends before it is the next one's turn. */
const TURN = 32;
/** Numbers of DC contexts start here; the program gives the ones below to queue pairs. */
const FIRST_CONTEXT = 0x800000;
const LAST_NUMBER = 0xfffffe;
/** The partition that every queue pair is in; the top bit is full membership. */
const PARTITION = 0x7fff;

/** ECN bits of a packet that has met congestion. */
const CONGESTED = 3;

export abstract class DataPath {
  readonly data: EngineData;
  readonly counters = new RoceCounters();
  readonly addon: Addon;
  readonly fast: FastPath;
  protected readonly board: Switchboard;
  protected readonly paths = new Paths();
  protected readonly bySlot: (EngineQueuePair | undefined)[] = [];
  protected readonly byNumber = new Map<number, EngineQueuePair>();
  protected readonly groups: Groups;
  protected readonly table: AddressTable;
  protected timers = new EventQueue<EngineQueuePair>();
  protected readonly rx: Uint8Array;
  protected readonly rxWords: Uint32Array;
  protected readonly tx: Uint8Array;
  protected txCount = 0;
  protected nowNs = 0;
  protected mustRing = false;
  /** Queue pairs that may have something to send: the first `readyCount`. Shortening an array costs more than counting. */
  private ready: EngineQueuePair[] = [];
  private readyNext: EngineQueuePair[] = [];
  private readyCount = 0;
  private readonly overrunQueues: CompletionRing[] = [];
  /** Queue pairs whose machines have their values: the first `touchedCount`. */
  private readonly touched: EngineQueuePair[] = [];
  private touchedCount = 0;
  private readonly packet = new Packet();
  private readonly txWords: Uint32Array;
  private readonly isIpv4: boolean;
  /** Messages to ask for: few while few come, because room for many takes longer to prepare. */
  private rxRoom = 1;
  /** Which part of the status page is this thread's. */
  private readonly share: number;
  private readonly shown = new Float64Array(SHARE_NUMBERS);
  private readonly shownAddress: number;
  private showAtNs = 0;
  private nextContext = FIRST_CONTEXT;
  private tokens = 0;

  constructor(data: EngineData, addon: Addon, command: ArrayBuffer, share: number) {
    this.data = data;
    this.addon = addon;
    this.board = new Switchboard(data.board);
    this.table = new AddressTable(addon, command);
    this.groups = new Groups(addon, data.datagram);
    this.isIpv4 = data.address.length === 4;
    this.fast = new FastPath(addon, this.table.command, data.datagram);
    this.table.onMove = (regions, count) => this.fast.setRegions(regions, count);
    this.table.tellPlace();
    this.rx = this.fast.rx;
    this.rxWords = this.fast.rxWords;
    this.tx = this.fast.tx;
    this.txWords = this.fast.txWords;
    this.share = share;
    this.shownAddress = addon.addressOf(this.shown);
  }

  /** A packet of connection management, in slot `i` of the batch. */
  protected abstract managed(i: number, packet: Packet): void;

  protected readClock(): void {
    this.nowNs = now();
  }

  /** Tells the program something. */
  abstract notice(notice: Notice): void;

  // ---- packets in ----

  /** Takes the packets that are there. Returns how many. */
  protected receive(): number {
    const first = this.fast.receive(this.rxRoom);
    const count = this.fast.packets;
    this.rxRoom = count === 0 ? 1 : Math.min(MESSAGES, 2 * this.rxRoom);
    if (count > 0) this.carryOut(first);
    return count;
  }

  /** Deals with a batch whose packets before `first` C has carried out. */
  protected carryOut(first: number): void {
    const { fast } = this;
    const count = fast.packets;
    this.nowNs = fast.nowNs;
    for (let i = first; i < count; i = fast.continue(i + 1)) this.arrived(i);
    for (let k = 0; k < fast.readyCount; k++) {
      const qp = this.bySlot[fast.ready(k)];
      if (qp !== undefined) this.markReady(qp);
    }
    if (fast.takeRing()) this.mustRing = true;
  }

  private arrived(i: number): void {
    const { counters, packet: p, rx, rxWords } = this;
    const w = i * WORDS;
    const at = rxWords[w + 8];
    const end = at + rxWords[w] - ICRC_BYTES;
    if (rxWords[w] === 0) {
      counters.malformed++;
      return;
    }
    if (!this.isIntact(at, end, rxWords[w + 2], rxWords[w + 9] !== 0)) return;
    if (decodePacket(rx, at, end, p) !== DecodeError.ok) {
      counters.malformed++;
      return;
    }
    if (rxWords[w + 3] === CONGESTED) counters.congestionMarks++;
    if ((p.partitionKey & PARTITION) !== PARTITION) {
      counters.wrongPartition++;
      return;
    }
    if (p.opcode === OPCODE_CNP) {
      counters.congestionNotices++;
      const slowed = this.byNumber.get(p.destQp);
      if (slowed?.record.type === 'RC') this.deliver(slowed, w);
      return;
    }
    if (p.destQp === CM_QP) {
      this.managed(i, p);
      return;
    }
    if (rxWords[w + 10] !== 0) {
      this.toGroup(w);
      return;
    }
    const qp = this.byNumber.get(p.destQp);
    if (qp?.endpoint === undefined || !qp.takes(p.opcode & 0xe0)) {
      counters.unknownQueuePair++;
      return;
    }
    this.deliver(qp, w);
  }

  /** A datagram to a multicast group: every member gets it. */
  private toGroup(w: number): void {
    const { packet } = this;
    if (packet.destQp !== MULTICAST_QP || (packet.opcode & 0xe0) !== Service.ud) this.counters.unknownQueuePair++;
    else for (const qp of this.groups.members(this.rxWords[w + 10])) this.deliver(qp, w);
  }

  private deliver(qp: EngineQueuePair, w: number): void {
    const { packet, rx, rxWords } = this;
    const { endpoint } = qp;
    if (endpoint === undefined) return;
    if (qp.isFailed) this.counters.errorState++;
    let source = 0;
    if (qp.isConnected) {
      if (!qp.peer?.matches(rxWords, w)) {
        this.counters.wrongSource++;
        return;
      }
    } else if (endpoint instanceof UdEndpoint) {
      this.fillRouteHeader(endpoint.routeHeader, w);
    } else {
      const path = this.sourceOf(w);
      if (path === undefined) return;
      source = path.index;
    }
    this.touch(qp);
    if (rxWords[w + 3] === CONGESTED && endpoint instanceof RcEndpoint) endpoint.marked(this.nowNs);
    endpoint.receive(packet, rx, this.nowNs, source);
    this.markReady(qp);
  }

  /**
   * Whether the ICRC is right. The socket does not tell the identification of an IPv4 packet, which the ICRC covers: ours is 0; that of
   * another one is known where this process may ask for it; elsewhere it is enough that some identification makes the ICRC right, and that
   * is counted apart.
   */
  private isIntact(at: number, end: number, computed: number, isKnown: boolean): boolean {
    const { rx, counters } = this;
    const received = (rx[end] | (rx[end + 1] << 8) | (rx[end + 2] << 16) | (rx[end + 3] << 24)) >>> 0;
    if (computed === received) return true;
    // Of what the ICRC covers, 14 bytes of the IPv4 header and 8 of UDP stand between the identification and the packet.
    if (this.isIpv4 && !isKnown && solveIdentification(computed, received, end - at + 8 + 14) !== NO_IDENTIFICATION) {
      counters.assumedIcrc++;
      return true;
    }
    counters.badIcrc++;
    return false;
  }

  protected sourceOf(w: number): Path | undefined {
    const bytes = new Uint8Array(this.rxWords.buffer, (w + 4) * 4, this.isIpv4 ? 4 : 16).slice();
    const path = this.paths.to({ address: bytes, port: answerPort(this.rxWords[w + 1]) });
    if (path === undefined) this.counters.dropped++;
    return path;
  }

  /** The route header of a datagram: the IPv6 header, or the IPv4 header in its second half. */
  private fillRouteHeader(h: Uint8Array, w: number): void {
    const { rxWords, data } = this;
    const udpBytes = rxWords[w] + 8;
    const address = new Uint8Array(rxWords.buffer, (w + 4) * 4, data.address.length);
    const own = rxWords[w + 10] === 0 ? data.address : this.groups.address(rxWords[w + 10]);
    h.fill(0);
    if (this.isIpv4) {
      h.set([0x45, 0, (udpBytes + 20) >> 8, (udpBytes + 20) & 255, 0, 0, 0x40, 0, 64, 17, 0, 0], 20);
      h.set(address, 32);
      h.set(own, 36);
    } else {
      h.set([0x60, 0, 0, 0, udpBytes >> 8, udpBytes & 255, 17, 64], 0);
      h.set(address, 8);
      h.set(own, 24);
    }
  }

  // ---- packets out ----

  /** The queue pair may have something to send. */
  markReady(qp: EngineQueuePair): void {
    if (qp.isReady) return;
    qp.isReady = true;
    this.ready[this.readyCount++] = qp;
  }

  /** The machine of a queue pair is going to be used. */
  touch(qp: EngineQueuePair): void {
    if (qp.isTouched) return;
    qp.isTouched = true;
    qp.takeState();
    this.touched[this.touchedCount++] = qp;
  }

  /** The turn is over: machines put their values back. */
  protected finish(): void {
    if (this.overrunQueues.length > 0) this.stopOverrun();
    for (let i = 0; i < this.touchedCount; i++) {
      this.touched[i].isTouched = false;
      this.touched[i].putState();
    }
    this.touchedCount = 0;
    this.show();
    this.ringNow();
  }

  protected clearReady(): void {
    this.readyCount = 0;
  }

  protected get hasReady(): boolean {
    return this.readyCount > 0;
  }

  protected transmit(): boolean {
    const turn = this.ready;
    const count = this.readyCount;
    if (count === 0) return this.txCount > 0 && this.flush();
    this.ready = this.readyNext;
    this.readyCount = 0;
    for (let i = 0; i < count; i++) {
      const qp = turn[i];
      if (this.serveTurn(qp, i === count - 1)) this.ready[this.readyCount++] = qp;
      else qp.isReady = false;
      this.setTimer(qp);
    }
    this.readyNext = turn;
    if (this.txCount > 0) this.flush();
    return true;
  }

  /** Lets a queue pair send; after the last one the batch may leave. True when it may have more. */
  private serveTurn(qp: EngineQueuePair, isLast: boolean): boolean {
    const { tx, fast } = this;
    if (qp.fast !== undefined && !qp.isTouched) {
      if (this.txCount === BATCH) this.flush();
      const sent = fast.send(qp.fast, TURN, this.txCount, isLast);
      this.txCount = fast.batched;
      this.nowNs = fast.nowNs;
      if (sent !== Sent.unknown) return sent === Sent.some;
    }
    if (qp.endpoint === undefined) return false;
    this.touch(qp);
    for (let n = 0; n < TURN; n++) {
      if (qp.endpoint === undefined) return false;
      if (this.txCount === BATCH) this.flush();
      const length = qp.endpoint.next(tx, this.txCount * SLOT, this.nowNs);
      if (length === 0) return false;
      this.address(qp.peer ?? this.paths.get(qp.endpoint.destination), length);
    }
    return true;
  }

  /** The packet in the present slot goes to `path`. */
  protected address(path: Path, length: number): void {
    const { txWords } = this;
    const w = this.txCount * WORDS;
    txWords[w] = length;
    txWords[w + 1] = path.end.port;
    txWords[w + 4] = path.words[0];
    txWords[w + 5] = path.words[1];
    txWords[w + 6] = path.words[2];
    txWords[w + 7] = path.words[3];
    this.txCount++;
  }

  protected get isBatchFull(): boolean {
    return this.txCount === BATCH;
  }

  protected flush(): true {
    this.fast.leave(this.txCount);
    this.txCount = 0;
    return true;
  }

  // ---- counters ----

  /** Shows the counters on the status page, when it is time. */
  protected show(): void {
    if (this.nowNs < this.showAtNs) return;
    this.showNow();
  }

  protected showNow(): void {
    this.showAtNs = this.nowNs + SHOW_EVERY_NS;
    this.fast.count(this.counters);
    countersAsNumbers(this.counters, this.shown);
    this.table.copy(this.data.statusPage + shareOffset(this.share), this.shownAddress, 8 * SHARE_NUMBERS);
  }

  /** A copy of the counters. */
  counted(): RoceCounters {
    this.fast.count(this.counters);
    return { ...this.counters };
  }

  // ---- timers ----

  protected setTimer(qp: EngineQueuePair): void {
    const { deadline } = qp;
    if (deadline >= qp.timerAt) return;
    qp.timerAt = deadline;
    this.timers.push(deadline, qp);
  }

  protected tick(): boolean {
    const { timers, nowNs } = this;
    let did = false;
    while (timers.nextTime <= nowNs) {
      const time = timers.nextTime;
      const qp = timers.pop();
      if (time !== qp.timerAt) continue;
      qp.timerAt = Number.POSITIVE_INFINITY;
      if (qp.deadline <= nowNs && qp.endpoint !== undefined) {
        this.touch(qp);
        qp.endpoint.tick(nowNs);
      }
      this.markReady(qp);
      did = true;
    }
    return did;
  }

  // ---- to the program ----

  ringBell(): void {
    this.mustRing = true;
  }

  /** Rings the program's bell, if anybody asked for it. */
  protected ringNow(): void {
    if (!this.mustRing) return;
    this.mustRing = false;
    if (!this.board.takeBell()) return;
    this.table.command[0] = this.data.bell;
    this.addon.ring();
    this.counters.systemCalls++;
  }

  /** A completion queue is full: its queue pairs stop, when nobody is in the middle of anything. */
  overran(cq: CompletionRing): void {
    this.overrunQueues.push(cq);
  }

  private stopOverrun(): void {
    for (let cq = this.overrunQueues.pop(); cq; cq = this.overrunQueues.pop()) {
      const words = `a completion queue of ${cq.depth} entries overran: poll more often or make it deeper`;
      this.notice({ kind: 'event', type: 'CQ_ERR', words });
      for (const qp of this.bySlot) if (qp && (qp.sendCq === cq || qp.recvCq === cq)) qp.stop();
    }
  }

  protected pathTo(end: End): Path {
    if (end.address.length !== this.data.address.length) {
      throw new Error(`the peer has an IPv${this.isIpv4 ? 6 : 4} address and this device an IPv${this.isIpv4 ? 4 : 6} one`);
    }
    const path = this.paths.to(end);
    if (path === undefined) throw new Error('the device has met too many addresses: open another one');
    return path;
  }

  /** A number for a DC context; one that was released is not used again for long. Returns -1 when there is none. */
  allocateNumber(qp: EngineQueuePair): number {
    for (let tries = FIRST_CONTEXT; tries < LAST_NUMBER; tries++) {
      this.nextContext = this.nextContext >= LAST_NUMBER ? FIRST_CONTEXT : this.nextContext + 1;
      if (this.byNumber.has(this.nextContext)) continue;
      this.byNumber.set(this.nextContext, qp);
      return this.nextContext;
    }
    return -1;
  }

  releaseNumber(number: number): void {
    this.byNumber.delete(number);
  }

  /** Where the tokens of a new DC initiator start. */
  newToken(): number {
    this.tokens = (this.tokens + 0x100000) >>> 0;
    return this.tokens;
  }
}

/** From the clock that `performance` has in this thread to the monotonic one, which all threads share, milliseconds. */
const OFFSET_MS = Number(process.hrtime.bigint()) / 1e6 - performance.now();

/** Nanoseconds of the monotonic clock. */
export function now(): number {
  return Math.floor((performance.now() + OFFSET_MS) * 1e6);
}
