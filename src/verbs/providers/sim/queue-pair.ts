/**
 * The queue pair of the sim provider: the queues, and an endpoint of the transport that works on them from RTR on.
 *
 *     post ──> send queue ──> endpoint.next ──> frame ──> fabric
 *     fabric ──> device ──> endpoint.receive ──> memory, completions ──> endpoint.next (answers)
 *     endpoint.deadline ──> one timer in the fabric, renewed when it turns out to be early
 */

import { VerbsError } from '../../errors.js';
import type { QpInit } from '../../protection-domain.js';
import type { QpAttributes, QpState } from '../../qp-state.js';
import type { QpAddress } from '../../queue-pair.js';
import { DcInitiator } from '../../transport/dc-initiator.js';
import { DcTarget } from '../../transport/dc-target.js';
import { TransportCounters, type TransportEndpoint } from '../../transport/host.js';
import type { Packet } from '../../transport/packet.js';
import { RcEndpoint } from '../../transport/rc-endpoint.js';
import type { RcSettings } from '../../transport/rc-settings.js';
import { ReceivePoster } from '../../transport/receive-poster.js';
import { ReceiveQueue, ReceiveWork } from '../../transport/receive-queue.js';
import { SendQueue } from '../../transport/send-queue.js';
import { UcEndpoint } from '../../transport/uc-endpoint.js';
import { UdEndpoint } from '../../transport/ud-endpoint.js';
import { rejectRequest } from '../../work-request.js';
import { QueuedQueuePair } from '../queued-queue-pair.js';
import { destinationOf, GROUP_BIT, SimAddressHandle } from './address-handle.js';
import type { SimCompletionQueue } from './completion-queue.js';
import type { SimDevice } from './device.js';
import type { Frame } from './frame.js';
import { gidKey, parseGid } from './gid.js';
import type { SimProtectionDomain } from './protection-domain.js';
import { Reporter } from './reporter.js';
import type { SimSharedReceiveQueue } from './shared-receive-queue.js';

/** An endpoint that sends: all but the DC target. */
interface Sender extends TransportEndpoint {
  drain(): void;
  resume(): void;
}

const FLUSH = 5;
const RECV = 7;

export class SimQueuePair extends QueuedQueuePair {
  readonly device: SimDevice;
  readonly pd: SimProtectionDomain;
  readonly qpNum: number;
  readonly counters = new TransportCounters();
  readonly simSrq: SimSharedReceiveQueue | undefined;
  endpoint: TransportEndpoint | undefined;
  protected readonly sendQueue: SendQueue;
  private readonly receiveQueue: ReceiveQueue;
  protected readonly poster: ReceivePoster;
  protected readonly isShared: boolean;
  private readonly reporter: Reporter;
  protected psn: number;
  private readonly groups = new Set<number>();
  /** The settings that the endpoint looks at. */
  private settings: RcSettings | undefined;
  private peerIndex = 0;
  private timerAt = Number.POSITIVE_INFINITY;
  private isClosed = false;
  private isKicking = false;
  private readonly timer = { happen: (): void => this.timerFired() };

  constructor(pd: SimProtectionDomain, init: QpInit) {
    super(init);
    const { device } = pd;
    if (!device.capabilities.qpTypes.includes(init.type)) {
      throw new VerbsError('VERBS_UNSUPPORTED', `a simulated device has no ${String(init.type)} queue pairs`);
    }
    this.pd = pd;
    this.device = device;
    this.simSrq = init.srq as SimSharedReceiveQueue | undefined;
    const hasSends = init.type !== 'DCT';
    this.sendQueue = new SendQueue({ depth: hasSends ? this.maxSendWr : 1, maxSge: this.maxSendSge, maxInline: this.maxInline });
    this.receiveQueue =
      this.simSrq?.queue ?? new ReceiveQueue({ depth: init.type === 'DCI' ? 1 : this.maxRecvWr, maxSge: this.maxRecvSge });
    this.isShared = this.simSrq !== undefined;
    this.poster = new ReceivePoster(this.receiveQueue);
    this.reporter = new Reporter(this);
    this.qpNum = device.allocateNumber(this);
    this.psn = device.fabric.random.below(0x1000000);
    for (const cq of [this.sendCq, this.recvCq] as SimCompletionQueue[]) cq.users++;
    if (this.simSrq) this.simSrq.users++;
    pd.adopt(this);
  }

  address(): QpAddress {
    const { device, qpNum, psn, type, dcKey } = this;
    return {
      v: 1,
      provider: 'sim',
      av: { gid: device.gid },
      qpNum,
      psn,
      mtu: device.fabric.mtu,
      type,
      ...(this.attributes.qkey !== undefined && { qkey: this.attributes.qkey }),
      ...(type === 'DCT' && { dcKey }),
    };
  }

