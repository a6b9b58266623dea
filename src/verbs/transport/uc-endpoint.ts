/**
 * One end of an unreliable connection: RC's segmentation without its answers. A message with a missing packet is gone as a whole, and nobody is
 * told.
 *
 *     receiver:            PSN as expected                      PSN not as expected
 *         in step ──────────────────────────> place ;  First or Only: drop what was open, begin there
 *            ^                                         else: drop what was open ──> lost
 *            └──────── First or Only ───────────────────────────────────────────────────┘   (Middle, Last: drop)
 */

import { STATUS } from '../status.js';
import type { EndpointParts } from './endpoint-parts.js';
import { InboundMessage, Verdict } from './inbound-message.js';
import { Flag, Service } from './opcode.js';
import { encodeHeaders, type Packet, padPacket } from './packet.js';
import { psnAdd } from './psn.js';
import { fillData } from './request-packet.js';
import { MAX_MESSAGE_BYTES, packetCount } from './segmentation.js';
import { UnreliableEndpoint } from './unreliable-endpoint.js';
import type { UcSettings } from './unreliable-settings.js';

export class UcEndpoint extends UnreliableEndpoint {
  readonly destination = 0;
  private readonly settings: UcSettings;
  private readonly inbound: InboundMessage;
  private expectedPsn: number;
  /** Packet of the head request to send next. */
  private index = 0;
  private isLost = false;

  constructor(parts: EndpointParts, settings: UcSettings) {
    super(parts, settings.sendPsn, settings.partitionKey);
    this.settings = settings;
    this.inbound = new InboundMessage(parts.receiveQueue, parts.memory, parts.host, settings);
    this.expectedPsn = settings.receivePsn;
    this.out.destQp = settings.destQp;
  }

  next(b: Uint8Array, at: number): number {
    if (!this.canSend()) return 0;
    const q = this.parts.sendQueue;
    const slot = q.slot(q.head);
    const length = q.length[slot];
    const { mtu } = this.settings;
    if (this.index === 0) {
      if (this.isHeldBack) return 0;
      if (length > MAX_MESSAGE_BYTES) return this.fail(STATUS.LOC_LEN_ERR);
      if (!q.checkLocal(this.parts.memory, slot, 0)) return this.fail(STATUS.LOC_PROT_ERR);
    }
    const packets = packetCount(length, mtu);
    const isLast = this.index === packets - 1;
    const p = this.out;
    fillData(p, q, slot, Service.uc, this.index, packets, mtu);
    const payloadAt = encodeHeaders(p, b, at);
    if (!q.gather(this.parts.memory, slot, this.index * mtu, p.payloadLength, b, payloadAt)) {
      this.index = 0;
      return this.fail(STATUS.LOC_PROT_ERR);
    }
    this.index = isLast ? 0 : this.index + 1;
    return this.left(padPacket(p, b, payloadAt + p.payloadLength) - at, isLast);
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

  flush(): void {
    this.isFailed = true;
    this.index = 0;
    this.parts.sendQueue.flush(this.parts.host);
    this.inbound.flush(this.parts.isShared ?? false);
  }
}
