/**
 * The requester of a reliable connection: turns send requests into packets and answers into completions.
 *
 *              post                    last answer
 *     IDLE ───────────> SENDING ───────────────────────> IDLE          (one state "ready"; what runs is told by four marks)
 *
 *              ┌────────────── ACK: una moves, requests complete, retries are full again
 *              │   ┌────────── NAK sequence error, implied NAK, timeout: one retry less, back to una (go-back-N)
 *     ready ◄──┴───┴── RNR NAK: one RNR retry less, wait, back to una
 *       │  drain()                        any fatal NAK, no retries left, local fault
 *       ├───────────> draining ──────────────────────────┐
 *       └────────────────────────────────────────────────┴──> error: the head request gets the status, all others flush
 *
 *     PSN:    una                cursorPsn            maxSent            nextPsn
 *              v                    v                    v                  v
 *     ─ acked ─┼─ sent, unanswered ─┼─ sent once, to be ─┼─ given to a ─────┼─ free
 *              │                    │  sent again        │  request, unsent │
 *
 * `una` lies in the request at the queue's head, because requests complete in order. Going back is `cursorPsn = una`. An answer for a
 * PSN past an unfinished READ says that the READ's own answer was lost: an implied NAK. At most one NAK per `una` and attempt is acted on,
 * so that late or duplicated answers do not use up retries.
 *
 * Loss means that somebody's queue was full: a NAK halves the number of packets that may be outstanding, a timeout makes it one, and it
 * grows by one for every full window that is acknowledged.
 *
 * READ responses are placed by PSN, not by arrival, so a replay that starts in the middle needs no special case.
 */

import { ACCESS_LOCAL_WRITE } from '../access.js';
import { STATUS } from '../status.js';
import { NEVER, type TransportCounters, type TransportHost } from './host.js';
import type { TransportMemory } from './memory.js';
import { Flag, Service } from './opcode.js';
import { encodeHeaders, Packet, padPacket } from './packet.js';
import { PSN_HALF, psnAdd, psnDiff } from './psn.js';
import type { RcSettings } from './rc-settings.js';
import { fillAtomic, fillData, fillRead, RDMA_READ } from './request-packet.js';
import { MAX_MESSAGE_BYTES, packetBytes, packetCount } from './segmentation.js';
import { SendFlag, type SendQueue } from './send-queue.js';
import { seqAdd } from './sequence.js';
import type { StateCopy } from './state-copy.js';
import { Nak, SyndromeClass, syndromeClass } from './syndrome.js';
import { ACK_TIMEOUT_NS, patience, RNR_DELAY_NS } from './timing.js';

const RequesterState = { ready: 0, draining: 1, drained: 2, error: 3 } as const;

const ENDLESS_RNR = 7;
const ANY_QP = -1;
/** Packets that congestion notifications leave: with fewer, many senders at one short queue only lose in turns. */
const NOTIFIED_WINDOW = 4;
const DEFAULT_WINDOW = 256;
/** An acknowledge is asked for at least this often inside a long message. */
const PACKETS_PER_ACK = 32;

/** Says that a request failed and the queue pair must stop: the owner flushes both queues and reports. */
export interface RequesterOwner {
  requesterFailed(): void;
  sendQueueDrained(): void;
}

export class RcRequester {
  /** When `tick` wants to be called. */
  deadline = NEVER;
  /** Packets outstanding at most; a provider may change it. */
  window: number;
  /** Packets outstanding at most for now: less after every loss, one more for every full one that is acknowledged. */
  private allowed: number;
  private ackedSince = 0;

  private readonly queue: SendQueue;
  private readonly memory: TransportMemory;
  private readonly host: TransportHost;
  private readonly owner: RequesterOwner;
  private readonly counters: TransportCounters;
  private readonly settings: RcSettings;
  private readonly out = new Packet();
  private readonly scratch = new Uint8Array(8);

