/**
 * The queue pair of a RoCE device in the program's thread: posts into queues that the engine works off, and follows the states it reports.
 */

import { VerbsError } from '../../errors.js';
import { ipText } from '../../ip-address.js';
import type { QpAttributes, QpState } from '../../qp-state.js';
import type { QpInit } from '../../queue-pair.js';
import { type Cause, STATUS, statusName } from '../../status.js';
import { RcEndpoint } from '../../transport/rc-endpoint.js';
import { ReceivePoster } from '../../transport/receive-poster.js';
import type { SendQueue } from '../../transport/send-queue.js';
import { QueuedQueuePair } from '../queued-queue-pair.js';
import { endFrom, endOf, isGroup } from './address.js';
import type { RoceCompletionQueue } from './completion-queue.js';
import type { RoceDevice } from './device.js';
import type { BorrowedQueuePair } from './inline-engine.js';
import type { End, QueuePairRecord } from './messages.js';
import type { RoceProtectionDomain } from './protection-domain.js';
import { QueuePairMemory } from './queue-pair-memory.js';
import type { RoceSharedReceiveQueue } from './shared-receive-queue.js';

/** READs and atomics that a responder remembers when nothing else is said. */
const DEFAULT_DEPTH = 16;

const FLUSHED = statusName(STATUS.WR_FLUSH_ERR);

export class RoceQueuePair extends QueuedQueuePair {
  readonly device: RoceDevice;
  readonly pd: RoceProtectionDomain;
  readonly qpNum: number;
  /** What failed first since the last RESET: a flush names it. */
  firstFailure: Cause | undefined;
  private readonly slot: number;
  private readonly record: QueuePairRecord;
  /** The values of a reliable connection (transport/state-copy.ts). */
  private values: SharedArrayBuffer | undefined;
  private readonly roceSrq: RoceSharedReceiveQueue | undefined;
  private readonly memory: QueuePairMemory;
  protected readonly sendQueue: SendQueue;
  protected readonly poster: ReceivePoster;
  protected readonly isShared: boolean;
  protected override psn = Math.floor(Math.random() * 0x1000000);
  /** Counts RESETs, as the engine does: what was reported before the last one is old news. */
  private epoch = 0;

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
    this.sendQueue = this.memory.sendQueue;
    this.isShared = this.roceSrq !== undefined;
    this.poster = new ReceivePoster(this.memory.receiveQueue);
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
    pd.adopt(this);
  }

  private get cqs(): [RoceCompletionQueue, RoceCompletionQueue] {
    return [this.sendCq as RoceCompletionQueue, this.recvCq as RoceCompletionQueue];
  }

  /** What the program's thread needs to run the transport of this queue pair itself. */
  borrowed(): BorrowedQueuePair {
    const { av } = this.attributes;
    const [sendCq, recvCq] = this.cqs;
    return {
      record: this.record,
      attributes: this.attributes,
      peer: av && endOf(av),
      sendCq: sendCq.ring,
      recvCq: recvCq.ring,
      srq: this.roceSrq?.memory,
      state: this.values,
    };
  }

  /** A place for the values, when there is none yet or it has become too small. */
  private newValues({ maxDestRdAtomic = DEFAULT_DEPTH }: QpAttributes): SharedArrayBuffer | undefined {
    const { maxSge } = this.roceSrq?.memory.queue ?? this.memory.receiveQueue;
    const bytes = 8 * (2 + RcEndpoint.stateWords(maxSge, maxDestRdAtomic));
    if (this.type !== 'RC' || (this.values && this.values.byteLength >= bytes)) return undefined;
    this.values = new SharedArrayBuffer(bytes);
    return this.values;
  }

  /** Who is at the other end, in words. */
  get peerName(): string {
    const { av, destQpNum } = this.attributes;
    if (av === undefined) return 'unknown';
    const { address, port } = endOf(av);
    return `${ipText(address)} port ${port}, QP ${destQpNum}`;
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
    const state = this.newValues(attributes);
    this.device.call({ kind: 'modify', slot: this.slot, from, to, attributes, changed, ...peer, ...(state && { state }) });
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

  /** Tells the engine that there is something to do. */
  kick(): void {
    this.device.ring(this.slot);
  }

  protected receivesPosted(): void {
    if (this.memory.isFailed) this.kick();
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
    this.pd.release(this);
  }

  /** Closes without asking: the device is going. */
  shut(): void {
    this.isClosed = true;
  }
}
