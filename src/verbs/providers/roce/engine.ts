/**
 * The engine: owns the socket, runs the transport's state machines and moves the bytes, on a thread of its own. The program's thread may
 * compute, sleep or collect garbage meanwhile: what peers read and write here does not need it.
 *
 *     loop:  packets in (a batch)  ──>  endpoints
 *            commands, doorbells   ──>  endpoints become ready
 *            timers that are due   ──>  endpoints
 *            ready endpoints       ──>  packets out (a batch), in turns
 *            nothing to do         ──>  look again for a while, then sleep until a packet, a doorbell or a timer
 *
 * A batch that has come in is worked off before answers go out, so that acknowledges coalesce.
 */

import type { MessagePort } from 'node:worker_threads';
import { receiveMessageOnPort } from 'node:worker_threads';
import type { Addon } from '../../../native/addon.js';
import { CmAgent, type CmHost } from '../../transport/cm-agent.js';
import { CM_QP, type CmRep, type CmReq } from '../../transport/cm-messages.js';
import { EventQueue } from '../../transport/event-queue.js';
import { NO_IDENTIFICATION, solveIdentification } from '../../transport/icrc.js';
import { OPCODE_CNP } from '../../transport/opcode.js';
import { DecodeError, decodePacket, Packet } from '../../transport/packet.js';
import { UdEndpoint } from '../../transport/ud-endpoint.js';
import { answerPort } from './address.js';
import { AddressTable } from './address-memory.js';
import { CompletionRing } from './completion-ring.js';
import { RoceCounters } from './counters.js';
import { EngineQueuePair } from './engine-queue-pair.js';
import type { Answer, Command, End, EngineData, Notice } from './messages.js';
import { type Path, Paths } from './paths.js';
import { SharedReceiveMemory } from './shared-receive-memory.js';
import { Switchboard } from './switchboard.js';

/** As in native/datagram.h. */
const SLOT = 4608;
const BATCH = 64;
const WORDS = 8;
const SMALL_BATCH = 4;
const ICRC_BYTES = 4;

/** Packets that one queue pair sends before it is the next one's turn. */
const TURN = 32;
/** Numbers of DC contexts start here; the program gives the ones below to queue pairs. */
const FIRST_CONTEXT = 0x800000;
const LAST_NUMBER = 0xfffffe;
/** Longest sleep, so that a thread that is to end by force notices it, microseconds. */
const LONGEST_SLEEP_US = 500_000;
/** The partition that every queue pair is in; the top bit is full membership. */
const PARTITION = 0x7fff;

const EAGAIN = 11;
const EMSGSIZE = 90;
/** How often a batch is offered to a socket that has no room before it counts as lost. */
const OFFERS = 100;

export class Engine implements CmHost {
  readonly data: EngineData;
  readonly counters = new RoceCounters();
  private readonly addon: Addon;
  private readonly commandPort: MessagePort;
  private readonly noticePort: MessagePort;
  private readonly board: Switchboard;
  private readonly table: AddressTable;
  private readonly paths = new Paths();
  private readonly agent: CmAgent;
  private readonly cqs = new Map<number, CompletionRing>();
  private readonly srqs = new Map<number, SharedReceiveMemory>();
  private readonly bySlot: (EngineQueuePair | undefined)[] = [];
  private readonly byNumber = new Map<number, EngineQueuePair>();
  private readonly timers = new EventQueue<EngineQueuePair>();
  private ready: EngineQueuePair[] = [];
  private readyNext: EngineQueuePair[] = [];
  private readonly overrunQueues: CompletionRing[] = [];
  private readonly packet = new Packet();
  private readonly rx = new Uint8Array(SLOT * BATCH);
  private readonly tx = new Uint8Array(SLOT * BATCH);
  private readonly rxWords = new Uint32Array(WORDS * BATCH);
  private readonly txWords = new Uint32Array(WORDS * BATCH);
  private readonly rxAddress: number;
  private readonly txAddress: number;
  private readonly rxWordsAddress: number;
  private readonly txWordsAddress: number;
  private readonly isIpv4: boolean;
  /** Packets to ask for: few while few come, because room for many takes longer to prepare. */
  private rxRoom = SMALL_BATCH;
  private txCount = 0;
  private nowNs = 0;
  private nextContext = FIRST_CONTEXT;
  private tokens = 0;
  private isAgentReady = false;
  private mustRing = false;
  private isClosing = false;
  private spinNs: number;
  /** False after a sleep that something else than a packet ended. */
  private mayHavePackets = true;

