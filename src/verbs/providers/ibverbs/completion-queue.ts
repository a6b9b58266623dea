/**
 * The completion queue of an RDMA device. libibverbs has no way to look whether something is there, so completions are reaped into the
 * queue's records, and `poll` takes them from there:
 *
 *     ibv_poll_cq ──run()──> records [ first ... filled )  ──poll──> WorkCompletions
 */

import type { CqInit, Moderation } from '../../completion-queue.js';
import { VerbsError } from '../../errors.js';
import { WC_RECV } from '../../opcode.js';
import { STATUS } from '../../status.js';
import { systemError } from '../../system-error.js';
import { WC_GRH, type WorkCompletions } from '../../work-completions.js';
import { failureOf } from '../cause-log.js';
import { ProvidedCompletionQueue } from '../provided-completion-queue.js';
import { ERRNO, FILLED, FIRST, MOST, QUEUE } from './command-block.js';
import type { IbverbsDevice } from './device.js';
import { isInfiniBand } from './discovery.js';

const MOST_RECORDS = 65536;
/** Records reaped in one go by a poll. */
const BATCH = 64;

// Words of a record: native/ibverbs/port.h.
const RECORD_WORDS = 12;
const STATUS_WORD = 2;
const OPCODE_WORD = 3;
const BYTES_WORD = 4;
const IMMEDIATE_WORD = 5;
const NUMBER_WORD = 6;
const SOURCE_WORD = 7;
const FLAGS_WORD = 8;
const VENDOR_WORD = 9;
const LID_WORD = 11;

export class IbverbsCompletionQueue extends ProvidedCompletionQueue {
  readonly device: IbverbsDevice;
  readonly object: number;
  /** A queue pair with a shared receive queue uses it: the device may not say who sent. */
  hasShared = false;
  private readonly words: Uint32Array;
  private readonly ids: Float64Array;
  private readonly records: number;
  /** On InfiniBand a datagram tells the LID of its sender. */
  private readonly hasLids: boolean;
  private first = 0;
  private filled = 0;
  /** Why there will be no more completions: the queue overran, or what `failed` was told. */
  private fault: VerbsError | 'overrun' | undefined;
  private isArmed = false;
  private armedSolicited = false;
  private count = 1;
  private periodUs = 0;
  private period: NodeJS.Timeout | undefined;

  constructor(device: IbverbsDevice, init: CqInit) {
    super(init);
    if (init.thread !== undefined) {
      throw new VerbsError('VERBS_UNSUPPORTED', 'an RDMA device raises completion events by itself: leave out `thread`');
    }
    this.device = device;
    const { maxCqe } = device.choice.device;
    if (this.depth > maxCqe) {
      throw new VerbsError('VERBS_NO_MEMORY', `a completion queue of ${device.choice.device.name} has at most ${maxCqe} entries`);
    }
    this.records = Math.min(this.depth, MOST_RECORDS);
    const made = device.addon.createCq(device.handle, this.depth, this.records);
    if (typeof made === 'number') throw systemError(made, `no completion queue of ${this.depth} entries`, 'VERBS_NO_MEMORY');
    this.object = made[0];
    this.words = new Uint32Array(made[1]);
    this.ids = new Float64Array(made[1]);
    this.hasLids = isInfiniBand(device.choice.device, device.choice.port);
  }

  /** Takes completions from the device into the records: at most `most`, and as many as there is room for. */
  private reap(most: number): number {
    if (this.first === this.filled) this.first = this.filled = 0;
    const { head } = this.device.block;
    head[QUEUE] = this.object;
    head[FIRST] = this.filled;
    head[MOST] = Math.min(most, this.records - this.filled);
    head[ERRNO] = 0;
    this.device.block.run();
    if (head[ERRNO] !== 0) this.fault ??= 'overrun';
    const taken = head[FILLED];
    this.filled += taken;
    return taken;
  }

  /** Takes all that the device has into the records, where it waits for a poll. */
  gather(): void {
    while (this.reap(BATCH) > 0) {
      // until the device has none, or the records are full
    }
  }

