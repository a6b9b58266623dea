/**
 * The queue pair of a RoCE device in the program's thread: posts into queues that the engine works off, and follows the states it reports.
 */

import { VerbsError } from '../../errors.js';
import type { MemoryRegion } from '../../memory-region.js';
import { opcodeOf } from '../../opcode.js';
import type { QpInit } from '../../protection-domain.js';
import type { AddressVector, QpAttributes, QpState } from '../../qp-state.js';
import { type ConnectAttributes, type QpAddress, QueuePair } from '../../queue-pair.js';
import { type Cause, STATUS, statusName } from '../../status.js';
import { QueuedSend } from '../../transport/prepared-send.js';
import { RcEndpoint } from '../../transport/rc-endpoint.js';
import { QueuedReceive, ReceivePoster } from '../../transport/receive-poster.js';
import { SendFlag, SendWork } from '../../transport/send-queue.js';
import {
  type PreparedRecv,
  type PreparedSend,
  type PrepareSpec,
  type RecvWorkRequest,
  rejectRequest,
  type SendWorkRequest,
  sendFault,
} from '../../work-request.js';
import { endFrom, endOf, ipText, isGroup, ROCE_PORT } from './address.js';
import { RoceAddressHandle } from './address-handle.js';
import type { RoceCompletionQueue } from './completion-queue.js';
import type { RoceDevice } from './device.js';
import type { BorrowedQueuePair } from './inline-engine.js';
import type { End, QueuePairRecord } from './messages.js';
import type { RoceProtectionDomain } from './protection-domain.js';
import { QueuePairMemory } from './queue-pair-memory.js';
import type { RoceSharedReceiveQueue } from './shared-receive-queue.js';

/** READs and atomics that a responder remembers when nothing else is said. */
const DEFAULT_DEPTH = 16;
/** Elements of a list at most. */
const MAX_SGE = 64;

const FLUSHED = statusName(STATUS.WR_FLUSH_ERR);

export class RoceQueuePair extends QueuePair {
  readonly device: RoceDevice;
  readonly pd: RoceProtectionDomain;
  readonly qpNum: number;
  /** What failed first since the last RESET: a flush names it. */
  firstFailure: Cause | undefined;
  private readonly slot: number;
  private readonly record: QueuePairRecord;
  private state64: SharedArrayBuffer | undefined;
  private readonly roceSrq: RoceSharedReceiveQueue | undefined;
  private readonly memory: QueuePairMemory;
  private readonly poster: ReceivePoster;
  private readonly work: SendWork;
  private psn = Math.floor(Math.random() * 0x1000000);
  /** Counts RESETs, as the engine does: what was reported before the last one is old news. */
  private epoch = 0;
  private isClosed = false;

  constructor(pd: RoceProtectionDomain, init: QpInit) {
    super(init);
    const { device } = pd;
    if (!device.capabilities.qpTypes.includes(init.type)) {
      throw new VerbsError('VERBS_UNSUPPORTED', `a RoCE device has no ${String(init.type)} queue pairs`);
    }
    this.pd = pd;
    this.device = device;
    this.roceSrq = init.srq as RoceSharedReceiveQueue | undefined;
    const send = { depth: init.type === 'DCT' ? 1 : this.maxSendWr, maxSge: this.maxSendSge, maxInline: this.maxInline };
    const hasReceives = init.type !== 'DCI' && this.roceSrq === undefined;
    const receive = { depth: hasReceives ? this.maxRecvWr : 1, maxSge: this.maxRecvSge };
    const buffer = QueuePairMemory.make(send, receive);
    this.memory = new QueuePairMemory(send, receive, buffer);
    this.poster = new ReceivePoster(this.memory.receiveQueue);
    this.work = new SendWork(this.maxSendSge);
    const { slot, qpNum } = device.adoptQueuePair(this);
    this.slot = slot;
    this.qpNum = qpNum;
    const [sendCq, recvCq] = this.cqs;
    this.record = {
      slot,
      qpNum,
      type: init.type,
      domain: pd.number,
      sendCq: sendCq.number,
      recvCq: recvCq.number,
      srq: this.roceSrq?.number ?? -1,
      send,
      receive,
      buffer,
      dcKey: this.dcKey,
    };
    device.call({ kind: 'createQp', record: this.record });
    for (const cq of this.cqs) cq.users++;
    if (this.roceSrq) this.roceSrq.users++;
    pd.adopt(this);
  }

