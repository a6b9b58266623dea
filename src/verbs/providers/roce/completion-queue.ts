/**
 * The completion queue of a RoCE device: the consumer's side of a ring that the engine fills.
 */

import { CompletionQueue, type CqInit, type Moderation } from '../../completion-queue.js';
import { VerbsError } from '../../errors.js';
import { COMPLETION_OPCODES } from '../../opcode.js';
import { type Cause, STATUS, statusMeaning, statusName } from '../../status.js';
import type { WorkCompletions } from '../../work-completions.js';
import { CauseLog } from '../cause-log.js';
import { CompletionRing, Due } from './completion-ring.js';
import type { RoceDevice } from './device.js';

export class RoceCompletionQueue extends CompletionQueue {
  readonly device: RoceDevice;
  /** The engine's name for it. */
  readonly number: number;
  /** Queue pairs that use it, once per direction. */
  users = 0;
  readonly ring: CompletionRing;
  private readonly causes = new CauseLog();
  private isClosed = false;
  private period: NodeJS.Timeout | undefined;

  constructor(device: RoceDevice, init: CqInit) {
    super(init);
    if (init.thread !== undefined) {
      throw new VerbsError('VERBS_UNSUPPORTED', 'a RoCE device has a thread of its own already: leave out `thread`');
    }
    this.device = device;
    this.number = device.newId();
    const buffer = new SharedArrayBuffer(CompletionRing.byteLength(this.depth));
    this.ring = new CompletionRing(this.depth, buffer);
    device.call({ kind: 'createCq', cq: this.number, depth: this.depth, buffer });
  }

  poll(wcs: WorkCompletions): number {
    this.device.progress();
    if (this.isClosed) throw new VerbsError('VERBS_CLOSED', 'the completion queue is closed');
    if (this.ring.isOverrun) {
      throw new VerbsError(
        'VERBS_ILLEGAL',
        `the completion queue of ${this.depth} entries overran (event CQ_ERR): close it and make a deeper one`,
      );
    }
    const n = this.take(wcs);
    return n === 0 && this.device.lease.polled() ? this.take(wcs) : n;
  }

  private take(wcs: WorkCompletions): number {
    let n = 0;
    while (n < wcs.capacity) {
      const epoch = this.ring.take(wcs, n);
      if (epoch < 0) break;
      if (wcs.status[n] !== STATUS.SUCCESS) this.failed(wcs, n, epoch);
      n++;
    }
    return n;
  }

  /** A request failed: says why, and its queue pair learns the state that this means. */
  private failed(wcs: WorkCompletions, n: number, epoch: number): void {
    const status = wcs.status[n];
    const qpNum = wcs.qpNum[n];
    const qp = this.device.queuePair(qpNum);
    const isFlush = status === STATUS.WR_FLUSH_ERR;
    const opcode = COMPLETION_OPCODES[wcs.opcode[n]];
    const isReceive = opcode === 'RECV' || opcode === 'RECV_RDMA_WITH_IMM';
    const first = qp?.firstFailure;
    const words =
      isFlush && first
        ? `request ${first.wrId} failed with ${first.status} before this one was carried out: ${first.words}`
        : `${statusMeaning(status)}${this.experience(status)}`;
    const cause: Cause = {
      status: statusName(status),
      qpNum,
      wrId: isFlush && first && !isReceive ? first.wrId : wcs.id[n],
      opcode,
      peer: qp?.peerName ?? 'unknown',
      words,
    };
    qp?.noteFailure(cause, isReceive, epoch);
    wcs.causeId[n] = this.causes.note(cause);
  }

  /** What the device has met so far, for a failure that the network may be the reason of. */
  private experience(status: number): string {
    if (status !== STATUS.RETRY_EXC_ERR && status !== STATUS.RNR_RETRY_EXC_ERR) return '';
    const { retransmitted, timeouts, sequenceNaks, rnrNaks, badIcrc, wrongSource, sendErrors } = this.device.page.counters;
    const counts = { retransmitted, timeouts, sequenceNaks, rnrNaks, badIcrc, wrongSource, sendErrors };
    const met = Object.entries(counts).flatMap(([name, count]) => (count > 0 ? [`${name} ${count}`] : []));
    return met.length > 0 ? ` (the device counts: ${met.join(', ')})` : '';
  }

  cause(causeId: number): Cause | undefined {
    return this.causes.find(causeId);
  }

  isReady(): boolean {
    this.device.progress();
    if (this.ring.isEmpty) this.device.lease.looked();
    return !this.ring.isEmpty || this.isClosed || this.ring.isOverrun;
  }

  requestNotify(solicitedOnly = false): void {
    if (this.isClosed) throw new VerbsError('VERBS_CLOSED', 'the completion queue is closed');
    this.ring.arm(solicitedOnly);
    this.device.sleepSoon();
  }

  moderate(moderation: Moderation): void {
    const { count, periodUs } = this.checkedModeration(moderation);
    this.ring.moderate(count, periodUs);
  }

  /** The engine rang the device's bell: perhaps for this queue. */
  rang(): void {
    const due = this.ring.takeDue();
    if (due === Due.event || this.ring.isOverrun) this.announce();
    else if (due === Due.period) this.period ??= setTimeout(() => this.announce(), Math.max(1, this.ring.periodUs / 1000));
  }

  private announce(): void {
    clearTimeout(this.period);
    this.period = undefined;
    this.ring.disarm();
    this.signal();
  }

  protected hold(on: boolean): void {
    this.device.hold(on);
  }

  close(): void {
    if (this.isClosed) return;
    if (this.users > 0) throw new VerbsError('VERBS_BUSY', 'queue pairs use this completion queue: close them first');
    if (!this.device.isClosed) this.device.call({ kind: 'closeCq', cq: this.number });
    this.shut();
  }

  /** Closes without asking: the device is going. */
  shut(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.device.forget(this);
    this.announce();
  }
}
