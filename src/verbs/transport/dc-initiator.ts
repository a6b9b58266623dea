/**
 * The initiator of dynamically connected transport (DCI): RC's operations to any number of targets through one send queue. It has one
 * connection at a time, made when a request names a target and dropped when the next one names another.
 *
 *             request at the head             connectReply: accepted
 *     IDLE ──────────────────────> CONNECTING ──────────────────────> CONNECTED ──┐  requests for this target run as RC
 *      ^                            │  │ timeout: connect again                   │
 *      │        refused, no answer  │  └── retries used up ──> error              │
 *      │                            └──────────────────────────> error            │
 *      └──── disconnect: all done, and the head names another target or nothing came for a while ◄──┘
 *
 * An idle peer costs nothing here: no connection, no state. PSNs run on from one connection to the next, so an answer that comes late
 * from an old one is before `una` and is ignored.
 */

import { STATUS } from '../status.js';
import { DcMessage, DcVerdict, decodeDc, encodeDc } from './dc-messages.js';
import type { EndpointParts } from './endpoint-parts.js';
import { NEVER, type TransportEndpoint } from './host.js';
import { DcOpcode, Flag } from './opcode.js';
import { Packet } from './packet.js';
import { RcRequester, type RequesterOwner } from './rc-requester.js';
import type { RcSettings } from './rc-settings.js';
import { ackTimeoutNs, patience } from './timing.js';

const State = { idle: 0, connecting: 1, connected: 2, error: 3 } as const;

/** A connection that is not used for this long is dropped; well before a target forgets it. */
export const DC_IDLE_NS = 100_000_000;

export interface DcInitiatorParts extends Omit<EndpointParts, 'receiveQueue'> {
  /** Its own number: where answers come to. */
  readonly qpNum: number;
  /** Where tokens start: after every token that an earlier initiator of the same number has used. Default 0. */
  readonly firstToken?: number;
}

export class DcInitiator implements TransportEndpoint, RequesterOwner {
  destination = 0;
  private readonly parts: DcInitiatorParts;
  private readonly settings: RcSettings;
  private readonly requester: RcRequester;
  private readonly out = new Packet();
  private readonly message = new DcMessage();
  private state: number = State.idle;
  private token = 0;
  private mustSend = false;
  private isPaused = false;
  private drainEnd = 0;
  private retriesLeft = 0;
  private connectDeadline = NEVER;
  private idleSince = 0;
  /** Nothing came for `DC_IDLE_NS`: the connection goes at the next occasion. */
  private isStale = false;
  /** The present target: address handle, number, key, and the context there. */
  private targetAddress = 0;
  private targetQp = 0;
  private targetKey = 0;
  private context = 0;

  /** @param settings `destQp`, `receivePsn` and the responder's fields do not count. */
  constructor(parts: DcInitiatorParts, settings: RcSettings) {
    this.parts = parts;
    this.settings = settings;
    this.token = parts.firstToken ?? 0;
    this.requester = new RcRequester(parts.sendQueue, parts.memory, parts.host, this, parts.counters, settings);
    this.out.migrated = true;
    this.out.sourceQp = parts.qpNum;
    this.out.partitionKey = settings.partitionKey ?? 0xffff;
  }

  get deadline(): number {
    if (this.state === State.connecting) return this.connectDeadline;
    if (this.state !== State.connected) return NEVER;
    if (!this.requester.isIdle) return this.requester.deadline;
    return this.isStale ? NEVER : this.idleSince + DC_IDLE_NS;
  }

  /** Finishes what is in the queue now and starts nothing after it; the host hears SQ_DRAINED when it is done. */
  drain(): void {
    this.isPaused = true;
    this.drainEnd = this.parts.sendQueue.tail;
    this.reportDrained();
  }

  resume(): void {
    this.isPaused = false;
  }

  next(b: Uint8Array, at: number, now: number): number {
    const q = this.parts.sendQueue;
    switch (this.state) {
      case State.connected: {
        if (this.isPaused && q.head === this.drainEnd) return 0;
        const length = this.requester.next(b, at, now);
        if (length > 0) {
          this.destination = this.targetAddress;
          return length;
        }
        return this.requester.isIdle && (this.headIsElsewhere() || (this.isStale && q.count === 0)) ? this.disconnect(b, at) : 0;
      }
      case State.idle:
        if (q.count === 0 || (this.isPaused && q.head === this.drainEnd)) return 0;
        this.connect();
        return this.sendConnect(b, at, now);
      case State.connecting:
        return this.mustSend ? this.sendConnect(b, at, now) : 0;
      default:
        q.flush(this.parts.host);
        return 0;
    }
  }