  private state: number = RequesterState.ready;
  private una = 0;
  private cursorPsn = 0;
  private maxSent = 0;
  private nextPsn = 0;
  /** Request that `cursorPsn` lies in or, when all started ones are sent, the next to start. */
  private cursor = 0;
  /** First request that has no PSNs yet. */
  private assigned = 0;
  /** READs and atomics between head and cursor. */
  private readsOutstanding = 0;
  private retriesLeft = 0;
  private rnrRetriesLeft = 0;
  private rnrUntil = 0;
  /** A NAK for the present `una` was acted on already. */
  private hasGoneBack = false;
  /** The first packet after going back asks for an acknowledge, so that both ends agree quickly. */
  private asksAck = false;
  private sinceAck = 0;
  private drainEnd = 0;
  private onlyDestination = 0;
  private onlyQp = ANY_QP;

  constructor(
    queue: SendQueue,
    memory: TransportMemory,
    host: TransportHost,
    owner: RequesterOwner,
    counters: TransportCounters,
    settings: RcSettings,
  ) {
    this.queue = queue;
    this.memory = memory;
    this.host = host;
    this.owner = owner;
    this.counters = counters;
    this.settings = settings;
    this.window = this.allowed = settings.window ?? DEFAULT_WINDOW;
    this.out.migrated = true;
    this.out.partitionKey = settings.partitionKey ?? 0xffff;
    this.restart(settings.destQp, settings.sendPsn);
  }

  /** Begins a connection at a PSN. Nothing may be outstanding. */
  restart(destQp: number, psn: number): void {
    this.state = RequesterState.ready;
    this.una = this.cursorPsn = this.maxSent = this.nextPsn = psn;
    this.cursor = this.assigned = this.queue.head;
    this.retriesLeft = this.settings.retryCount;
    this.rnrRetriesLeft = this.settings.rnrRetry;
    this.readsOutstanding = 0;
    this.rnrUntil = 0;
    this.hasGoneBack = false;
    this.allowed = this.window;
    this.deadline = NEVER;
    this.out.destQp = destQp;
  }

  /** The state of a queue pair's requester, which serves any destination. */
  copyState(s: StateCopy): void {
    this.deadline = s.number(this.deadline);
    this.window = s.number(this.window);
    this.allowed = s.number(this.allowed);
    this.ackedSince = s.number(this.ackedSince);
    this.state = s.number(this.state);
    this.una = s.number(this.una);
    this.cursorPsn = s.number(this.cursorPsn);
    this.maxSent = s.number(this.maxSent);
    this.nextPsn = s.number(this.nextPsn);
    this.cursor = s.number(this.cursor);
    this.assigned = s.number(this.assigned);
    this.readsOutstanding = s.number(this.readsOutstanding);
    this.retriesLeft = s.number(this.retriesLeft);
    this.rnrRetriesLeft = s.number(this.rnrRetriesLeft);
    this.rnrUntil = s.number(this.rnrUntil);
    this.hasGoneBack = s.flag(this.hasGoneBack);
    this.asksAck = s.flag(this.asksAck);
    this.sinceAck = s.number(this.sinceAck);
    this.drainEnd = s.number(this.drainEnd);
  }

  /** DC: only requests for this target are started until the next call. */
  serveOnly(destination: number, destQp: number): void {
    this.onlyDestination = destination;
    this.onlyQp = destQp;
  }

  private get timeoutNs(): number {
    return ACK_TIMEOUT_NS[this.settings.timeout];
  }

  /** Nothing is outstanding: all that was started is complete. */
  get isIdle(): boolean {
    return this.queue.head === this.assigned;
  }

  /** The PSN that the next request will start with. */
  get psn(): number {
    return this.nextPsn;
  }

  /** Packets sent and not yet answered. */
  get inFlight(): number {
    return psnDiff(this.maxSent, this.una);
  }

  /** Finishes what is in the queue now and starts nothing after it; `sendQueueDrained` follows when it is done. */
  drain(): void {
    if (this.state !== RequesterState.ready) return;
    this.state = RequesterState.draining;
    this.drainEnd = this.queue.tail;
    this.reportDrained();
  }

  private reportDrained(): void {
    if (this.state !== RequesterState.draining || this.queue.head !== this.drainEnd) return;
    this.state = RequesterState.drained;
    this.owner.sendQueueDrained();
  }

  /** Back from draining. */
  resume(): void {
    if (this.state !== RequesterState.error) this.state = RequesterState.ready;
  }

