/**
 * The connection manager of a device, on queue pair 1: makes and ends connections by exchanging CM messages, without I/O.
 *
 *     active:    connect()                    REP                                  disconnect()          DREP, timeout
 *       (none) ──REQ──> REQ_SENT ─────────────────RTU──> ESTABLISHED ──────DREQ──> DREQ_SENT ───────────────────> CLOSED
 *                         │ REJ, no answer                    │   ^                                                ^
 *                         └──────────> CLOSED                 │   └──── REP again: RTU again                       │
 *     passive:   REQ                 accept()            RTU  │  DREQ: answered by DREP, host hears disconnected   │
 *       (none) ─────> REQ_RECEIVED ──REP──> REP_SENT ─────────┴────────────────────────────────────────────────────┘
 *                         │ reject()           │ no RTU: REP again, then CLOSED
 *                         └──REJ──> CLOSED     └ the first data packet counts as RTU: established()
 *
 * Requests are repeated `maxCmRetries` times; a message that comes again gets the same answer again. An MRA makes the waiting longer. A closed
 * connection is remembered for a while (time wait), so that late repetitions are answered and not taken for something new.
 */

import {
  CM_QP,
  CM_QUEUE_KEY,
  type CmDreq,
  type CmMessage,
  type CmMra,
  type CmRej,
  type CmRep,
  type CmReq,
  type CmRtu,
  decodeCm,
  encodeCm,
  RejectReason,
} from './cm-messages.js';
import { NEVER, type TransportEndpoint } from './host.js';
import { HEADER_LENGTH, Op, Service } from './opcode.js';
import { encodeHeaders, Packet } from './packet.js';
import { psnAdd } from './psn.js';
import { ackTimeoutNs } from './timing.js';

/** Fields of a REQ that the agent fills in itself. */
type Own = 'kind' | 'transaction' | 'localId';
export type CmConnectRequest = Omit<CmReq, Own>;
export type CmAcceptReply = Omit<CmRep, Own | 'remoteId'>;

/** What the agent tells. `id` is its number of the connection. */
export interface CmHost {
  /** Somebody asks; answer with `accept` or `reject`, now or later. */
  connectRequest(id: number, request: CmReq, source: number): void;
  /** Active side: accepted; the RTU is on its way. Passive side: the RTU came (`reply` is undefined). */
  established(id: number, reply: CmRep | undefined): void;
  /** Refused, or nobody answered (reason `RejectReason.timeout`, no private data). */
  rejected(id: number, reason: number, privateData: Uint8Array): void;
  /** The other side disconnected, or answered a disconnect, or the answer did not come. */
  disconnected(id: number): void;
}

type CmState = 'REQ_SENT' | 'REQ_RECEIVED' | 'REP_SENT' | 'ESTABLISHED' | 'DREQ_SENT' | 'CLOSED';

interface Connection {
  readonly id: number;
  readonly isActive: boolean;
  readonly peer: number;
  readonly transaction: bigint;
  state: CmState;
  remoteId: number;
  remoteQp: number;
  localQp: number;
  /** The message to repeat, and the last answer given, for repetitions of what it answered. */
  request: CmMessage | undefined;
  answer: CmMessage | undefined;
  retriesLeft: number;
  timeoutNs: number;
  deadline: number;
}

/** How long a closed connection is remembered, nanoseconds. */
const TIME_WAIT_NS = 5_000_000_000;
/** What an MRA asks for: 4.096 us x 2^18, about a second. */
const WAIT_CODE = 18;
const NO_DATA = new Uint8Array(0);

export class CmAgent implements TransportEndpoint {
  destination = 0;
  private readonly host: CmHost;
  private readonly connections = new Map<number, Connection>();
  private readonly listeners = new Set<bigint>();
  private readonly outbox: { to: number; message: CmMessage }[] = [];
  private readonly out = new Packet();
  private nextId: number;
  private nextTransaction: bigint;

  /** @param firstId where ids start, 32 bits: a value that differs from run to run keeps a peer from confusing two lives of this device. */
  constructor(host: CmHost, firstId: number) {
    this.host = host;
    this.nextId = firstId >>> 0;
    this.nextTransaction = BigInt(this.nextId) << 32n;
    this.out.opcode = Service.ud | Op.sendOnly;
    this.out.destQp = CM_QP;
    this.out.sourceQp = CM_QP;
    this.out.queueKey = CM_QUEUE_KEY;
    this.out.migrated = true;
  }

  get deadline(): number {
    let first = NEVER;
    for (const c of this.connections.values()) first = Math.min(first, c.deadline);
    return first;
  }

  /** How many connections are known, the ones in time wait included. */
  get size(): number {
    return this.connections.size;
  }

  listen(serviceId: bigint): void {
    this.listeners.add(serviceId);
  }

  unlisten(serviceId: bigint): void {
    this.listeners.delete(serviceId);
  }

