/**
 * The queue pair of the sim provider: the queues, and an endpoint of the transport that works on them from RTR on.
 *
 *     post ──> send queue ──> endpoint.next ──> frame ──> fabric
 *     fabric ──> device ──> endpoint.receive ──> memory, completions ──> endpoint.next (answers)
 *     endpoint.deadline ──> one timer in the fabric, renewed when it turns out to be early
 */

import { VerbsError } from '../../errors.js';
import type { QpAttributes, QpState } from '../../qp-state.js';
import type { QpInit } from '../../queue-pair.js';
import { EndpointControl } from '../../transport/endpoint-control.js';
import { TransportCounters, type TransportEndpoint } from '../../transport/host.js';
import type { Packet } from '../../transport/packet.js';
import { RcEndpoint } from '../../transport/rc-endpoint.js';
import { ReceivePoster } from '../../transport/receive-poster.js';
import { ReceiveQueue } from '../../transport/receive-queue.js';
import { SendQueue } from '../../transport/send-queue.js';
import { UdEndpoint } from '../../transport/ud-endpoint.js';
import { QueuedQueuePair } from '../queued-queue-pair.js';
import { destinationOf, GROUP_BIT } from './destination.js';
import type { SimDevice } from './device.js';
import type { Frame } from './frame.js';
import { gidKey, parseFabricGid } from './gid.js';
import type { SimProtectionDomain } from './protection-domain.js';
import { Reporter } from './reporter.js';
import type { SimSharedReceiveQueue } from './shared-receive-queue.js';

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
  private readonly groups = new Set<number>();
  private readonly control: EndpointControl;
  private peerIndex = 0;
  private timerAt = Number.POSITIVE_INFINITY;
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
    this.control = new EndpointControl({
      ...{ type: init.type, qpNum: this.qpNum, dcKey: this.dcKey >>> 0, mtu: device.fabric.mtu, isShared: this.isShared },
      sendQueue: this.sendQueue,
      receiveQueue: this.receiveQueue,
      memory: pd.memory,
      host: this.reporter,
      counters: this.counters,
      numbers: { allocate: () => device.allocateNumber(this), release: (number) => device.releaseNumber(number) },
      newToken: () => device.newToken(),
    });
    pd.adopt(this);
  }

  /** Who is at the other end, in words. */
  get peerName(): string {
    const { av, destQpNum } = this.attributes;
    if (av === undefined) return 'unknown';
    return `${this.device.fabric.devices[this.peerIndex]?.name ?? av.gid}, QP ${destQpNum}`;
  }

  protected receivesPosted(): void {
    if (this.state === 'ERR') this.flushReceives();
  }

  private flushReceives(): void {
    if (!this.simSrq) this.receiveQueue.flush(this.reporter);
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
    const bytes = parseFabricGid(group);
    if (bytes?.[0] !== 0xff) throw new VerbsError('VERBS_INVALID', `'${group}' is no multicast GID: it starts with ff`);
    const number = this.device.fabric.groupOf(gidKey(bytes));
    if (joins && !this.groups.has(number)) this.device.joinGroup(number, this);
    return number;
  }

  protected transition(from: QpState, to: QpState, attributes: QpAttributes): void {
    this.assertOpen();
    const { mtu } = this.device.fabric;
    const { pathMtu, av, enSqdAsyncNotify } = attributes;
    if (pathMtu !== undefined && pathMtu > mtu) {
      throw new VerbsError('VERBS_INVALID', `pathMtu ${pathMtu} is more than the ${mtu} bytes of this fabric`);
    }
    if (to === 'ERR') this.flush();
    else if (to === 'RESET') this.reporter.reset();
    else if (to === 'RTR' && av) this.peerIndex = destinationOf(this.device, av);
    else if (to === 'SQD' && from !== 'SQD') this.reporter.wantsDrained = enSqdAsyncNotify ?? false;
    this.endpoint = this.control.move(from, to, { ...this.attributes, ...attributes });
    // What was held back goes when the state has changed.
    if (to === 'RTS' && from === 'SQD') this.device.later(() => this.kick());
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
    this.pd.release(this);
  }

  /** Closes without asking: the device is going. */
  shut(): void {
    this.control.end();
    this.isClosed = true;
    this.endpoint = undefined;
    this.device.releaseNumber(this.qpNum);
  }
}
