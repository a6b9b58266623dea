/**
 * The message that is arriving at a responder, RC or UC: checks that its packets follow each other, puts the bytes where they belong,
 * and completes the receive request.
 *
 *                 First, Only                 Middle                     Last, Only
 *     NONE ─────────────────────> SEND ───────────────────> SEND ───────────────────> NONE   (receive completion)
 *        └──────────────────────> WRITE ──────────────────> WRITE ──────────────────> NONE   (completion if immediate)
 *
 * It decides nothing about acknowledging: RC turns a verdict into a NAK, UC drops the message. A verdict other than `ok` has changed
 * nothing, except that bytes of a failing packet may have been written inside memory that the message was allowed to write.
 */

import { ACCESS_REMOTE_WRITE } from '../access.js';
import { WC_RECV, WC_RECV_RDMA_WITH_IMM } from '../opcode.js';
import { STATUS } from '../status.js';
import { WC_WITH_IMM } from '../work-completions.js';
import type { TransportHost } from './host.js';
import type { TransportMemory } from './memory.js';
import { Flag } from './opcode.js';
import type { Packet } from './packet.js';
import { type ReceiveQueue, ReceiveWork } from './receive-queue.js';
import { MAX_MESSAGE_BYTES } from './segmentation.js';
import type { StateCopy } from './state-copy.js';

/** What became of a packet. */
export const Verdict = {
  ok: 0,
  /** No receive request is posted. */
  notReady: 1,
  /** The packet does not follow the one before, or its length does not fit. */
  invalidRequest: 2,
  /** The remote key, the range or a right is wrong. */
  accessError: 3,
  /** The message is longer than the receive request; it has completed with LOC_LEN_ERR. */
  tooLong: 4,
  /** The receive request names memory that is not registered; it has completed with LOC_PROT_ERR. */
  localFault: 5,
} as const;

const Kind = { none: 0, send: 1, write: 2 } as const;

/** The part of a connection's settings that counts here. */
export interface InboundSettings {
  readonly mtu: number;
  readonly access: number;
}

export class InboundMessage {
  private readonly queue: ReceiveQueue;
  private readonly memory: TransportMemory;
  private readonly host: TransportHost;
  private readonly settings: InboundSettings;
  private readonly work: ReceiveWork;
  private hasWork = false;
  private kind: number = Kind.none;
  /** Bytes placed so far. */
  private placed = 0;
  private address = 0;
  private key = 0;
  private total = 0;

  constructor(queue: ReceiveQueue, memory: TransportMemory, host: TransportHost, settings: InboundSettings) {
    this.queue = queue;
    this.memory = memory;
    this.host = host;
    this.settings = settings;
    this.work = new ReceiveWork(queue.maxSge);
  }

  copyState(s: StateCopy): void {
    this.hasWork = s.flag(this.hasWork);
    this.kind = s.number(this.kind);
    this.placed = s.number(this.placed);
    this.address = s.number(this.address);
    this.key = s.number(this.key);
    this.total = s.number(this.total);
    this.work.copyState(s);
  }

  /** In the middle of a message. */
  get isOpen(): boolean {
    return this.kind !== Kind.none;
  }

  /** Takes the next packet of a SEND or WRITE. */
  accept(p: Packet, b: Uint8Array): number {
    const kind = p.flags & Flag.send ? Kind.send : Kind.write;
    const isFirst = (p.flags & Flag.first) !== 0;
    const isLast = (p.flags & Flag.last) !== 0;
    if (this.kind !== (isFirst ? Kind.none : kind)) return Verdict.invalidRequest;
    if (isLast ? p.payloadLength > this.settings.mtu : p.payloadLength !== this.settings.mtu) return Verdict.invalidRequest;
    if (isLast && !isFirst && p.payloadLength === 0) return Verdict.invalidRequest;
    const verdict = kind === Kind.send ? this.acceptSend(p, b, isFirst) : this.acceptWrite(p, b, isFirst, isLast);
    if (verdict !== Verdict.ok) return verdict;
    this.kind = isLast ? Kind.none : kind;
    if (isLast && p.flags & Flag.consumesReceive) this.finish(p, kind);
    return Verdict.ok;
  }

  /** UC: the rest of this message is lost. The receive request it holds will be used for the next one. */
  abandon(): void {
    this.kind = Kind.none;
  }

  /** The request taken and the ones still posted complete with WR_FLUSH_ERR. A shared queue keeps its requests. */
  flush(isShared: boolean): void {
    this.kind = Kind.none;
    if (this.hasWork) this.completeWith(STATUS.WR_FLUSH_ERR);
    if (!isShared) this.queue.flush(this.host);
  }

  private take(): boolean {
    if (!this.hasWork) this.hasWork = this.queue.take(this.work);
    return this.hasWork;
  }

  private acceptSend(p: Packet, b: Uint8Array, isFirst: boolean): number {
    if (isFirst) {
      if (!this.take()) return Verdict.notReady;
      this.placed = 0;
    }
    if (this.placed + p.payloadLength > this.work.length) {
      this.completeWith(STATUS.LOC_LEN_ERR);
      return Verdict.tooLong;
    }
    const { work, memory } = this;
    const isEmpty = p.payloadLength === 0;
    if (!isEmpty && !(work.isWritable(memory) && work.scatter(memory, this.placed, b, p.payloadAt, p.payloadLength))) {
      this.completeWith(STATUS.LOC_PROT_ERR);
      return Verdict.localFault;
    }
    this.placed += p.payloadLength;
    return Verdict.ok;
  }

  private acceptWrite(p: Packet, b: Uint8Array, isFirst: boolean, isLast: boolean): number {
    if (isFirst) {
      if ((this.settings.access & ACCESS_REMOTE_WRITE) === 0 || p.dmaLength > MAX_MESSAGE_BYTES) return Verdict.invalidRequest;
      if (p.dmaLength > 0 && !this.memory.check(p.remoteKey, p.remoteAddress, p.dmaLength, ACCESS_REMOTE_WRITE)) {
        return Verdict.accessError;
      }
      this.address = p.remoteAddress;
      this.key = p.remoteKey;
      this.total = p.dmaLength;
      this.placed = 0;
    }
    const after = this.placed + p.payloadLength;
    if (isLast ? after !== this.total : after >= this.total) return Verdict.invalidRequest;
    if (isLast && p.flags & Flag.consumesReceive && !this.take()) return Verdict.notReady;
    if (p.payloadLength > 0) {
      const to = this.address + this.placed;
      if (!this.memory.check(this.key, to, p.payloadLength, ACCESS_REMOTE_WRITE)) return Verdict.accessError;
      if (!this.memory.write(this.key, to, p.payloadLength, b, p.payloadAt)) return Verdict.accessError;
    }
    this.placed = after;
    return Verdict.ok;
  }

  private finish(p: Packet, kind: number): void {
    if (p.flags & Flag.hasIeth) this.memory.invalidate(p.invalidateKey);
    this.hasWork = false;
    this.host.receiveComplete(
      this.work.id,
      STATUS.SUCCESS,
      kind === Kind.send ? WC_RECV : WC_RECV_RDMA_WITH_IMM,
      this.placed,
      p.flags & Flag.hasImm ? p.immediate : 0,
      p.flags & Flag.hasImm ? WC_WITH_IMM : 0,
      0,
      p.solicited,
    );
  }

  private completeWith(status: number): void {
    this.hasWork = false;
    this.host.receiveComplete(this.work.id, status, WC_RECV, 0, 0, 0, 0, false);
  }
}
