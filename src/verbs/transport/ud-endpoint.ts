/**
 * A datagram queue pair: each request is one packet to the peer it names, each packet that arrives takes one receive request.
 *
 *     ready ── request longer than one MTU, or with a local fault ──> send queue error: sends flush ── resume ──> ready
 *
 *     arriving:  Q_Key right? ──no──> dropped     receive request? ──none──> dropped     fits? ──no──> LOC_LEN_ERR, error
 *                                                                                        yes ──> placed, completed
 *
 * The first 40 bytes of a receive buffer are the global route header, filled from what the network layer knows: a RoCEv2 packet over
 * IPv6 has its IP header there, over IPv4 the 20 bytes of the IPv4 header in the second half.
 *
 * A multicast group is an address like any other here: the provider delivers one packet to every member.
 */

import { ACCESS_LOCAL_WRITE } from '../access.js';
import { WC_RECV } from '../opcode.js';
import { STATUS } from '../status.js';
import { WC_GRH, WC_WITH_IMM } from '../work-completions.js';
import { NEVER, type TransportCounters, type TransportEndpoint, type TransportHost } from './host.js';
import type { TransportMemory } from './memory.js';
import { Flag, Op, Service } from './opcode.js';
import { encodeHeaders, Packet, padPacket } from './packet.js';
import { psnAdd } from './psn.js';
import { type ReceiveQueue, ReceiveWork } from './receive-queue.js';
import { SendFlag, type SendQueue } from './send-queue.js';
import type { UdSettings } from './unreliable-settings.js';

/** Bytes of route header before the payload of a received datagram. */
const GRH_BYTES = 40;

/** Queue pair number of multicast packets. */
export const MULTICAST_QP = 0xffffff;

/** A Q_Key with the top bit stands for "the Q_Key of the sender's queue pair". */
const PRIVILEGED_KEY = 0x80000000;

export interface UdEndpointParts {
  sendQueue: SendQueue;
  receiveQueue: ReceiveQueue;
  /** The receive queue is a shared one. Default: false. */
  isShared?: boolean;
  memory: TransportMemory;
  host: TransportHost;
  counters: TransportCounters;
}

export class UdEndpoint implements TransportEndpoint {
  readonly deadline = NEVER;
  /** Address handle of the datagram made last. */
  destination = 0;
  /** The route header of the packet that `receive` is about to take: the provider fills it, or leaves it zero. */
  readonly routeHeader = new Uint8Array(GRH_BYTES);
  private readonly parts: UdEndpointParts;
  private readonly settings: UdSettings;
  private readonly work: ReceiveWork;
  private readonly out = new Packet();
  private sendPsn: number;
  private isFailed = false;
  private isSendFailed = false;
  private isPaused = false;
  private drainEnd = 0;

  constructor(parts: UdEndpointParts, settings: UdSettings) {
    this.parts = parts;
    this.settings = settings;
    this.work = new ReceiveWork(parts.receiveQueue.maxSge);
    this.sendPsn = settings.sendPsn;
    this.out.migrated = true;
    this.out.sourceQp = settings.qpNum;
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
    if (this.isPaused && q.head === this.drainEnd) return 0;
    const slot = q.slot(q.head);
    const length = q.length[slot];
    if (length > this.settings.mtu) return this.fail(STATUS.LOC_LEN_ERR);
    if (!q.checkLocal(this.parts.memory, slot, 0)) return this.fail(STATUS.LOC_PROT_ERR);
    const p = this.out;
    p.opcode = Service.ud | (q.opcode[slot] === 0 ? Op.sendOnly : Op.sendOnlyImm);
    p.psn = this.sendPsn;
    p.destQp = q.destQp[slot];
    p.queueKey = q.destKey[slot] >= PRIVILEGED_KEY ? this.settings.queueKey : q.destKey[slot];
    p.immediate = q.immediate[slot];
    p.solicited = (q.flags[slot] & SendFlag.solicited) !== 0;
    p.payloadLength = length;
    const payloadAt = encodeHeaders(p, b, at);
    if (!q.gather(this.parts.memory, slot, 0, length, b, payloadAt)) return this.fail(STATUS.LOC_PROT_ERR);
    const sent = padPacket(p, b, payloadAt + length) - at;
    this.destination = q.destination[slot];
    this.sendPsn = psnAdd(this.sendPsn, 1);
    this.parts.counters.packetsSent++;
    this.parts.counters.bytesSent += sent;
    q.complete(this.parts.host, STATUS.SUCCESS);
    if (this.isPaused && q.head === this.drainEnd) this.parts.host.event('SQ_DRAINED');
    return sent;
  }

  receive(p: Packet, b: Uint8Array): void {
    const { counters, host, memory, receiveQueue } = this.parts;
    if (this.isFailed || (p.flags & Flag.hasDeth) === 0 || p.queueKey !== this.settings.queueKey) {
      counters.dropped++;
      return;
    }
    counters.packetsReceived++;
    const w = this.work;
    if (p.payloadLength > this.settings.mtu || !receiveQueue.take(w)) {
      counters.dropped++;
      return;
    }
    const total = GRH_BYTES + p.payloadLength;
    const isFitting = total <= w.length;
    const isPlaced =
      isFitting &&
      isWritable(memory, w) &&
      w.scatter(memory, 0, this.routeHeader, 0, GRH_BYTES) &&
      w.scatter(memory, GRH_BYTES, b, p.payloadAt, p.payloadLength);
    if (!isPlaced) {
      host.receiveComplete(w.id, isFitting ? STATUS.LOC_PROT_ERR : STATUS.LOC_LEN_ERR, WC_RECV, 0, 0, 0, 0, false);
      this.stop();
      return;
    }
    counters.bytesReceived += p.payloadLength;
    const hasImmediate = (p.flags & Flag.hasImm) !== 0;
    const flags = WC_GRH | (hasImmediate ? WC_WITH_IMM : 0);
    host.receiveComplete(w.id, STATUS.SUCCESS, WC_RECV, total, hasImmediate ? p.immediate : 0, flags, p.sourceQp, p.solicited);
  }

  /** No timer ever runs. */
  tick(): void {}

  flush(): void {
    this.isFailed = true;
    this.parts.sendQueue.flush(this.parts.host);
    if (this.parts.isShared) return;
    while (this.parts.receiveQueue.take(this.work)) {
      this.parts.host.receiveComplete(this.work.id, STATUS.WR_FLUSH_ERR, WC_RECV, 0, 0, 0, 0, false);
    }
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

function isWritable(memory: TransportMemory, w: ReceiveWork): boolean {
  for (let i = 0; i < w.sgeCount; i++) {
    if (w.sgeLength[i] > 0 && !memory.check(w.sgeKey[i], w.sgeAddress[i], w.sgeLength[i], ACCESS_LOCAL_WRITE)) return false;
  }
  return true;
}
