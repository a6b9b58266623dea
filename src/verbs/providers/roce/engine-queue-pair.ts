/**
 * A queue pair in the engine's thread: the endpoint of the transport that works on the shared queues from RTR on, and what it reports.
 *
 *     doorbell ──> send queue ──> endpoint.next ──> batch ──> socket
 *     socket ──> engine ──> endpoint.receive ──> memory, completion ring ──> endpoint.next (answers)
 */

import type { AsyncEventType } from '../../device.js';
import type { QpAttributes, QpState } from '../../qp-state.js';
import { STATUS } from '../../status.js';
import { EndpointControl } from '../../transport/endpoint-control.js';
import type { TransportEndpoint, TransportHost } from '../../transport/host.js';
import type { TransportMemory } from '../../transport/memory.js';
import { Service } from '../../transport/opcode.js';
import type { RcEndpoint } from '../../transport/rc-endpoint.js';
import type { ReceiveQueue } from '../../transport/receive-queue.js';
import { StateCopy } from '../../transport/state-copy.js';
import { ACK_TIMEOUT_NS } from '../../transport/timing.js';
import { type CompletionRing, Pushed } from './completion-ring.js';
import type { DataPath } from './data-path.js';
import { FastQueuePair } from './fast-path.js';
import type { QueuePairRecord } from './messages.js';
import type { Path } from './paths.js';
import { QueuePairMemory } from './queue-pair-memory.js';
import type { SharedReceiveMemory } from './shared-receive-memory.js';

/** VERBENA_ROCE_FAST=0 in the environment: every packet goes through the machines of transport/, for tests. */
const FAST = process.env['VERBENA_ROCE_FAST'] !== '0';

/** Where native/rc-fast.h has the deadline. */
const DEADLINE = 5;

export class EngineQueuePair implements TransportHost {
  readonly record: QueuePairRecord;
  readonly memory: QueuePairMemory;
  readonly sendCq: CompletionRing;
  readonly recvCq: CompletionRing;
  endpoint: TransportEndpoint | undefined;
  /** Where a connected queue pair sends. */
  peer: Path | undefined;
  /** Is among those that may have something to send. */
  isReady = false;
  /** Its machine has its values in this turn; else they are in shared memory. */
  isTouched = false;
  /** How C knows it, where C carries usual packets out. */
  fast: FastQueuePair | undefined;
  /** When its entry among the timers falls due. */
  timerAt = Number.POSITIVE_INFINITY;
  private readonly engine: DataPath;
  private readonly srq: SharedReceiveMemory | undefined;
  private readonly receiveQueue: ReceiveQueue;
  private readonly control: EndpointControl;
  private epoch = 0;
  private wantsDrained = false;
  private copy: StateCopy | undefined;

  constructor(
    engine: DataPath,
    record: QueuePairRecord,
    domain: TransportMemory,
    sendCq: CompletionRing,
    recvCq: CompletionRing,
    srq: SharedReceiveMemory | undefined,
  ) {
    this.engine = engine;
    this.record = record;
    this.sendCq = sendCq;
    this.recvCq = recvCq;
    this.srq = srq;
    this.memory = new QueuePairMemory(record.send, record.receive, record.buffer);
    this.receiveQueue = srq?.queue ?? this.memory.receiveQueue;
    const { type, qpNum, dcKey } = record;
    const { mtu, window } = engine.data;
    this.control = new EndpointControl({
      ...{ type, qpNum, dcKey: dcKey >>> 0, mtu, window, isShared: srq !== undefined },
      sendQueue: this.memory.sendQueue,
      receiveQueue: this.receiveQueue,
      memory: domain,
      host: this,
      counters: engine.counters,
      numbers: { allocate: () => engine.allocateNumber(this), release: (number) => engine.releaseNumber(number) },
      newToken: () => engine.newToken(),
    });
  }

  /** In the error state. */
  get isFailed(): boolean {
    return this.memory.isFailed;
  }

  get isConnected(): boolean {
    return this.record.type === 'RC' || this.record.type === 'UC';
  }

  /** Whether packets of this service (the three upper bits of an opcode) are for such a queue pair. */
  takes(service: number): boolean {
    switch (this.record.type) {
      case 'RC':
        return service === Service.rc;
      case 'UC':
        return service === Service.uc;
      case 'UD':
        return service === Service.ud;
      default:
        return service === Service.rc || service === Service.dc;
    }
  }

  /** When a timer of its endpoint falls due. */
  get deadline(): number {
    if (this.endpoint === undefined) return Number.POSITIVE_INFINITY;
    return this.copy === undefined || this.isTouched ? this.endpoint.deadline : this.copy.words[DEADLINE];
  }

  /** @param state where the values of a reliable connection are from now on, when that changes. */
  modify(
    from: QpState,
    to: QpState,
    attributes: QpAttributes,
    changed: QpAttributes,
    peer: Path | undefined,
    state: SharedArrayBuffer | undefined,
  ): void {
    this.engine.touch(this);
    if (state) this.shareState(state);
    if (to === 'ERR') this.stop(false);
    else if (to === 'SQD' && from !== 'SQD') this.wantsDrained = changed.enSqdAsyncNotify ?? false;
    else if (peer && (to === 'RTR' || to === 'SQD')) this.peer = peer;
    this.endpoint = this.control.move(from, to, attributes);
    if (to === 'RESET') this.forget();
    this.describe();
    this.engine.markReady(this);
  }

  // ---- state in shared memory ----