  private get cqs(): [RoceCompletionQueue, RoceCompletionQueue] {
    return [this.sendCq as RoceCompletionQueue, this.recvCq as RoceCompletionQueue];
  }

  /** What the program's thread needs to run the transport of this queue pair itself. */
  borrowed(): BorrowedQueuePair {
    const { av, maxDestRdAtomic = DEFAULT_DEPTH } = this.attributes;
    const bytes = 8 * (2 + RcEndpoint.stateWords(MAX_SGE, maxDestRdAtomic));
    if (this.state64 === undefined || this.state64.byteLength < bytes) this.state64 = new SharedArrayBuffer(bytes);
    const [sendCq, recvCq] = this.cqs;
    return {
      record: this.record,
      attributes: this.attributes,
      peer: av && endOf(av),
      sendCq: sendCq.ring,
      recvCq: recvCq.ring,
      srq: this.roceSrq?.memory,
      state: this.state64,
    };
  }

  address(): QpAddress {
    const { device, qpNum, psn, type, dcKey } = this;
    const av: AddressVector = { gid: device.gid, ...(device.port !== ROCE_PORT && { port: device.port }) };
    return {
      v: 1,
      provider: 'roce',
      av,
      qpNum,
      psn,
      mtu: device.capabilities.mtu,
      type,
      ...(this.attributes.qkey !== undefined && { qkey: this.attributes.qkey }),
      ...(type === 'DCT' && { dcKey }),
    };
  }

  /** Who is at the other end, in words. */
  get peerName(): string {
    const { av, destQpNum } = this.attributes;
    if (av === undefined) return 'unknown';
    const { address, port } = endOf(av);
    return `${ipText(address)} port ${port}, QP ${destQpNum}`;
  }

  /**
   * Connects as connection management means it: there, the PSN that a side names is the one it expects, so the peer's is the first that
   * this side sends, and this side's own is the first that it takes.
   */
  async connectManaged(peer: QpAddress, options?: ConnectAttributes): Promise<void> {
    const expected = this.psn;
    this.psn = peer.psn;
    try {
      await this.connect({ ...peer, psn: expected }, options);
    } finally {
      this.psn = expected;
    }
  }

  protected override speaksWith(provider: string): boolean {
    return provider === 'roce' || provider === 'ibverbs';
  }

  override get state(): QpState {
    this.device.progress();
    return super.state;
  }

  override modify(state: QpState, attributes: QpAttributes = {}): void {
    this.device.progress();
    super.modify(state, attributes);
  }

  protected transition(from: QpState, to: QpState, changed: QpAttributes): void {
    this.assertOpen();
    const { mtu } = this.device.capabilities;
    const attributes = { ...this.attributes, ...changed };
    if (to === 'RTR' && changed.pathMtu !== undefined && changed.pathMtu > mtu) {
      throw new VerbsError(
        'VERBS_INVALID',
        `pathMtu ${changed.pathMtu} is more than the ${mtu} bytes that fit the packets of this device's interface`,
      );
    }
    const peer = attributes.av && { peer: endOf(attributes.av) };
    this.device.call({ kind: 'modify', slot: this.slot, from, to, attributes, changed, ...peer });
    if (to !== 'RESET') return;
    this.epoch++;
    this.firstFailure = undefined;
  }

  /** The engine has changed the state. */
  entered(state: 'ERR' | 'SQE', epoch: number): void {
    if (epoch !== this.epoch || super.state === 'ERR' || this.isClosed) return;
    this.enter(state);
  }