  constructor(data: EngineData, addon: Addon, commandPort: MessagePort, noticePort: MessagePort) {
    this.data = data;
    this.addon = addon;
    this.commandPort = commandPort;
    this.noticePort = noticePort;
    this.board = new Switchboard(data.board);
    this.table = new AddressTable(addon, addon.command());
    this.table.onInvalidate = (key) => this.notice({ kind: 'invalidated', key });
    this.agent = new CmAgent(this, data.seed);
    this.isIpv4 = data.address.length === 4;
    this.rxAddress = addon.addressOf(this.rx.buffer);
    this.txAddress = addon.addressOf(this.tx.buffer);
    this.rxWordsAddress = addon.addressOf(this.rxWords.buffer);
    this.txWordsAddress = addon.addressOf(this.txWords.buffer);
    this.spinNs = data.spinUs * 1000;
  }

  /** Works until the device is closed. */
  run(): void {
    let idleSince = 0;
    while (!this.isClosing && !this.board.isStopped) {
      this.nowNs = now();
      let isBusy = this.mayHavePackets && this.receive();
      this.mayHavePackets = true;
      if (this.board.takeCommand()) isBusy = this.serve();
      for (let slot = this.board.takeDoorbell(); slot >= 0; slot = this.board.takeDoorbell()) {
        this.bySlot[slot]?.rung();
        isBusy = true;
      }
      if (this.tick()) isBusy = true;
      if (this.transmit()) isBusy = true;
      this.stopOverrun();
      if (this.mustRing) this.ringNow();
      if (isBusy) {
        if (idleSince !== 0) this.spinNs = Math.min(this.data.spinUs * 1000, this.spinNs * 2 + 1000);
        idleSince = 0;
      } else if (idleSince === 0) {
        idleSince = this.nowNs;
      } else if (this.nowNs - idleSince >= this.spinNs) {
        this.spinNs >>= 1;
        this.sleep();
        idleSince = 0;
      }
    }
  }

  private sleep(): void {
    if (!this.board.fallAsleep()) return;
    const { command } = this.table;
    const due = Math.min(this.timers.nextTime, this.agent.deadline);
    command[0] = this.data.datagram;
    command[1] = Math.max(0, Math.min(LONGEST_SLEEP_US, (due - now()) / 1000));
    command[2] = 1;
    this.addon.datagramWait();
    this.mayHavePackets = command[4] !== 0;
    this.counters.systemCalls++;
    this.board.awake();
  }

  // ---- packets in ----

  private receive(): boolean {
    const { command } = this.table;
    command[0] = this.data.datagram;
    command[1] = this.rxAddress;
    command[2] = this.rxWordsAddress;
    command[3] = this.rxRoom;
    this.addon.datagramReceive();
    this.counters.systemCalls++;
    const count = command[4];
    if (count === this.rxRoom) this.rxRoom = BATCH;
    else if (count < SMALL_BATCH) this.rxRoom = SMALL_BATCH;
    for (let i = 0; i < count; i++) this.arrived(i);
    return count > 0;
  }

  private arrived(i: number): void {
    const { counters, packet: p, rx, rxWords } = this;
    const w = i * WORDS;
    const at = i * SLOT;
    const end = at + rxWords[w] - ICRC_BYTES;
    if (rxWords[w] === 0) {
      counters.malformed++;
      return;
    }
    if (!this.isIntact(at, end, rxWords[w + 2])) return;
    if (decodePacket(rx, at, end, p) !== DecodeError.ok) {
      counters.malformed++;
      return;
    }
    if (rxWords[w + 3] === 3) counters.congestionMarks++;
    if ((p.partitionKey & PARTITION) !== PARTITION) {
      counters.wrongPartition++;
      return;
    }
    if (p.opcode === OPCODE_CNP) {
      counters.congestionNotices++;
      return;
    }
    if (p.destQp === CM_QP) {
      const source = this.sourceOf(w);
      if (source !== undefined) this.agent.receive(p, rx, this.nowNs, source.index);
      this.isAgentReady = true;
      return;
    }
    const qp = this.byNumber.get(p.destQp);
    if (qp?.endpoint === undefined || !qp.takes(p.opcode & 0xe0)) {
      counters.unknownQueuePair++;
      return;
    }
    this.deliver(qp, w);
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
    endpoint.receive(packet, rx, this.nowNs, source);
    this.markReady(qp);
  }