  poll(wcs: WorkCompletions): number {
    this.assertOpen();
    const { capacity } = wcs;
    const { words } = this;
    let n = 0;
    while (n < capacity) {
      if (this.first === this.filled && this.reap(Math.min(BATCH, capacity - n)) === 0) break;
      const at = this.first++ * RECORD_WORDS;
      wcs.id[n] = this.ids[at >> 1];
      wcs.status[n] = words[at + STATUS_WORD];
      wcs.opcode[n] = words[at + OPCODE_WORD];
      wcs.byteLen[n] = words[at + BYTES_WORD];
      wcs.imm[n] = words[at + IMMEDIATE_WORD];
      wcs.qpNum[n] = words[at + NUMBER_WORD];
      wcs.srcQp[n] = words[at + SOURCE_WORD];
      wcs.srcLid[n] = this.hasLids ? words[at + LID_WORD] : 0;
      wcs.flags[n] = words[at + FLAGS_WORD];
      wcs.causeId[n] = 0;
      if (words[at + STATUS_WORD] !== STATUS.SUCCESS) this.failedRequest(wcs, n, words[at + VENDOR_WORD]);
      else if (this.hasShared && wcs.opcode[n] >= WC_RECV) this.fromShared(wcs, n);
      n++;
    }
    if (n > 0) wcs.rare = true;
    else if (this.fault === 'overrun') this.refuseOverrun();
    else if (this.fault !== undefined) throw this.fault;
    return n;
  }

  /** A receive through a shared queue: what the device does not know of the connection, the queue pair does. */
  private fromShared(wcs: WorkCompletions, n: number): void {
    const qp = this.device.queuePair(wcs.qpNum[n]);
    if (qp === undefined || qp.type === 'UD') return;
    wcs.srcQp[n] = qp.destination;
    wcs.srcLid[n] = 0;
    wcs.flags[n] &= ~WC_GRH;
  }

  /** A request failed: says why, and its queue pair learns the state that this means. */
  private failedRequest(wcs: WorkCompletions, n: number, vendor: number): void {
    const status = wcs.status[n];
    const qpNum = wcs.qpNum[n];
    const qp = this.device.queuePair(qpNum);
    const code = vendor === 0 ? '' : ` (the device's own code: ${vendor})`;
    const cause = failureOf({ status, opcode: wcs.opcode[n], id: wcs.id[n], qpNum }, qp, code);
    qp?.noteFailure(cause, wcs.opcode[n] >= WC_RECV);
    wcs.causeId[n] = this.causes.note(cause);
  }

  isReady(): boolean {
    return this.isClosed || this.first < this.filled || this.reap(BATCH) > 0 || this.fault !== undefined;
  }

  requestNotify(solicitedOnly = false): void {
    this.assertOpen();
    this.isArmed = true;
    this.armedSolicited = solicitedOnly;
    this.arm();
  }

  private arm(): void {
    const errno = this.device.addon.armCq(this.device.handle, this.object, this.armedSolicited ? 1 : 0);
    if (errno !== 0) throw systemError(errno, 'the device cannot raise completion events');
  }

  moderate(moderation: Moderation): void {
    const { count, periodUs } = this.checkedModeration(moderation);
    this.count = count;
    this.periodUs = periodUs;
  }

  /** The device raised an event for this queue. Moderation is done here, because few devices have it: an event too early arms again. */
  rang(): void {
    if (this.isClosed || !this.isArmed) return;
    if (this.count === 1 || this.armedSolicited) {
      this.announce();
      return;
    }
    this.gather(); // everything that is there counts
    const waiting = this.filled - this.first;
    if (waiting >= this.count || waiting === 0 || this.filled === this.records) {
      this.announce();
      return;
    }
    if (this.periodUs > 0) this.period ??= setTimeout(() => this.announce(), Math.max(1, this.periodUs / 1000));
    this.arm();
    if (this.reap(this.count) > 0) this.rang();
  }

  protected announce(): void {
    clearTimeout(this.period);
    this.period = undefined;
    this.isArmed = false;
    this.signal();
  }

  /** The queue overran, or ended otherwise: once it is empty, a poll throws that. */
  failed(fault: VerbsError | 'overrun' = 'overrun'): void {
    this.fault ??= fault;
    this.announce();
  }

  protected override destroy(): void {
    const { device } = this;
    if (device.isClosed) return;
    const errno = device.addon.destroy(device.handle, this.object);
    if (errno !== 0) throw systemError(errno, 'the completion queue is still used', 'VERBS_BUSY');
  }
}