  /** A completion says that a request failed: the state follows, if the news of it is still under way. */
  noteFailure(cause: Cause, isReceive: boolean, epoch: number): void {
    if (epoch !== this.epoch) return;
    const isFlush = cause.status === FLUSHED;
    if (!isFlush) this.firstFailure ??= cause;
    const isUnreliable = this.type === 'UC' || this.type === 'UD';
    if (!isUnreliable || isReceive) this.entered('ERR', epoch);
    else if (!isFlush) this.entered('SQE', epoch);
  }

  postSend(wr: SendWorkRequest | readonly SendWorkRequest[]): void {
    this.assertOpen();
    const chain = Array.isArray(wr) ? (wr as readonly SendWorkRequest[]) : [wr as SendWorkRequest];
    try {
      for (let i = 0; i < chain.length; i++) this.postOne(chain[i], i);
    } finally {
      this.kick();
    }
  }

  private postOne(wr: SendWorkRequest, index: number): void {
    this.assertSends(index);
    const fault = sendFault(this.type, wr, this);
    if (fault) rejectRequest(fault, index);
    const w = this.work;
    const sgl = wr.sgl ?? [];
    w.opcode = opcodeOf(wr.opcode);
    w.flags =
      (wr.signaled === false ? 0 : SendFlag.signaled) | (wr.fence ? SendFlag.fence : 0) | (wr.solicited ? SendFlag.solicited : 0);
    w.id = wr.id ?? 0;
    w.immediate = wr.imm ?? 0;
    w.remoteAddress = wr.remoteAddr ?? 0;
    w.remoteKey = (wr.rkey ?? 0) >>> 0;
    const swap = BigInt.asUintN(64, (wr.opcode === 'ATOMIC_FETCH_AND_ADD' ? wr.add : wr.swap) ?? 0n);
    const compare = BigInt.asUintN(64, wr.compare ?? 0n);
    w.swapHi = Number(swap >> 32n);
    w.swapLo = Number(swap & 0xffffffffn);
    w.compareHi = Number(compare >> 32n);
    w.compareLo = Number(compare & 0xffffffffn);
    w.destQp = wr.remoteQpn ?? 0;
    w.destKey = ((this.type === 'DCI' ? wr.dcKey : wr.remoteQkey) ?? 0) >>> 0;
    if (wr.ah) w.destination = this.destinationOf(wr.ah, index);
    w.sgeCount = sgl.length;
    for (let s = 0; s < sgl.length; s++) {
      w.sgeAddress[s] = sgl[s].addr;
      w.sgeLength[s] = sgl[s].length;
      w.sgeKey[s] = sgl[s].lkey;
    }
    w.inlineData = wr.inlineData ?? (wr.inline ? this.gatherInline(w) : null);
    this.postWork(w, index);
  }

  /** Posts what a `SendWork` holds, in a state that takes sends. The caller kicks. */
  postWork(work: SendWork, index: number): void {
    this.assertSends(index);
    if (this.sqSigAll) work.flags |= SendFlag.signaled;
    if (this.memory.sendQueue.push(work)) return;
    throw new VerbsError('VERBS_QUEUE_FULL', `the send queue holds ${this.maxSendWr} requests: wait for a completion`, {
      badIndex: index,
    });
  }

  /** Tells the engine that there is something to do. */
  kick(): void {
    this.device.ring(this.slot);
  }

  private destinationOf(ah: unknown, index: number): number {
    if (!(ah instanceof RoceAddressHandle) || ah.isClosed) {
      rejectRequest('ah is closed, or is no address handle of this device: make one with pd.createAh', index);
    }
    return ah.destination;
  }

  /** The bytes of the list, taken now; null when a key is wrong: then the request fails as one that is not inline. */
  private gatherInline(w: SendWork): Uint8Array | null {
    const bytes = new Uint8Array(this.maxInline);
    let at = 0;
    for (let s = 0; s < w.sgeCount; s++) {
      if (!this.pd.memory.read(w.sgeKey[s], w.sgeAddress[s], w.sgeLength[s], bytes, at)) return null;
      at += w.sgeLength[s];
    }
    return bytes.subarray(0, at);
  }

