/**
 * One end of a reliable connection: a requester and a responder that live and die together.
 *
 *                 send queue ──> requester ──requests──>           <──requests── peer's requester
 *     completions <──────────────    │     <──answers───           ───answers──>
 *                                    └── an error in one stops both: queues flush, the host hears why
 *     completions <── receive queue ──> responder
 *
 * Answers go out before requests: the peer waits for them, and they are bounded by what it asked. One request may overtake a bare acknowledge:
 * a peer that plays ping-pong wants it first, and a network that takes several packets as one wants the short one last.
 *
 * Congestion: a switch marks packets while its queue is long (ECN). Who receives a marked packet sends a notification (CNP), at most one in 50 us; who
 * receives that halves its window.
 *
 *     requester ──packets──> switch with a long queue ──marked──> endpoint there ──CNP──> requester.slowDown
 */

import type { EndpointParts } from './endpoint-parts.js';
import type { TransportEndpoint, TransportHost } from './host.js';
import { Flag, OPCODE_CNP } from './opcode.js';
import { encodeHeaders, Packet } from './packet.js';
import { RcRequester, type RequesterOwner } from './rc-requester.js';
import { RcResponder, type ResponderOwner } from './rc-responder.js';
import type { RcSettings } from './rc-settings.js';
import type { StateCopy } from './state-copy.js';

/** Time between two congestion notifications of a connection at least. */
const CNP_INTERVAL_NS = 50_000;
/** Bytes of a congestion notification after its BTH: reserved, zero. */
const CNP_BYTES = 16;

export class RcEndpoint implements TransportEndpoint, RequesterOwner, ResponderOwner {
  readonly destination = 0;
  readonly requester: RcRequester;
  readonly responder: RcResponder;
  private readonly host: TransportHost;
  private readonly destQp: number;
  /** The last packet was a request that went before an acknowledge. */
  private hasOvertaken = false;
  /** A congestion notification is due, and none may be sent before that time. */
  private owesCnp = false;
  private nextCnpNs = 0;

  constructor(parts: EndpointParts, settings: RcSettings) {
    const { sendQueue, receiveQueue, memory, host, counters } = parts;
    this.host = host;
    this.destQp = settings.destQp;
    this.requester = new RcRequester(sendQueue, memory, host, this, counters, settings);
    this.responder = new RcResponder(receiveQueue, parts.isShared ?? false, memory, host, this, counters, settings);
  }

  /** The PSN of the first request: set when the queue pair is made ready to send. */
  startAt(psn: number): void {
    this.requester.restart(this.destQp, psn);
  }

  /** Numbers that a `StateCopy` of an endpoint needs. */
  static stateWords(maxReceiveSge: number, maxDestRdAtomic: number): number {
    return 48 + 3 * maxReceiveSge + 14 * maxDestRdAtomic;
  }

  /** Moves everything that the connection remembers; its settings and queues are the same at both places. */
  copyState(s: StateCopy): void {
    this.hasOvertaken = s.flag(this.hasOvertaken);
    this.owesCnp = s.flag(this.owesCnp);
    this.nextCnpNs = s.number(this.nextCnpNs);
    this.requester.copyState(s);
    this.responder.copyState(s);
  }

  drain(): void {
    this.requester.drain();
  }

  resume(): void {
    this.requester.resume();
  }

  get deadline(): number {
    return this.requester.deadline;
  }

  receive(p: Packet, b: Uint8Array, now: number): void {
    if (p.flags & Flag.response) this.requester.receive(p, b, now);
    else if (p.opcode === OPCODE_CNP) this.requester.slowDown();
    else this.responder.receive(p, b);
  }

  /** The packet that is about to be received has passed a congested switch. */
  marked(now: number): void {
    if (now < this.nextCnpNs) return;
    this.nextCnpNs = now + CNP_INTERVAL_NS;
    this.owesCnp = true;
  }

  private notify(b: Uint8Array, at: number): number {
    const p = new Packet();
    this.owesCnp = false;
    p.opcode = OPCODE_CNP;
    p.migrated = true;
    p.backwardCongestion = true;
    p.destQp = this.destQp;
    p.payloadLength = CNP_BYTES;
    const payloadAt = encodeHeaders(p, b, at);
    b.fill(0, payloadAt, payloadAt + CNP_BYTES);
    return payloadAt + CNP_BYTES - at;
  }

  next(b: Uint8Array, at: number, now: number): number {
    if (this.owesCnp) return this.notify(b, at);
    if (this.responder.owesOnlyAck && !this.hasOvertaken) {
      const length = this.requester.next(b, at, now);
      this.hasOvertaken = length > 0;
      if (length > 0) return length;
    }
    this.hasOvertaken = false;
    return this.responder.next(b, at) || this.requester.next(b, at, now);
  }

  tick(now: number): void {
    this.requester.tick(now);
  }

  flush(): void {
    this.requester.flush();
    this.responder.flush();
  }

  requesterFailed(): void {
    this.flush();
    this.host.event('QP_FATAL');
  }

  responderFailed(isAccessError: boolean): void {
    this.flush();
    this.host.event(isAccessError ? 'QP_ACCESS_ERR' : 'QP_REQ_ERR');
  }

  sendQueueDrained(): void {
    this.host.event('SQ_DRAINED');
  }
}