  /** Who is at the other end, in words. */
  get peerName(): string {
    const { av, destQpNum } = this.attributes;
    if (av === undefined) return 'unknown';
    return `${this.device.fabric.devices[this.peerIndex]?.name ?? av.gid}, QP ${destQpNum}`;
  }

  protected destinationOf(ah: unknown, index: number): number {
    if (!(ah instanceof SimAddressHandle) || ah.isClosed) {
      rejectRequest('ah is closed, or is no address handle of this device: make one with pd.createAh', index);
    }
    return ah.destination;
  }

  protected assertOpen(): void {
    if (this.isClosed || this.device.isClosed) throw new VerbsError('VERBS_CLOSED', 'the queue pair is closed', { badIndex: 0 });
  }

  protected receivesPosted(): void {
    if (this.state === 'ERR') this.flushReceives();
  }

  private flushReceives(): void {
    const w = new ReceiveWork(this.receiveQueue.maxSge);
    while (!this.simSrq && this.receiveQueue.take(w)) this.reporter.receiveComplete(w.id, FLUSH, RECV, 0, 0, 0, 0, false);
  }

  attachMulticast(group: string): void {
    this.groups.add(this.groupOf(group, true));
  }

  detachMulticast(group: string): void {
    const number = this.groupOf(group, false);
    if (!this.groups.delete(number)) throw new VerbsError('VERBS_INVALID', `the queue pair is not in the group ${group}`);
    this.device.leaveGroup(number, this);
  }

  private groupOf(group: string, joins: boolean): number {
    this.assertOpen();
    if (this.type !== 'UD') throw new VerbsError('VERBS_ILLEGAL', `multicast is for UD queue pairs, this one is ${this.type}`);
    const bytes = parseGid(group);
    if (bytes?.[0] !== 0xff) throw new VerbsError('VERBS_INVALID', `'${group}' is no multicast GID: it starts with ff`);
    const number = this.device.fabric.groupOf(gidKey(bytes));
    if (joins && !this.groups.has(number)) this.device.joinGroup(number, this);
    return number;
  }

  protected transition(from: QpState, to: QpState, attributes: QpAttributes): void {
    this.assertOpen();
    const merged = { ...this.attributes, ...attributes };
    if (to === 'RESET') this.reset();
    else if (to === 'RTR') this.makeEndpoint(merged);
    else if (to === 'RTS') this.makeReady(from, merged);
    else if (to === 'SQD') this.drain(from, attributes);
    else if (to === 'ERR') this.flush();
    if (this.settings) this.applyAttributes(merged);
    // What was held back goes when the state has changed.
    if (to === 'RTS' && from === 'SQD') this.device.later(() => this.kick());
  }

  private reset(): void {
    this.endpoint = undefined;
    this.settings = undefined;
    this.sendQueue.clear();
    if (!this.simSrq) this.receiveQueue.clear();
    this.reporter.reset();
  }

  private flush(): void {
    if (this.endpoint) this.endpoint.flush();
    this.flushReceives();
    this.lastRequestReached();
  }

  private lastRequestReached(): void {
    if (!this.simSrq || this.state === 'ERR') return;
    const words = 'the queue pair is in the error state and takes nothing more from its shared receive queue';
    this.device.raise({ type: 'QP_LAST_WQE_REACHED', qpNum: this.qpNum, words });
  }

  private drain(from: QpState, attributes: QpAttributes): void {
    if (from === 'SQD') return;
    this.reporter.wantsDrained = attributes.enSqdAsyncNotify ?? false;
    (this.endpoint as Sender).drain();
  }

  private makeEndpoint(a: QpAttributes): void {
    const { sendQueue, receiveQueue, device } = this;
    const { mtu } = device.fabric;
    if (a.pathMtu !== undefined && a.pathMtu > mtu) {
      throw new VerbsError('VERBS_INVALID', `pathMtu ${a.pathMtu} is more than the ${mtu} bytes of this fabric`);
    }
    if (a.av) this.peerIndex = destinationOf(device, a.av);
    const parts = {
      sendQueue,
      receiveQueue,
      isShared: this.simSrq !== undefined,
      memory: this.pd.memory,
      host: this.reporter,
      counters: this.counters,
    };
    const settings = settingsOf(a, mtu);
    this.settings = settings;
    if (this.type === 'RC') this.endpoint = new RcEndpoint(parts, settings);
    else if (this.type === 'UC') this.endpoint = new UcEndpoint(parts, settings);
    else if (this.type === 'UD') {
      this.endpoint = new UdEndpoint(parts, { qpNum: this.qpNum, mtu, sendPsn: 0, queueKey: a.qkey ?? 0 });
    } else if (this.type === 'DCT') {
      const numbers = { allocate: () => device.allocateNumber(this), release: (n: number) => device.releaseNumber(n) };
      this.endpoint = new DcTarget({ ...parts, qpNum: this.qpNum, numbers, dcKey: this.dcKey >>> 0 }, settings);
    }
  }

