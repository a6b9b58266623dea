/**
 * A queue pair in the engine's thread: the endpoint of the transport that works on the shared queues from RTR on, and what it reports.
 *
 *     doorbell ──> send queue ──> endpoint.next ──> batch ──> socket
 *     socket ──> engine ──> endpoint.receive ──> memory, completion ring ──> endpoint.next (answers)
 */

import type { AsyncEventType } from '../../device.js';
import { WC_RECV } from '../../opcode.js';
import type { QpAttributes, QpState } from '../../qp-state.js';
import { STATUS } from '../../status.js';
import { DcInitiator } from '../../transport/dc-initiator.js';
import { DcTarget } from '../../transport/dc-target.js';
import type { TransportEndpoint, TransportHost } from '../../transport/host.js';
import type { TransportMemory } from '../../transport/memory.js';
import { Service } from '../../transport/opcode.js';
import { RcEndpoint } from '../../transport/rc-endpoint.js';
import type { RcSettings } from '../../transport/rc-settings.js';
import { type ReceiveQueue, ReceiveWork } from '../../transport/receive-queue.js';
import { StateCopy } from '../../transport/state-copy.js';
import { ACK_TIMEOUT_NS } from '../../transport/timing.js';
import { UcEndpoint } from '../../transport/uc-endpoint.js';
import { UdEndpoint } from '../../transport/ud-endpoint.js';
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

/** An endpoint that sends: all but the DC target. */
interface Sender extends TransportEndpoint {
  drain(): void;
  resume(): void;
}

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
  private readonly domain: TransportMemory;
  private readonly srq: SharedReceiveMemory | undefined;
  private readonly receiveQueue: ReceiveQueue;
  private settings: RcSettings | undefined;
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
    this.domain = domain;
    this.sendCq = sendCq;
    this.recvCq = recvCq;
    this.srq = srq;
    this.memory = new QueuePairMemory(record.send, record.receive, record.buffer);
    this.receiveQueue = srq?.queue ?? this.memory.receiveQueue;
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
    if (to === 'RESET') this.reset();
    else if (to === 'RTR') this.makeEndpoint(attributes, peer);
    else if (to === 'RTS') this.makeReady(from, attributes);
    else if (to === 'SQD') this.drain(from, changed);
    else if (to === 'ERR') this.stop(false);
    if (this.settings) this.applyAttributes(attributes);
    if (to === 'SQD' && from === 'SQD' && peer) this.peer = peer;
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
    const { engine, record, memory, settings, copy, peer } = this;
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

  private reset(): void {
    if (this.endpoint instanceof DcTarget) this.endpoint.flush();
    this.endpoint = undefined;
    this.settings = undefined;
    this.memory.sendQueue.clear();
    if (!this.srq) this.receiveQueue.clear();
    this.epoch++;
    this.memory.isFailed = false;
    this.wantsDrained = false;
  }

  /** The endpoint that these attributes describe. */
  makeEndpoint(a: QpAttributes, peer: Path | undefined): void {
    const { engine, record, memory, receiveQueue } = this;
    this.peer = peer;
    const parts = {
      sendQueue: memory.sendQueue,
      receiveQueue,
      isShared: this.srq !== undefined,
      memory: this.domain,
      host: this,
      counters: engine.counters,
    };
    const settings = this.settingsOf(a);
    this.settings = settings;
    if (record.type === 'RC') this.endpoint = new RcEndpoint(parts, settings);
    else if (record.type === 'UC') this.endpoint = new UcEndpoint(parts, settings);
    else if (record.type === 'UD') {
      this.endpoint = new UdEndpoint(parts, { qpNum: record.qpNum, mtu: engine.data.mtu, sendPsn: 0, queueKey: a.qkey ?? 0 });
    } else if (record.type === 'DCT') {
      const numbers = { allocate: () => engine.allocateNumber(this), release: (n: number) => engine.releaseNumber(n) };
      this.endpoint = new DcTarget({ ...parts, qpNum: record.qpNum, numbers, dcKey: record.dcKey >>> 0 }, settings);
    }
  }

  private makeReady(from: QpState, a: QpAttributes): void {
    const { endpoint, record, engine } = this;
    if (from === 'SQD' || from === 'SQE') {
      (endpoint as Sender).resume();
    } else if (from === 'RTR') {
      if (endpoint instanceof RcEndpoint || endpoint instanceof UcEndpoint || endpoint instanceof UdEndpoint) {
        endpoint.startAt(a.sqPsn ?? 0);
      } else if (record.type === 'DCI') {
        this.settings = this.settingsOf(a);
        this.endpoint = new DcInitiator(
          {
            qpNum: record.qpNum,
            sendQueue: this.memory.sendQueue,
            memory: this.domain,
            host: this,
            counters: engine.counters,
            firstToken: engine.newToken(),
          },
          this.settings,
        );
      }
    }
  }

  private drain(from: QpState, changed: QpAttributes): void {
    if (from === 'SQD') return;
    this.wantsDrained = changed.enSqdAsyncNotify ?? false;
    (this.endpoint as Sender).drain();
  }

  private applyAttributes(a: QpAttributes): void {
    const { destQp, sendPsn, receivePsn } = this.settings as RcSettings;
    Object.assign(this.settings as RcSettings, this.settingsOf(a), { destQp, sendPsn, receivePsn });
  }

  /** What the transport needs of the attributes. */
  private settingsOf(a: QpAttributes): RcSettings {
    const { mtu, window } = this.engine.data;
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
      window,
    };
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
    if (this.srq) return;
    const w = new ReceiveWork(this.receiveQueue.maxSge);
    while (this.receiveQueue.take(w)) this.receiveComplete(w.id, STATUS.WR_FLUSH_ERR, WC_RECV, 0, 0, 0, 0, false);
  }

  /** Gone, without completions. */
  close(): void {
    if (this.endpoint instanceof DcTarget) this.endpoint.flush();
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