  /**
   * Whether the ICRC is right. The socket does not tell the identification of an IPv4 packet, which the ICRC covers: ours is 0, and for
   * another one it is enough that some identification makes it right; that is counted apart.
   */
  private isIntact(at: number, end: number, computed: number): boolean {
    const { rx, counters } = this;
    const received = (rx[end] | (rx[end + 1] << 8) | (rx[end + 2] << 16) | (rx[end + 3] << 24)) >>> 0;
    if (computed === received) return true;
    // Of what the ICRC covers, 14 bytes of the IPv4 header and 8 of UDP stand between the identification and the packet.
    if (this.isIpv4 && solveIdentification(computed, received, end - at + 8 + 14) !== NO_IDENTIFICATION) {
      counters.assumedIcrc++;
      return true;
    }
    counters.badIcrc++;
    return false;
  }

  private sourceOf(w: number): Path | undefined {
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
    h.fill(0);
    if (this.isIpv4) {
      h.set([0x45, 0, (udpBytes + 20) >> 8, (udpBytes + 20) & 255, 0, 0, 0x40, 0, 64, 17, 0, 0], 20);
      h.set(address, 32);
      h.set(data.address, 36);
    } else {
      h.set([0x60, 0, 0, 0, udpBytes >> 8, udpBytes & 255, 17, 64], 0);
      h.set(address, 8);
      h.set(data.address, 24);
    }
  }

  // ---- packets out ----

  /** The queue pair may have something to send. */
  markReady(qp: EngineQueuePair): void {
    if (qp.isReady) return;
    qp.isReady = true;
    this.ready.push(qp);
  }

  private transmit(): boolean {
    if (this.isAgentReady) this.transmitAgent();
    const turn = this.ready;
    if (turn.length === 0) return this.txCount > 0 && this.flush();
    this.ready = this.readyNext;
    for (let i = 0; i < turn.length; i++) {
      const qp = turn[i];
      if (this.serveTurn(qp)) this.ready.push(qp);
      else qp.isReady = false;
      this.setTimer(qp);
    }
    turn.length = 0;
    this.readyNext = turn;
    if (this.txCount > 0) this.flush();
    return true;
  }

  /** Lets a queue pair send. True when it may have more. */
  private serveTurn(qp: EngineQueuePair): boolean {
    const { tx } = this;
    for (let n = 0; n < TURN; n++) {
      if (qp.endpoint === undefined) return false;
      if (this.txCount === BATCH) this.flush();
      const length = qp.endpoint.next(tx, this.txCount * SLOT, this.nowNs);
      if (length === 0) return false;
      this.address(qp.peer ?? this.paths.get(qp.endpoint.destination), length);
    }
    return true;
  }

  private transmitAgent(): void {
    this.isAgentReady = false;
    for (;;) {
      if (this.txCount === BATCH) this.flush();
      const length = this.agent.next(this.tx, this.txCount * SLOT);
      if (length === 0) return;
      this.address(this.paths.get(this.agent.destination), length);
    }
  }