  postRecv(wr: RecvWorkRequest | readonly RecvWorkRequest[]): void {
    this.assertReceives();
    try {
      this.poster.post(wr);
    } finally {
      if (this.memory.isFailed) this.kick();
    }
  }

  postRange(addr: number, length: number, lkey: number, id: number): void {
    this.assertReceives();
    this.poster.postOne(addr, length, lkey, id);
    if (this.memory.isFailed) this.kick();
  }

  prepare(spec: PrepareSpec): PreparedSend {
    this.assertOpen();
    if (spec.ah) this.destinationOf(spec.ah, 0);
    return new QueuedSend(this, spec);
  }

  prepareRecv(region: MemoryRegion): PreparedRecv {
    this.assertOpen();
    return new QueuedReceive(this, region);
  }

  private assertOpen(): void {
    if (this.isClosed || this.device.isClosed) throw new VerbsError('VERBS_CLOSED', 'the queue pair is closed', { badIndex: 0 });
  }

  private assertSends(index: number): void {
    this.assertOpen();
    const { type } = this;
    const state = super.state;
    if (type === 'DCT') {
      throw new VerbsError('VERBS_ILLEGAL', 'a DC target takes no sends: use a DC initiator', { badIndex: index });
    }
    if (state === 'RESET' || state === 'INIT' || state === 'RTR') {
      throw new VerbsError('VERBS_ILLEGAL', `sends are posted in RTS, not in ${state}: connect the queue pair first`, {
        badIndex: index,
      });
    }
  }

  private assertReceives(): void {
    this.assertOpen();
    if (this.roceSrq) {
      throw new VerbsError('VERBS_ILLEGAL', 'the queue pair receives through its shared receive queue: post there', {
        badIndex: 0,
      });
    }
    if (this.type === 'DCI') throw new VerbsError('VERBS_ILLEGAL', 'a DC initiator only sends: use a DC target', { badIndex: 0 });
    if (super.state === 'RESET') {
      throw new VerbsError('VERBS_ILLEGAL', 'receives are posted from INIT on, not in RESET', { badIndex: 0 });
    }
  }

  attachMulticast(group: string): void {
    this.device.call({ kind: 'join', slot: this.slot, group: this.groupOf(group) });
  }

  detachMulticast(group: string): void {
    this.device.call({ kind: 'leave', slot: this.slot, group: this.groupOf(group) });
  }

  private groupOf(gid: string): End {
    this.assertOpen();
    if (this.type !== 'UD') throw new VerbsError('VERBS_ILLEGAL', `multicast is for UD queue pairs, this one is ${this.type}`);
    if (!this.device.capabilities.multicast) {
      throw new VerbsError('VERBS_UNSUPPORTED', 'the IPv6 loopback carries no multicast: open the device on another address');
    }
    const end = endFrom({ gid }, this.device.address.length);
    if (isGroup(end.address)) return end;
    throw new VerbsError(
      'VERBS_INVALID',
      `'${gid}' is no multicast GID: it starts with ff, or is ::ffff:224.0.0.0 to ::ffff:239.255.255.255`,
    );
  }

  /** To the error state from outside: a connection ended. */
  stop(): void {
    if (this.isClosed || this.device.isClosed || this.state === 'ERR' || this.state === 'RESET') return;
    this.device.call({ kind: 'stop', slot: this.slot });
    this.device.progress();
  }

  close(): void {
    if (this.isClosed) return;
    if (!this.device.isClosed) this.device.call({ kind: 'closeQp', slot: this.slot });
    this.shut();
    this.device.releaseQueuePair(this.slot, this.qpNum);
    for (const cq of this.cqs) cq.users--;
    if (this.roceSrq) this.roceSrq.users--;
    this.pd.release(this);
  }

  /** Closes without asking: the device is going. */
  shut(): void {
    this.isClosed = true;
  }
}
