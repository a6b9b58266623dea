/**
 * A datagram queue pair: each request is one packet to the peer it names, each packet that arrives takes one receive request.
 *
 *     arriving:  Q_Key right? ──no──> dropped     receive request? ──none──> dropped     fits? ──no──> LOC_LEN_ERR, error
 *                                                                                        yes ──> placed, completed
 *
 * The first 40 bytes of a receive buffer are the global route header, filled from what the network layer knows: a RoCEv2 packet over
 * IPv6 has its IP header there, over IPv4 the 20 bytes of the IPv4 header in the second half.
 *
 * A multicast group is an address like any other here: the provider delivers one packet to every member.
 */

import { WC_RECV } from '../opcode.js';
import { STATUS } from '../status.js';
import { WC_GRH, WC_WITH_IMM } from '../work-completions.js';
import type { EndpointParts } from './endpoint-parts.js';
import { Flag, Op, Service } from './opcode.js';
import { encodeHeaders, type Packet, padPacket } from './packet.js';
import { ReceiveWork } from './receive-queue.js';
import { GRH_BYTES } from './route-header.js';
import { SendFlag } from './send-queue.js';
import { UnreliableEndpoint } from './unreliable-endpoint.js';
import type { UdSettings } from './unreliable-settings.js';

/** Queue pair number of multicast packets. */
export const MULTICAST_QP = 0xffffff;

/** A Q_Key with the top bit stands for "the Q_Key of the sender's queue pair". */
const PRIVILEGED_KEY = 0x80000000;

export class UdEndpoint extends UnreliableEndpoint {
  /** Address handle of the datagram made last. */
  destination = 0;
  /** The route header of the packet that `receive` is about to take: the provider fills it, or leaves it zero. */
  readonly routeHeader = new Uint8Array(GRH_BYTES);
  private readonly settings: UdSettings;
  private readonly work: ReceiveWork;

  constructor(parts: EndpointParts, settings: UdSettings) {
    super(parts, settings.sendPsn, settings.partitionKey);
    this.settings = settings;
    this.work = new ReceiveWork(parts.receiveQueue.maxSge);
    this.out.sourceQp = settings.qpNum;
  }

  next(b: Uint8Array, at: number): number {
    if (!this.canSend() || this.isHeldBack) return 0;
    const q = this.parts.sendQueue;
    const slot = q.slot(q.head);
    const length = q.length[slot];
    if (length > this.settings.mtu) return this.fail(STATUS.LOC_LEN_ERR);
    if (!q.checkLocal(this.parts.memory, slot, 0)) return this.fail(STATUS.LOC_PROT_ERR);
    const p = this.out;
    p.opcode = Service.ud | (q.opcode[slot] === 0 ? Op.sendOnly : Op.sendOnlyImm);
    p.destQp = q.destQp[slot];
    p.queueKey = q.destKey[slot] >= PRIVILEGED_KEY ? this.settings.queueKey : q.destKey[slot];
    p.immediate = q.immediate[slot];
    p.solicited = (q.flags[slot] & SendFlag.solicited) !== 0;
    p.payloadLength = length;
    const payloadAt = encodeHeaders(p, b, at);
    if (!q.gather(this.parts.memory, slot, 0, length, b, payloadAt)) return this.fail(STATUS.LOC_PROT_ERR);
    this.destination = q.destination[slot];
    return this.left(padPacket(p, b, payloadAt + length) - at, true);
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
      w.isWritable(memory) &&
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

  flush(): void {
    this.isFailed = true;
    this.parts.sendQueue.flush(this.parts.host);
    if (!this.parts.isShared) this.parts.receiveQueue.flush(this.parts.host);
  }
}