  /** The packet in the present slot goes to `path`. */
  private address(path: Path, length: number): void {
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

  /** Hands the batch to the kernel. What it does not take is lost, as on any network; the transport sends it again. */
  private flush(): true {
    const { command } = this.table;
    const { counters } = this;
    let done = 0;
    for (let offers = 0; done < this.txCount; ) {
      command[0] = this.data.datagram;
      command[1] = this.txAddress + done * SLOT;
      command[2] = this.txWordsAddress + done * WORDS * 4;
      command[3] = this.txCount - done;
      this.addon.datagramSend();
      counters.systemCalls++;
      done += command[4];
      const errno = command[5];
      if (errno === 0) continue;
      if (errno === EAGAIN && ++offers < OFFERS) continue;
      if (errno === EMSGSIZE) counters.tooLong++;
      counters.sendErrors++;
      done++;
    }
    this.txCount = 0;
    return true;
  }

  // ---- timers ----

  private setTimer(qp: EngineQueuePair): void {
    const deadline = qp.endpoint?.deadline ?? Number.POSITIVE_INFINITY;
    if (deadline >= qp.timerAt) return;
    qp.timerAt = deadline;
    this.timers.push(deadline, qp);
  }

  private tick(): boolean {
    const { timers, nowNs, agent } = this;
    let did = false;
    while (timers.nextTime <= nowNs) {
      const time = timers.nextTime;
      const qp = timers.pop();
      if (time !== qp.timerAt) continue;
      qp.timerAt = Number.POSITIVE_INFINITY;
      if (qp.endpoint === undefined) continue;
      if (qp.endpoint.deadline <= nowNs) qp.endpoint.tick(nowNs);
      this.markReady(qp);
      did = true;
    }
    if (agent.size > 0 && agent.deadline <= nowNs) {
      agent.tick(nowNs);
      this.isAgentReady = true;
      did = true;
    }
    return did;
  }

  // ---- to the program ----

  notice(notice: Notice): void {
    this.noticePort.postMessage(notice);
    this.board.announceNotice();
    this.mustRing = true;
  }

  ringBell(): void {
    this.mustRing = true;
  }

  private ringNow(): void {
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

  // ---- commands ----

  private serve(): true {
    const received = receiveMessageOnPort(this.commandPort);
    let answer: Answer;
    try {
      answer = { value: this.execute(received?.message as Command) };
    } catch (error) {
      answer = { error: (error as Error).message };
    }
    if (this.mustRing) this.ringNow();
    this.commandPort.postMessage(answer);
    this.board.announceAnswer();
    return true;
  }

  private execute(c: Command): unknown {
    switch (c.kind) {
      case 'createCq':
        this.cqs.set(c.cq, new CompletionRing(c.depth, c.buffer));
        return undefined;
      case 'closeCq':
        this.cqs.delete(c.cq);
        return undefined;
      case 'createSrq':
        this.srqs.set(c.srq, new SharedReceiveMemory(c.options, c.buffer));
        return undefined;
      case 'closeSrq':
        this.srqs.delete(c.srq);
        return undefined;
      case 'createQp': {
        const { record } = c;
        const [sendCq, recvCq] = [this.cqs.get(record.sendCq), this.cqs.get(record.recvCq)] as [CompletionRing, CompletionRing];
        const qp = new EngineQueuePair(this, record, this.table.view(record.domain), sendCq, recvCq, this.srqs.get(record.srq));
        this.bySlot[record.slot] = qp;
        this.byNumber.set(record.qpNum, qp);
        return undefined;
      }
      case 'closeQp': {
        const qp = this.bySlot[c.slot];
        if (qp === undefined) return undefined;
        qp.close();
        this.byNumber.delete(qp.record.qpNum);
        this.bySlot[c.slot] = undefined;
        return undefined;
      }
      case 'modify':
        this.bySlot[c.slot]?.modify(c.from, c.to, c.attributes, c.changed, c.peer && this.pathTo(c.peer));
        return undefined;
      case 'stop':
        this.bySlot[c.slot]?.stop();
        return undefined;
      case 'register':
        this.table.register(c.region);
        return undefined;
      case 'revoke':
        return this.table.revoke(c.key);
      case 'path':
        return this.pathTo(c.end).index;
      case 'counters':
        return { ...this.counters };
      case 'close':
        this.close();
        return { ...this.counters };
      default:
        return this.manage(c);
    }
  }

  private manage(c: Extract<Command, { kind: 'listen' | 'unlisten' | 'connect' | 'accept' | 'reject' | 'disconnect' }>): unknown {
    const { agent, nowNs } = this;
    this.isAgentReady = true;
    switch (c.kind) {
      case 'listen':
        return agent.listen(c.serviceId);
      case 'unlisten':
        return agent.unlisten(c.serviceId);
      case 'connect':
        return agent.connect(this.pathTo(c.end).index, c.request, nowNs);
      case 'accept':
        return agent.accept(c.id, c.reply, nowNs);
      case 'reject':
        return agent.reject(c.id, nowNs, c.privateData, c.reason);
      case 'disconnect':
        return agent.disconnect(c.id, nowNs);
    }
  }

  private pathTo(end: End): Path {
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

  private close(): void {
    this.isClosing = true;
    if (this.isAgentReady) this.transmitAgent();
    if (this.txCount > 0) this.flush();
  }

  // ---- what connection management reports ----

  connectRequest(id: number, request: CmReq, source: number): void {
    this.notice({ kind: 'connectRequest', id, request, end: this.paths.get(source).end });
  }

  established(id: number, reply: CmRep | undefined): void {
    this.notice({ kind: 'established', id, reply });
  }

  rejected(id: number, reason: number, privateData: Uint8Array): void {
    this.notice({ kind: 'rejected', id, reason, privateData: Uint8Array.from(privateData) });
  }

  disconnected(id: number): void {
    this.notice({ kind: 'disconnected', id });
  }
}

/** Nanoseconds of the monotonic clock. */
function now(): number {
  return Math.floor(performance.now() * 1e6);
}