  private makeReady(from: QpState, a: QpAttributes): void {
    if (from === 'SQD' || from === 'SQE') {
      (this.endpoint as Sender).resume();
    } else if (from === 'RTR') {
      const psn = a.sqPsn ?? 0;
      if (this.endpoint instanceof RcEndpoint || this.endpoint instanceof UcEndpoint || this.endpoint instanceof UdEndpoint) {
        this.endpoint.startAt(psn);
      } else if (this.type === 'DCI') {
        const { sendQueue, qpNum, counters } = this;
        this.settings = settingsOf(a, this.device.fabric.mtu);
        this.endpoint = new DcInitiator(
          { qpNum, sendQueue, memory: this.pd.memory, host: this.reporter, counters, firstToken: this.device.newToken() },
          this.settings,
        );
      }
    }
  }

  private applyAttributes(a: QpAttributes): void {
    const { destQp, sendPsn, receivePsn } = this.settings as RcSettings;
    Object.assign(this.settings as RcSettings, settingsOf(a, this.device.fabric.mtu), { destQp, sendPsn, receivePsn });
  }

  /** The transport found an error: the state follows. */
  fail(state: 'ERR' | 'SQE'): void {
    if (state === 'ERR') {
      this.lastRequestReached();
      this.enter('ERR');
      this.flushReceives();
    } else {
      this.enter('SQE');
    }
  }

  /** To the error state from outside: a queue overran, a connection ended. */
  stop(): void {
    if (this.isClosed || this.state === 'ERR' || this.state === 'RESET') return;
    this.flush();
    this.enter('ERR');
  }

  receive(p: Packet, frame: Frame): void {
    const { endpoint } = this;
    if (endpoint === undefined || this.isClosed) return;
    if ((this.type === 'RC' || this.type === 'UC') && frame.from !== this.peerIndex) return;
    if (frame.isMarked && endpoint instanceof RcEndpoint) endpoint.marked(this.device.fabric.nowNs);
    if (endpoint instanceof UdEndpoint) this.device.fillRouteHeader(endpoint.routeHeader, frame);
    endpoint.receive(p, frame.bytes, this.device.fabric.nowNs, frame.from);
    this.kick();
  }

  /** Lets the endpoint send what it has, and sets its timer. */
  kick(): void {
    const { endpoint, device } = this;
    if (endpoint === undefined || this.isKicking || this.isClosed) return;
    this.isKicking = true;
    const { fabric } = device;
    const now = fabric.nowNs;
    const isConnected = this.type === 'RC' || this.type === 'UC';
    for (;;) {
      const frame = fabric.spare;
      frame.length = endpoint.next(frame.bytes, frame.at, now);
      if (frame.length === 0) break;
      const destination = isConnected ? this.peerIndex : endpoint.destination;
      if (destination >= GROUP_BIT) fabric.sendToGroup(device, destination & 0x7fffffff);
      else fabric.send(device, destination);
    }
    this.isKicking = false;
    this.setTimer();
  }

  private setTimer(): void {
    const { deadline } = this.endpoint as TransportEndpoint;
    if (deadline >= this.timerAt) return;
    this.timerAt = deadline;
    this.device.fabric.schedule(deadline, this.timer);
  }

  private timerFired(): void {
    const now = this.device.fabric.nowNs;
    if (now < this.timerAt) return;
    this.timerAt = Number.POSITIVE_INFINITY;
    if (this.endpoint === undefined || this.isClosed || this.device.isDead) return;
    if (this.endpoint.deadline <= now) this.endpoint.tick(now);
    this.kick();
  }

  close(): void {
    if (this.isClosed) return;
    for (const number of this.groups) this.device.leaveGroup(number, this);
    this.shut();
    for (const cq of [this.sendCq, this.recvCq] as SimCompletionQueue[]) cq.users--;
    if (this.simSrq) this.simSrq.users--;
    this.pd.release(this);
  }

  /** Closes without asking: the device is going. */
  shut(): void {
    if (this.endpoint instanceof DcTarget) this.endpoint.flush();
    this.isClosed = true;
    this.endpoint = undefined;
    this.device.releaseNumber(this.qpNum);
  }
}

/** What the transport needs of the attributes. */
function settingsOf(a: QpAttributes, mtu: number): RcSettings {
  return {
    destQp: a.destQpNum ?? 0,
    mtu: a.pathMtu ?? mtu,
    sendPsn: a.sqPsn ?? 0,
    receivePsn: a.rqPsn ?? 0,
    timeout: a.timeout ?? 14,
    retryCount: a.retryCnt ?? 7,
    rnrRetry: a.rnrRetry ?? 7,
    minRnrTimer: a.minRnrTimer ?? 1,
    maxRdAtomic: a.maxRdAtomic ?? 16,
    maxDestRdAtomic: a.maxDestRdAtomic ?? 16,
    access: a.accessFlags ?? 0,
  };
}