  /** To the error state; every request in the queue gets WR_FLUSH_ERR. */
  flush(): void {
    this.state = RequesterState.error;
    this.deadline = NEVER;
    this.queue.flush(this.host);
    this.assigned = this.cursor = this.queue.head;
  }

  /** One packet at `b[at]`, its length, or 0. */
  next(b: Uint8Array, at: number, now: number): number {
    const q = this.queue;
    if (this.state === RequesterState.error) {
      if (q.count > 0) this.flush();
      return 0;
    }
    if (this.rnrUntil !== 0 || this.cursor === q.tail) return 0;
    const slot = q.slot(this.cursor);
    if (this.cursor === this.assigned && !this.start(slot)) return 0;
    const inFlight = psnDiff(this.cursorPsn, this.una);
    if (inFlight >= Math.min(this.window, this.allowed)) return 0;
    if (this.readsOutstanding > 0 && q.flags[slot] & SendFlag.fence && this.cursorPsn === q.firstPsn[slot]) return 0;

    const opcode = q.opcode[slot];
    const index = psnDiff(this.cursorPsn, q.firstPsn[slot]);
    const p = this.out;
    p.psn = this.cursorPsn;
    p.solicited = false;
    p.payloadLength = 0;
    let end: number;
    if (opcode >= RDMA_READ) {
      if (this.readsOutstanding >= this.settings.maxRdAtomic) return 0;
      if (opcode === RDMA_READ) fillRead(p, q, slot, index * this.settings.mtu);
      else fillAtomic(p, q, slot);
      p.ackRequest = true;
      end = encodeHeaders(p, b, at);
      this.readsOutstanding++;
      this.sinceAck = 0;
      this.cursorPsn = psnAdd(q.firstPsn[slot], q.packets[slot]);
      this.cursor = seqAdd(this.cursor, 1);
    } else {
      end = this.dataPacket(slot, index, inFlight, b, at);
      if (end === 0) return 0;
      this.cursorPsn = psnAdd(this.cursorPsn, 1);
      if (index === q.packets[slot] - 1) this.cursor = seqAdd(this.cursor, 1);
    }
    this.asksAck = false;
    if (psnDiff(this.cursorPsn, this.maxSent) > 0) this.maxSent = this.cursorPsn;
    else this.counters.retransmitted++;
    if (this.deadline === NEVER && this.timeoutNs > 0) this.deadline = now + this.timeoutNs;
    this.counters.packetsSent++;
    this.counters.bytesSent += end - at;
    return end - at;
  }

  /** Gives the request its PSNs. False when it has to wait, or has failed. */
  private start(slot: number): boolean {
    if (this.state === RequesterState.drained) return false;
    if (this.state === RequesterState.draining && this.cursor === this.drainEnd) return false;
    const q = this.queue;
    if (this.onlyQp !== ANY_QP && (q.destQp[slot] !== this.onlyQp || q.destination[slot] !== this.onlyDestination)) return false;
    const opcode = q.opcode[slot];
    const length = q.length[slot];
    let fault: number = STATUS.SUCCESS;
    if (length > MAX_MESSAGE_BYTES) fault = STATUS.LOC_LEN_ERR;
    else if (opcode >= RDMA_READ && this.settings.maxRdAtomic === 0) fault = STATUS.LOC_QP_OP_ERR;
    else if (!q.checkLocal(this.memory, slot, opcode >= RDMA_READ ? ACCESS_LOCAL_WRITE : 0)) fault = STATUS.LOC_PROT_ERR;
    if (fault !== STATUS.SUCCESS) {
      if (this.isIdle) this.fail(fault);
      return false;
    }
    const packets = packetCount(length, this.settings.mtu);
    if (psnDiff(this.nextPsn, this.una) + packets > PSN_HALF) return false;
    q.firstPsn[slot] = this.nextPsn;
    q.packets[slot] = packets;
    this.nextPsn = psnAdd(this.nextPsn, packets);
    this.assigned = seqAdd(this.assigned, 1);
    return true;
  }