  /** Asks `peer` for a connection and returns its id. */
  connect(peer: number, request: CmConnectRequest, now: number): number {
    const id = this.newId();
    this.nextTransaction += 1n;
    const message: CmReq = { ...request, kind: 'REQ', transaction: this.nextTransaction, localId: id };
    const c: Connection = {
      id,
      isActive: true,
      peer,
      transaction: message.transaction,
      state: 'REQ_SENT',
      remoteId: 0,
      remoteQp: 0,
      localQp: request.qpNum,
      request: message,
      answer: undefined,
      retriesLeft: request.maxCmRetries,
      timeoutNs: ackTimeoutNs(request.remoteResponseTimeout),
      deadline: NEVER,
    };
    this.connections.set(id, c);
    this.repeat(c, now);
    return id;
  }

  /** Accepts a request that `connectRequest` reported. False when it is gone (the other side gave up). */
  accept(id: number, reply: CmAcceptReply, now: number): boolean {
    const c = this.connections.get(id);
    if (c?.state !== 'REQ_RECEIVED') return false;
    c.state = 'REP_SENT';
    c.localQp = reply.qpNum;
    c.request = c.answer = { ...reply, kind: 'REP', transaction: c.transaction, localId: id, remoteId: c.remoteId };
    this.repeat(c, now);
    return true;
  }

  /** Refuses a request. */
  reject(id: number, now: number, privateData: Uint8Array = NO_DATA, reason: number = RejectReason.consumer): void {
    const c = this.connections.get(id);
    if (c?.state !== 'REQ_RECEIVED') return;
    c.answer = this.rejection(c, reason, privateData);
    this.send(c.peer, c.answer);
    this.close(c, now);
  }

  /** Data has arrived on a connection whose RTU has not: it counts as established. */
  establish(id: number): void {
    const c = this.connections.get(id);
    if (c?.state === 'REP_SENT') this.isEstablished(c, undefined);
  }

  /** Ends a connection; `disconnected` follows. One that is not established yet is refused or forgotten. */
  disconnect(id: number, now: number, privateData: Uint8Array = NO_DATA): void {
    const c = this.connections.get(id);
    if (c === undefined || c.state === 'CLOSED' || c.state === 'DREQ_SENT') return;
    if (c.state === 'REQ_RECEIVED') {
      this.reject(id, now, privateData);
    } else if (c.state === 'REQ_SENT') {
      this.send(c.peer, this.rejection(c, RejectReason.timeout, privateData));
      this.close(c, now);
    } else {
      this.nextTransaction += 1n;
      const message: CmDreq = {
        kind: 'DREQ',
        transaction: this.nextTransaction,
        localId: c.id,
        remoteId: c.remoteId,
        qpNum: c.remoteQp,
        privateData,
      };
      c.state = 'DREQ_SENT';
      c.request = message;
      c.retriesLeft = 5;
      this.repeat(c, now);
    }
  }

  /** Says once more what ends connections and was not answered yet: for who will not be here to repeat it. */
  repeatDisconnects(now: number): void {
    for (const c of this.connections.values()) if (c.state === 'DREQ_SENT') this.repeat(c, now);
  }

  next(b: Uint8Array, at: number): number {
    const item = this.outbox.shift();
    if (item === undefined) return 0;
    this.destination = item.to;
    const payloadAt = at + HEADER_LENGTH[this.out.opcode];
    this.out.payloadLength = encodeCm(item.message, b, payloadAt);
    encodeHeaders(this.out, b, at);
    this.out.psn = psnAdd(this.out.psn, 1);
    return payloadAt + this.out.payloadLength - at;
  }

  receive(p: Packet, b: Uint8Array, now: number, source: number): void {
    if (p.opcode !== (Service.ud | Op.sendOnly) || p.queueKey !== CM_QUEUE_KEY) return;
    const m = decodeCm(b, p.payloadAt, p.payloadAt + p.payloadLength);
    if (m === undefined) return;
    if (m.kind === 'REQ') {
      this.onRequest(m, source, now);
      return;
    }
    // A refusal of a REQ may not know our id's counterpart yet; all others name both.
    const c = this.connections.get(m.remoteId);
    if (c === undefined || c.peer !== source) {
      if (m.kind === 'DREQ')
        this.send(source, { ...m, kind: 'DREP', localId: m.remoteId, remoteId: m.localId, privateData: NO_DATA });
      return;
    }
    if (m.kind === 'REP') this.onReply(c, m, now);
    else if (m.kind === 'RTU') this.onReady(c, m);
    else if (m.kind === 'REJ') this.onReject(c, m, now);
    else if (m.kind === 'MRA') this.onWait(c, m, now);
    else if (m.kind === 'DREQ') this.onDisconnect(c, m, now);
    else if (c.state === 'DREQ_SENT') this.finish(c, now);
  }

  tick(now: number): void {
    for (const c of [...this.connections.values()]) {
      if (now < c.deadline) continue;
      if (c.state === 'CLOSED') {
        this.connections.delete(c.id);
      } else if (c.retriesLeft > 0 && c.state !== 'REQ_RECEIVED') {
        c.retriesLeft--;
        this.repeat(c, now);
      } else if (c.state === 'DREQ_SENT') {
        this.finish(c, now);
      } else {
        this.close(c, now);
        this.host.rejected(c.id, RejectReason.timeout, NO_DATA);
      }
    }
  }

