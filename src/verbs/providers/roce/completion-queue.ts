/**
 * The completion queue of a RoCE device: the consumer's side of a ring that the engine fills.
 */

import type { CqInit, Moderation } from '../../completion-queue.js';
import { VerbsError } from '../../errors.js';
import { WC_RECV } from '../../opcode.js';
import { STATUS } from '../../status.js';
import type { WorkCompletions } from '../../work-completions.js';
import { failureOf } from '../cause-log.js';
import { ProvidedCompletionQueue } from '../provided-completion-queue.js';
import { CompletionRing, Due } from './completion-ring.js';
import type { RoceDevice } from './device.js';

export class RoceCompletionQueue extends ProvidedCompletionQueue {
  readonly device: RoceDevice;
  /** The engine's name for it. */
  readonly number: number;
  readonly ring: CompletionRing;
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
    this.assertOpen();
    if (this.ring.isOverrun) this.refuseOverrun();
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
    const cause = failureOf({ status, opcode: wcs.opcode[n], id: wcs.id[n], qpNum }, qp, this.experience(status));
    qp?.noteFailure(cause, wcs.opcode[n] >= WC_RECV, epoch);
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

  isReady(): boolean {
    this.device.progress();
    if (this.ring.isEmpty) this.device.lease.looked();
    return !this.ring.isEmpty || this.isClosed || this.ring.isOverrun;
  }

  requestNotify(solicitedOnly = false): void {
    this.assertOpen();
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

  protected announce(): void {
    clearTimeout(this.period);
    this.period = undefined;
    this.ring.disarm();
    this.signal();
  }

  protected override destroy(): void {
    if (!this.device.isClosed) this.device.call({ kind: 'closeCq', cq: this.number });
  }
}