  private dataPacket(slot: number, index: number, inFlight: number, b: Uint8Array, at: number): number {
    const p = this.out;
    const q = this.queue;
    const { mtu } = this.settings;
    const packets = q.packets[slot];
    fillData(p, q, slot, Service.rc, index, packets, mtu);
    this.sinceAck++;
    p.ackRequest =
      index === packets - 1 ||
      this.asksAck ||
      this.sinceAck >= PACKETS_PER_ACK ||
      inFlight + 1 >= Math.min(this.window, this.allowed);
    if (p.ackRequest) this.sinceAck = 0;
    const payloadAt = encodeHeaders(p, b, at);
    if (!q.gather(this.memory, slot, index * mtu, p.payloadLength, b, payloadAt)) {
      if (q.head === this.cursor) this.fail(STATUS.LOC_PROT_ERR);
      return 0;
    }
    return padPacket(p, b, payloadAt + p.payloadLength);
  }

  /** Takes an answer: acknowledge, READ response or atomic acknowledge. */
  receive(p: Packet, b: Uint8Array, now: number): void {
    if (this.state === RequesterState.error) return;
    this.counters.packetsReceived++;
    if (psnDiff(p.psn, this.una) < 0) {
      this.counters.duplicates++;
      return;
    }
    if (psnDiff(p.psn, this.maxSent) >= 0) {
      this.counters.dropped++;
      return;
    }
    const isNak = (p.flags & Flag.hasAeth) !== 0 && syndromeClass(p.syndrome) !== SyndromeClass.ack;
    if (isNak) {
      if (this.acknowledge(psnAdd(p.psn, -1), now)) this.negative(p.syndrome, now);
    } else if (p.flags & (Flag.read | Flag.atomic)) {
      if (this.acknowledge(psnAdd(p.psn, -1), now)) this.response(p, b, now);
    } else {
      this.acknowledge(p.psn, now);
    }
    this.reportDrained();
  }

  /**
   * Everything up to and including `psn` has arrived. True when `una` is now after it; false when an unfinished READ or atomic stands
   * before: then its answer was lost, and this went back.
   */
  private acknowledge(psn: number, now: number): boolean {
    const q = this.queue;
    while (psnDiff(psn, this.una) >= 0) {
      const slot = q.slot(q.head);
      if (q.opcode[slot] >= RDMA_READ) {
        this.goBack(now);
        return false;
      }
      const after = psnAdd(q.firstPsn[slot], q.packets[slot]);
      if (psnDiff(psn, after) < -1) {
        this.progress(psnAdd(psn, 1), now);
      } else {
        this.progress(after, now);
        this.queue.complete(this.host, STATUS.SUCCESS);
      }
    }
    this.catchUp();
    return true;
  }

  /** `una` moves forward: the peer is alive, so retries are full again and the timer starts anew. */
  private progress(una: number, now: number): void {
    if (this.allowed < this.window) {
      this.ackedSince += psnDiff(una, this.una);
      if (this.ackedSince >= this.allowed) {
        this.ackedSince = 0;
        this.allowed++;
      }
    }
    this.una = una;
    this.retriesLeft = this.settings.retryCount;
    this.rnrRetriesLeft = this.settings.rnrRetry;
    this.hasGoneBack = false;
    this.rnrUntil = 0;
    this.deadline = una === this.maxSent || this.timeoutNs === 0 ? NEVER : now + this.timeoutNs;
  }

  /** What was to be sent again and is acknowledged meanwhile need not be. */
  private catchUp(): void {
    if (psnDiff(this.cursorPsn, this.una) >= 0) return;
    this.cursorPsn = this.una;
    this.cursor = this.queue.head;
    this.readsOutstanding = 0;
  }