  /** Whether another thread, or C, can take it over. */
  get isLendable(): boolean {
    return this.record.type === 'RC';
  }

  /** Where the state is put down, and where it is found. */
  shareState(buffer: SharedArrayBuffer): void {
    this.copy = new StateCopy(buffer);
    if (this.isTouched) this.copy.own();
  }

  /** Brings its machine up to date. */
  takeState(): void {
    if (this.copy?.own() && this.endpoint) this.copyState(this.copy);
  }

  putState(): void {
    if (this.copy && this.endpoint) this.copyState(this.copy.disown());
  }

  private copyState(s: StateCopy): void {
    (this.endpoint as RcEndpoint).copyState(s);
    this.epoch = s.number(this.epoch);
    this.wantsDrained = s.flag(this.wantsDrained);
  }

  /** Tells C what there is now. */
  describe(): void {
    const { engine, record, memory, copy, peer } = this;
    const { settings } = this.control;
    if (this.fast !== undefined) engine.fast.remove(this.fast);
    this.fast = undefined;
    if (!FAST || copy === undefined || peer === undefined || settings === undefined || this.endpoint === undefined) return;
    const { destQp, mtu, access, timeout, retryCount, rnrRetry, partitionKey = 0xffff } = settings;
    const numbers = [record.slot, record.qpNum, destQp, this.epoch, record.domain, mtu, access];
    const retries = [ACK_TIMEOUT_NS[timeout], retryCount, rnrRetry, partitionKey, peer.end.port];
    const receives = this.srq ? new Array(memory.receiveQueue.layout.length).fill(0) : memory.receiveQueue.layout;
    this.fast = new FastQueuePair(engine.addon, record.qpNum, [
      ...[copy.words, ...numbers, ...retries, ...peer.wide],
      ...[...memory.sendQueue.layout, ...receives, ...this.sendCq.layout, ...this.recvCq.layout],
    ]);
    engine.fast.add(this.fast);
  }

  private forget(): void {
    this.epoch++;
    this.memory.isFailed = false;
    this.wantsDrained = false;
  }

  /** The endpoint that these attributes describe, of a connection to `peer`. */
  makeEndpoint(attributes: QpAttributes, peer: Path | undefined): void {
    this.peer = peer;
    this.endpoint = this.control.make(attributes);
  }

  /** The program has posted something. */
  rung(): void {
    if (this.isFailed) {
      this.engine.touch(this);
      this.flushQueues();
    }
    this.engine.markReady(this);
  }

  /** To the error state, because the program said so or a completion queue overran. */
  stop(tells = true): void {
    if (this.isFailed) return;
    this.engine.touch(this);
    this.endpoint?.flush();
    this.enterError(tells);
  }

  private enterError(tells: boolean): void {
    if (this.isFailed) return;
    this.memory.isFailed = true;
    this.flushQueues();
    const { qpNum } = this.record;
    if (tells) this.engine.notice({ kind: 'state', qpNum, epoch: this.epoch, state: 'ERR' });
    if (this.srq) {
      const words = 'the queue pair is in the error state and takes nothing more from its shared receive queue';
      this.engine.notice({ kind: 'event', type: 'QP_LAST_WQE_REACHED', qpNum, words });
    }
  }

  private flushQueues(): void {
    if (this.endpoint === undefined) this.memory.sendQueue.flush(this);
    if (!this.srq) this.receiveQueue.flush(this);
  }

  /** Gone, without completions. */
  close(): void {
    this.control.end();
    this.endpoint = undefined;
    this.describe();
    this.memory.isFailed = true;
  }

  // ---- what the transport reports ----

  sendComplete(id: number, status: number, opcode: number, byteLength: number): void {
    const { counters } = this.engine;
    counters.operations++;
    if (status === STATUS.SUCCESS) counters.bytes += byteLength;
    else counters.errors++;
    this.pushed(this.sendCq, this.sendCq.push(id, status, opcode, byteLength, 0, this.record.qpNum, 0, 0, this.epoch, false));
  }

  receiveComplete(
    id: number,
    status: number,
    opcode: number,
    byteLength: number,
    immediate: number,
    flags: number,
    sourceQp: number,
    isSolicited: boolean,
  ): void {
    if (status !== STATUS.SUCCESS) this.engine.counters.errors++;
    const { recvCq, record, epoch } = this;
    this.pushed(
      recvCq,
      recvCq.push(id, status, opcode, byteLength, immediate, record.qpNum, sourceQp, flags, epoch, isSolicited),
    );
    if (this.srq?.isLimitReached()) {
      const words = `a shared receive queue has only ${this.srq.queue.count} requests left`;
      this.engine.notice({ kind: 'event', type: 'SRQ_LIMIT_REACHED', words });
    }
  }

  private pushed(cq: CompletionRing, result: number): void {
    if (result === Pushed.ring) this.engine.ringBell();
    else if (result === Pushed.overrun) this.engine.overran(cq);
  }

  sendQueueError(): void {
    this.engine.notice({ kind: 'state', qpNum: this.record.qpNum, epoch: this.epoch, state: 'SQE' });
  }

  event(type: AsyncEventType): void {
    const { qpNum } = this.record;
    if (type === 'SQ_DRAINED') {
      if (this.wantsDrained) this.engine.notice({ kind: 'event', type, qpNum });
      return;
    }
    this.enterError(true);
    // A failing send is told by its completion; an event is for what has none.
    if (type !== 'QP_FATAL') this.engine.notice({ kind: 'event', type, qpNum });
  }
}
