/**
 * The target of dynamically connected transport (DCT): serves any number of initiators from one shared receive queue. Each connection
 * has a context, an RC responder under a number of its own, for as long as the initiator uses it.
 *
 *              connect (right key, same MTU)              packets: RC
 *     (none) ──────────────────────────────> CONTEXT ──────────────────────> CONTEXT
 *        ^                                      │
 *        └── disconnect, or a newer connect of the same initiator, or silence for `DC_FORGET_NS` ──┘
 *
 * Contexts are kept for reuse, so connecting allocates nothing after a while, and an initiator that is not connected costs nothing.
 */

import { DcMessage, DcVerdict, decodeDc, encodeDc } from './dc-messages.js';
import type { EndpointParts } from './endpoint-parts.js';
import { NEVER, type TransportEndpoint } from './host.js';
import { DcOpcode, Flag } from './opcode.js';
import { Packet } from './packet.js';
import { RcResponder, type ResponderOwner } from './rc-responder.js';
import type { RcSettings } from './rc-settings.js';

/** A context whose initiator is silent for this long is dropped: longer than an initiator keeps an idle connection or retries. */
const DC_FORGET_NS = 600_000_000_000;

/** Numbers of contexts: queue pair numbers of the device, so that packets for them reach the target. */
export interface ContextNumbers {
  /** A number that was not used for long, or -1. */
  allocate(): number;
  release(number: number): void;
}

export interface DcTargetParts extends Omit<EndpointParts, 'sendQueue'> {
  readonly qpNum: number;
  readonly numbers: ContextNumbers;
  /** Key that initiators must name, 32 bits. */
  readonly dcKey: number;
  /** Connections at a time. Default 65536. */
  readonly maxContexts?: number;
}

class Context implements ResponderOwner {
  readonly responder: RcResponder;
  number = 0;
  source = 0;
  sourceQp = 0;
  token = 0;
  lastUsed = 0;
  isQueued = false;

  constructor(parts: DcTargetParts, settings: RcSettings) {
    this.responder = new RcResponder(parts.receiveQueue, true, parts.memory, parts.host, this, parts.counters, settings);
  }

  /** The initiator learns it by the NAK; the target and its other connections go on. */
  responderFailed(): void {
    this.responder.flush();
  }
}

interface Reply {
  destination: number;
  destQp: number;
  token: number;
  verdict: number;
  context: number;
}

export class DcTarget implements TransportEndpoint {
  destination = 0;
  private readonly parts: DcTargetParts;
  private readonly settings: RcSettings;
  private readonly byNumber = new Map<number, Context>();
  private readonly byInitiator = new Map<number, Context>();
  private readonly spare: Context[] = [];
  /** Contexts with something to send, in order. */
  private readonly ready: Context[] = [];
  private readonly replies: Reply[] = [];
  private readonly out = new Packet();
  private readonly message = new DcMessage();
  private isClosed = false;
  private sweepAt = NEVER;

  /** @param settings only the responder's fields count, and the MTU. */
  constructor(parts: DcTargetParts, settings: RcSettings) {
    this.parts = parts;
    this.settings = settings;
    this.out.migrated = true;
    this.out.sourceQp = parts.qpNum;
    this.out.partitionKey = settings.partitionKey ?? 0xffff;
  }

  get deadline(): number {
    return this.sweepAt;
  }

  /** Connections that are open now. */
  get contexts(): number {
    return this.byNumber.size;
  }

  receive(p: Packet, b: Uint8Array, now: number, source: number): void {
    if (this.isClosed) return;
    if (p.opcode === DcOpcode.connect) {
      if (decodeDc(p, b, this.message)) this.connect(p, source, now);
      return;
    }
    const context = this.byNumber.get(p.destQp);
    if (context === undefined || context.source !== source) {
      this.parts.counters.dropped++;
    } else if (p.opcode === DcOpcode.disconnect) {
      if (decodeDc(p, b, this.message) && this.message.token === context.token) this.drop(context);
    } else if (p.flags & Flag.request) {
      context.lastUsed = now;
      context.responder.receive(p, b);
      this.enqueue(context);
    }
  }

  next(b: Uint8Array, at: number): number {
    const reply = this.replies.shift();
    if (reply !== undefined) {
      const m = this.message;
      m.opcode = DcOpcode.connectReply;
      m.token = reply.token;
      m.verdict = reply.verdict;
      m.context = reply.context;
      this.out.destQp = reply.destQp;
      this.out.queueKey = 0;
      this.destination = reply.destination;
      this.parts.counters.packetsSent++;
      return encodeDc(this.out, m, b, at);
    }
    for (let context = this.ready[0]; context !== undefined; context = this.ready[0]) {
      const length = context.responder.next(b, at);
      if (length > 0) {
        this.destination = context.source;
        return length;
      }
      context.isQueued = false;
      this.ready.shift();
    }
    return 0;
  }

  tick(now: number): void {
    if (now < this.sweepAt) return;
    for (const context of [...this.byNumber.values()]) if (context.lastUsed + DC_FORGET_NS <= now) this.drop(context);
    this.sweepAt = this.byNumber.size > 0 ? now + DC_FORGET_NS : NEVER;
  }

  flush(): void {
    this.isClosed = true;
    for (const context of [...this.byNumber.values()]) this.drop(context);
  }

  private connect(p: Packet, source: number, now: number): void {
    const { token, psn, mtu } = this.message;
    const key = source * 0x1000000 + p.sourceQp;
    let context = this.byInitiator.get(key);
    const reply: Reply = { destination: source, destQp: p.sourceQp, token, verdict: DcVerdict.accepted, context: 0 };
    if (context !== undefined && context.token !== token) {
      if (((token - context.token) | 0) < 0) return;
      this.drop(context);
      context = undefined;
    }
    if (p.queueKey !== this.parts.dcKey) reply.verdict = DcVerdict.wrongKey;
    else if (mtu !== this.settings.mtu) reply.verdict = DcVerdict.mtuMismatch;
    else if (context === undefined) {
      const number = this.byNumber.size < (this.parts.maxContexts ?? 65536) ? this.parts.numbers.allocate() : -1;
      if (number < 0) {
        reply.verdict = DcVerdict.tooMany;
      } else {
        context = this.spare.pop() ?? new Context(this.parts, this.settings);
        context.number = number;
        context.source = source;
        context.sourceQp = p.sourceQp;
        context.token = token;
        context.responder.restart(p.sourceQp, psn);
        this.byNumber.set(number, context);
        this.byInitiator.set(key, context);
        if (this.sweepAt === NEVER) this.sweepAt = now + DC_FORGET_NS;
      }
    }
    if (context !== undefined) {
      context.lastUsed = now;
      reply.context = context.number;
    }
    this.replies.push(reply);
  }

  private enqueue(context: Context): void {
    if (context.isQueued || !context.responder.hasOutput) return;
    context.isQueued = true;
    this.ready.push(context);
  }

  private drop(context: Context): void {
    this.byNumber.delete(context.number);
    const key = context.source * 0x1000000 + context.sourceQp;
    if (this.byInitiator.get(key) === context) this.byInitiator.delete(key);
    this.parts.numbers.release(context.number);
    context.responder.flush();
    context.responder.restart(0, 0);
    if (this.spare.length < 64 && !context.isQueued) this.spare.push(context);
  }
}