  /** Forgets everything without telling anybody. */
  flush(): void {
    this.connections.clear();
    this.listeners.clear();
    this.outbox.length = 0;
  }

  private newId(): number {
    do this.nextId = (this.nextId + 1) >>> 0;
    while (this.nextId === 0 || this.connections.has(this.nextId));
    return this.nextId;
  }

  private send(to: number, message: CmMessage): void {
    this.outbox.push({ to, message });
  }

  private repeat(c: Connection, now: number): void {
    if (c.request) this.send(c.peer, c.request);
    c.deadline = now + c.timeoutNs;
  }

  private rejection(c: Connection, reason: number, privateData: Uint8Array): CmRej {
    return {
      kind: 'REJ',
      transaction: c.transaction,
      localId: c.id,
      remoteId: c.remoteId,
      message: c.isActive ? 1 : 0,
      informationLength: 0,
      reason,
      information: NO_DATA,
      privateData,
    };
  }

  private onRequest(m: CmReq, source: number, now: number): void {
    for (const c of this.connections.values()) {
      if (c.isActive || c.remoteId !== m.localId || c.peer !== source) continue;
      if (c.transaction !== m.transaction) continue;
      this.send(source, c.answer ?? this.waitMessage(c));
      return;
    }
    const c: Connection = {
      id: this.newId(),
      isActive: false,
      peer: source,
      transaction: m.transaction,
      state: 'REQ_RECEIVED',
      remoteId: m.localId,
      remoteQp: m.qpNum,
      localQp: 0,
      request: undefined,
      answer: undefined,
      retriesLeft: m.maxCmRetries,
      timeoutNs: ackTimeoutNs(m.localResponseTimeout),
      deadline: NEVER,
    };
    if (!this.listeners.has(m.serviceId)) {
      this.send(source, this.rejection(c, RejectReason.invalidServiceId, NO_DATA));
      return;
    }
    this.connections.set(c.id, c);
    c.deadline = now + c.timeoutNs * (m.maxCmRetries + 2) + ackTimeoutNs(WAIT_CODE);
    this.host.connectRequest(c.id, m, source);
  }

  /** "I have your request": for one that is repeated while the user has not decided. */
  private waitMessage(c: Connection): CmMra {
    return {
      kind: 'MRA',
      transaction: c.transaction,
      localId: c.id,
      remoteId: c.remoteId,
      message: 0,
      serviceTimeout: WAIT_CODE,
      privateData: NO_DATA,
    };
  }

  private onReply(c: Connection, m: CmRep, now: number): void {
    if (c.state === 'REQ_SENT') {
      c.remoteId = m.localId;
      c.remoteQp = m.qpNum;
      const rtu: CmRtu = { kind: 'RTU', transaction: c.transaction, localId: c.id, remoteId: m.localId, privateData: NO_DATA };
      c.answer = rtu;
      this.send(c.peer, rtu);
      this.isEstablished(c, m);
    } else if (c.state === 'ESTABLISHED' && c.isActive && c.answer) {
      this.send(c.peer, c.answer);
    } else if (c.state === 'CLOSED' && c.isActive) {
      c.remoteId = m.localId;
      this.send(c.peer, this.rejection(c, RejectReason.timeout, NO_DATA));
      c.deadline = now + TIME_WAIT_NS;
    }
  }

  private onReady(c: Connection, m: CmRtu): void {
    if (c.state === 'REP_SENT' && m.localId === c.remoteId) this.isEstablished(c, undefined);
  }

  private isEstablished(c: Connection, reply: CmRep | undefined): void {
    c.state = 'ESTABLISHED';
    c.request = undefined;
    c.deadline = NEVER;
    this.host.established(c.id, reply);
  }

  private onReject(c: Connection, m: CmRej, now: number): void {
    if (c.state === 'CLOSED') return;
    const wasEstablished = c.state === 'ESTABLISHED' || c.state === 'DREQ_SENT';
    this.close(c, now);
    if (wasEstablished) this.host.disconnected(c.id);
    else this.host.rejected(c.id, m.reason, m.privateData);
  }

  private onWait(c: Connection, m: CmMra, now: number): void {
    if (c.state === 'REQ_SENT' || c.state === 'REP_SENT') c.deadline = now + c.timeoutNs + ackTimeoutNs(m.serviceTimeout);
  }

  private onDisconnect(c: Connection, m: CmDreq, now: number): void {
    const drep: CmRtu = { kind: 'DREP', transaction: m.transaction, localId: c.id, remoteId: m.localId, privateData: NO_DATA };
    this.send(c.peer, drep);
    if (c.state !== 'CLOSED') this.finish(c, now);
  }

  private finish(c: Connection, now: number): void {
    this.close(c, now);
    this.host.disconnected(c.id);
  }

  private close(c: Connection, now: number): void {
    c.state = 'CLOSED';
    c.request = undefined;
    c.deadline = now + TIME_WAIT_NS;
  }
}