  /** A READ response or atomic acknowledge whose PSN is `una`. */
  private response(p: Packet, b: Uint8Array, now: number): void {
    const q = this.queue;
    const slot = q.slot(q.head);
    const opcode = q.opcode[slot];
    if (opcode < RDMA_READ || (opcode === RDMA_READ) !== ((p.flags & Flag.read) !== 0)) {
      this.fail(STATUS.BAD_RESP_ERR);
      return;
    }
    let placed: boolean;
    if (opcode === RDMA_READ) {
      const index = psnDiff(p.psn, q.firstPsn[slot]);
      if (p.payloadLength !== packetBytes(q.length[slot], this.settings.mtu, index)) {
        this.fail(STATUS.BAD_RESP_ERR);
        return;
      }
      placed = q.scatter(this.memory, slot, index * this.settings.mtu, p.payloadLength, b, p.payloadAt);
    } else {
      placed = q.scatter(this.memory, slot, 0, 8, littleEndian(this.scratch, p.originalHi, p.originalLo), 0);
    }
    if (!placed) {
      this.fail(STATUS.LOC_PROT_ERR);
      return;
    }
    this.counters.bytesReceived += p.payloadLength;
    const isLast = psnDiff(psnAdd(q.firstPsn[slot], q.packets[slot]), p.psn) === 1;
    this.progress(psnAdd(p.psn, 1), now);
    if (isLast) {
      if (this.readsOutstanding > 0) this.readsOutstanding--;
      this.queue.complete(this.host, STATUS.SUCCESS);
    }
    this.catchUp();
  }

  /** A NAK for the packet at `una`. */
  private negative(syndrome: number, now: number): void {
    if (syndromeClass(syndrome) === SyndromeClass.rnr) {
      if (this.rnrUntil !== 0) return;
      this.counters.rnrNaks++;
      if (this.settings.rnrRetry !== ENDLESS_RNR && this.rnrRetriesLeft-- === 0) {
        this.fail(STATUS.RNR_RETRY_EXC_ERR);
        return;
      }
      this.rewind();
      this.rnrUntil = this.deadline = now + RNR_DELAY_NS[syndrome & 31];
      return;
    }
    switch (syndrome) {
      case Nak.sequenceError:
        this.counters.sequenceNaks++;
        this.goBack(now);
        return;
      case Nak.invalidRequest:
        this.fail(STATUS.REM_INV_REQ_ERR);
        return;
      case Nak.remoteAccess:
        this.fail(STATUS.REM_ACCESS_ERR);
        return;
      case Nak.remoteOperational:
        this.fail(STATUS.REM_OP_ERR);
        return;
      default:
        this.fail(STATUS.BAD_RESP_ERR);
    }
  }

  /** Serves the RNR wait and the acknowledge timeout. */
  tick(now: number): void {
    if (now < this.deadline) return;
    if (this.rnrUntil !== 0) {
      this.rnrUntil = 0;
      this.deadline = NEVER;
      return;
    }
    this.counters.timeouts++;
    this.hasGoneBack = false;
    this.goBack(now, true);
  }

  /** Starts again at `una`, once per `una` and attempt, and uses up a retry. */
  private goBack(now: number, isTimeout = false): void {
    if (this.hasGoneBack || this.rnrUntil !== 0) return;
    if (this.retriesLeft-- === 0) {
      this.fail(STATUS.RETRY_EXC_ERR);
      return;
    }
    this.hasGoneBack = true;
    this.allowed = isTimeout ? 1 : Math.max(1, Math.min(this.allowed, this.inFlight) >> 1);
    this.ackedSince = 0;
    this.rewind();
    this.deadline = this.timeoutNs > 0 ? now + patience(this.timeoutNs, this.settings.retryCount - this.retriesLeft) : NEVER;
  }

  /** A congestion notification came: the window is halved, but not to less than `NOTIFIED_WINDOW`; only loss makes it smaller. */
  slowDown(): void {
    if (this.allowed <= NOTIFIED_WINDOW) return;
    this.allowed = Math.max(NOTIFIED_WINDOW, Math.min(this.allowed, this.inFlight) >> 1);
    this.ackedSince = 0;
  }

  private rewind(): void {
    this.cursorPsn = this.una;
    this.cursor = this.queue.head;
    this.readsOutstanding = 0;
    this.asksAck = true;
  }

  /** The request at the head fails; the owner flushes the rest. */
  private fail(status: number): void {
    this.queue.complete(this.host, status);
    this.state = RequesterState.error;
    this.deadline = NEVER;
    this.owner.requesterFailed();
  }
}

/** The two halves as the eight bytes of a little-endian machine; every machine this runs on is one. */
function littleEndian(b: Uint8Array, hi: number, lo: number): Uint8Array {
  for (let i = 0; i < 4; i++) {
    b[i] = lo >>> (8 * i);
    b[4 + i] = hi >>> (8 * i);
  }
  return b;
}