  receive(p: Packet, b: Uint8Array, now: number): void {
    if (p.flags & Flag.response && this.state === State.connected) {
      const before = this.parts.sendQueue.head;
      this.requester.receive(p, b, now);
      this.idleSince = now;
      this.isStale = false;
      if (this.parts.sendQueue.head !== before) this.reportDrained();
      return;
    }
    const m = this.message;
    if (p.opcode !== DcOpcode.connectReply || this.state !== State.connecting || !decodeDc(p, b, m) || m.token !== this.token) {
      this.parts.counters.dropped++;
      return;
    }
    if (m.verdict === DcVerdict.accepted) {
      this.state = State.connected;
      this.context = m.context;
      this.idleSince = now;
      this.isStale = false;
      this.requester.restart(m.context, this.requester.psn);
      this.requester.serveOnly(this.targetAddress, this.targetQp);
    } else if (m.verdict !== DcVerdict.tooMany) {
      // A target without room is asked again at the timeout.
      this.fail(m.verdict === DcVerdict.wrongKey ? STATUS.REM_ACCESS_ERR : STATUS.REM_INV_REQ_ERR);
    }
  }

  tick(now: number): void {
    if (now < this.deadline) return;
    if (this.state === State.connecting) {
      this.parts.counters.timeouts++;
      if (this.retriesLeft-- === 0) this.fail(STATUS.RETRY_EXC_ERR);
      else this.mustSend = true;
      this.connectDeadline = NEVER;
    } else if (this.state === State.connected) {
      if (this.requester.isIdle) this.isStale = true;
      else this.requester.tick(now);
    }
  }

  flush(): void {
    this.state = State.error;
    this.parts.sendQueue.flush(this.parts.host);
  }

  requesterFailed(): void {
    this.flush();
    this.parts.host.event('QP_FATAL');
  }

  /** The requester is never drained: an initiator drains over several connections. */
  sendQueueDrained(): void {}

  private reportDrained(): void {
    if (this.isPaused && this.parts.sendQueue.head === this.drainEnd) this.parts.host.event('SQ_DRAINED');
  }

  private headIsElsewhere(): boolean {
    const q = this.parts.sendQueue;
    if (q.count === 0) return false;
    const slot = q.slot(q.head);
    return q.destQp[slot] !== this.targetQp || q.destination[slot] !== this.targetAddress;
  }

  private connect(): void {
    const q = this.parts.sendQueue;
    const slot = q.slot(q.head);
    this.targetAddress = q.destination[slot];
    this.targetQp = q.destQp[slot];
    this.targetKey = q.destKey[slot];
    this.token = (this.token + 1) >>> 0;
    this.state = State.connecting;
    this.retriesLeft = this.settings.retryCount;
  }

  private sendConnect(b: Uint8Array, at: number, now: number): number {
    const timeoutNs = ackTimeoutNs(this.settings.timeout);
    this.mustSend = false;
    const retries = this.settings.retryCount - this.retriesLeft;
    this.connectDeadline = timeoutNs > 0 ? now + patience(timeoutNs, retries) : NEVER;
    const m = this.message;
    m.psn = this.requester.psn;
    m.mtu = this.settings.mtu;
    return this.send(DcOpcode.connect, this.targetQp, b, at);
  }

  private disconnect(b: Uint8Array, at: number): number {
    this.state = State.idle;
    return this.send(DcOpcode.disconnect, this.context, b, at);
  }

  private send(opcode: number, destQp: number, b: Uint8Array, at: number): number {
    const m = this.message;
    m.opcode = opcode;
    m.token = this.token;
    this.out.destQp = destQp;
    this.out.queueKey = this.targetKey;
    this.destination = this.targetAddress;
    this.parts.counters.packetsSent++;
    return encodeDc(this.out, m, b, at);
  }

  private fail(status: number): void {
    this.parts.sendQueue.complete(this.parts.host, status);
    this.requesterFailed();
  }
}
