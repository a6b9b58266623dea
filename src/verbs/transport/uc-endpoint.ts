/**
 * One end of an unreliable connection: RC's segmentation without its answers. A request completes when its last packet has left; a
 * message with a missing packet is gone as a whole, and nobody is told.
 *
 *     sender:    start ──> First, Middle ... Last ──> complete, next request          local fault ──> send queue error (sends flush) ── resume ──>
 *
 *     receiver:            PSN as expected                      PSN not as expected
 *         in step ──────────────────────────> place ;  First or Only: drop what was open, begin there
 *            ^                                         else: drop what was open ──> lost
 *            └──────── First or Only ───────────────────────────────────────────────────┘   (Middle, Last: drop)
 */

import { STATUS } from '../status.js';
import { NEVER, type TransportCounters, type TransportEndpoint, type TransportHost } from './host.js';
import { InboundMessage, Verdict } from './inbound-message.js';
import type { TransportMemory } from './memory.js';
import { Flag, Service } from './opcode.js';
import { encodeHeaders, Packet, padPacket } from './packet.js';
import { psnAdd } from './psn.js';
import type { ReceiveQueue } from './receive-queue.js';
import { MAX_MESSAGE_BYTES, packetBytes, packetCount, sendOp, writeOp } from './segmentation.js';
import { SendFlag, type SendQueue } from './send-queue.js';
import type { UcSettings } from './unreliable-settings.js';

const SEND = 0;
const SEND_WITH_IMM = 1;
const RDMA_WRITE_WITH_IMM = 3;

export interface UcEndpointParts {
  sendQueue: SendQueue;
  receiveQueue: ReceiveQueue;
  /** The receive queue is a shared one. Default: false. */
  isShared?: boolean;
  memory: TransportMemory;
  host: TransportHost;
  counters: TransportCounters;
}

export class UcEndpoint implements TransportEndpoint {
  readonly deadline = NEVER;
  readonly destination = 0;
  private readonly parts: UcEndpointParts;
  private readonly settings: UcSettings;
  private readonly inbound: InboundMessage;
  private readonly out = new Packet();
  private sendPsn: number;
  private expectedPsn: number;
  /** Packet of the head request to send next. */
  private index = 0;
  private isLost = false;
  private isFailed = false;
  private isSendFailed = false;
  private isPaused = false;
  private drainEnd = 0;

  constructor(parts: UcEndpointParts, settings: UcSettings) {
    this.parts = parts;
    this.settings = settings;
    this.inbound = new InboundMessage(parts.receiveQueue, parts.memory, parts.host, settings);
    this.sendPsn = settings.sendPsn;
    this.expectedPsn = settings.receivePsn;
    this.out.migrated = true;
    this.out.destQp = settings.destQp;
    this.out.partitionKey = settings.partitionKey ?? 0xffff;
  }

  /** Finishes what is in the queue now and starts nothing after it; the host hears SQ_DRAINED when it is out. */
  drain(): void {
    this.isPaused = true;
    this.drainEnd = this.parts.sendQueue.tail;
    if (this.parts.sendQueue.count === 0) this.parts.host.event('SQ_DRAINED');
  }

  /** The PSN that the next packet will have: set when the queue pair is made ready to send. */
  startAt(psn: number): void {
    this.sendPsn = psn;
  }

  /** Ends a drain, or the send queue's error state. */
  resume(): void {
    this.isPaused = false;
    this.isSendFailed = false;
  }

  next(b: Uint8Array, at: number): number {
    const q = this.parts.sendQueue;
    if (q.count === 0) return 0;
    if (this.isFailed || this.isSendFailed) {
      q.flush(this.parts.host);
      return 0;
    }
    const slot = q.slot(q.head);
    const length = q.length[slot];
    const { mtu } = this.settings;
    if (this.index === 0) {
      if (this.isPaused && q.head === this.drainEnd) return 0;
      if (length > MAX_MESSAGE_BYTES) return this.fail(STATUS.LOC_LEN_ERR);
      if (!q.checkLocal(this.parts.memory, slot, 0)) return this.fail(STATUS.LOC_PROT_ERR);
    }
    const packets = packetCount(length, mtu);
    const isLast = this.index === packets - 1;
    const opcode = q.opcode[slot];
    const p = this.out;
    if (opcode <= SEND_WITH_IMM) p.opcode = Service.uc | sendOp(this.index, packets, opcode !== SEND);
    else p.opcode = Service.uc | writeOp(this.index, packets, opcode === RDMA_WRITE_WITH_IMM);
    p.psn = this.sendPsn;
    p.solicited = isLast && (q.flags[slot] & SendFlag.solicited) !== 0;
    p.payloadLength = packetBytes(length, mtu, this.index);
    p.remoteAddress = q.remoteAddress[slot];
    p.remoteKey = q.remoteKey[slot];
    p.dmaLength = length;
    p.immediate = q.immediate[slot];
    const payloadAt = encodeHeaders(p, b, at);
    if (!q.gather(this.parts.memory, slot, this.index * mtu, p.payloadLength, b, payloadAt)) {
      this.index = 0;
      return this.fail(STATUS.LOC_PROT_ERR);
    }
    const sent = padPacket(p, b, payloadAt + p.payloadLength) - at;
    this.sendPsn = psnAdd(this.sendPsn, 1);
    this.parts.counters.packetsSent++;
    this.parts.counters.bytesSent += sent;
    this.index = isLast ? 0 : this.index + 1;
    if (isLast) {
      q.complete(this.parts.host, STATUS.SUCCESS);
      if (this.isPaused && q.head === this.drainEnd) this.parts.host.event('SQ_DRAINED');
    }
    return sent;
  }

  receive(p: Packet, b: Uint8Array): void {
    const { counters } = this.parts;
    if (this.isFailed || (p.flags & Flag.request) === 0) {
      counters.dropped++;
      return;
    }
    counters.packetsReceived++;
    const isFirst = (p.flags & Flag.first) !== 0;
    const isInStep = p.psn === this.expectedPsn && isFirst !== this.inbound.isOpen;
    this.expectedPsn = psnAdd(p.psn, 1);
    if (!isInStep) {
      this.inbound.abandon();
      counters.outOfSequence++;
    }
    if (isFirst) this.isLost = false;
    else if (!isInStep) this.isLost = true;
    if (this.isLost) return;
    const verdict = this.inbound.accept(p, b);
    if (verdict === Verdict.ok) {
      counters.bytesReceived += p.payloadLength;
      return;
    }
    this.inbound.abandon();
    this.isLost = true;
    counters.dropped++;
    if (verdict === Verdict.tooLong || verdict === Verdict.localFault) this.stop();
  }

  /** No timer ever runs. */
  tick(): void {}

  flush(): void {
    this.isFailed = true;
    this.index = 0;
    this.parts.sendQueue.flush(this.parts.host);
    this.inbound.flush(this.parts.isShared ?? false);
  }

  /** A send request fails: the send queue stops, receiving goes on. */
  private fail(status: number): 0 {
    const { sendQueue, host } = this.parts;
    sendQueue.complete(host, status);
    sendQueue.flush(host);
    this.isSendFailed = true;
    host.sendQueueError();
    return 0;
  }

  private stop(): void {
    this.flush();
    this.parts.host.event('QP_FATAL');
  }
}
