/**
 * The completion queue of the sim provider: a ring that the transport fills and `poll` empties.
 *
 *     id     [f64 ...]                                                                   head ──> taken    tail ──> filled
 *     entry  [ status, opcode, flags: a byte each | byteLen | imm | qpNum | srcQp | causeId | - | - ]    half a cache line
 */

import type { CqInit, Moderation, WaitOptions } from '../../completion-queue.js';
import { VerbsError } from '../../errors.js';
import type { Cause } from '../../status.js';
import { powerOfTwo } from '../../transport/sequence.js';
import type { WorkCompletions } from '../../work-completions.js';
import { ProvidedCompletionQueue } from '../provided-completion-queue.js';
import { waitOn } from '../waiting.js';
import type { SimDevice } from './device.js';

/** An entry takes 8 words. */
const ENTRY_SHIFT = 3;

/** How the queue is armed. */
const Armed = { not: 0, solicited: 1, any: 2 } as const;

export class SimCompletionQueue extends ProvidedCompletionQueue {
  readonly device: SimDevice;
  private readonly mask: number;
  private readonly id: Float64Array;
  private readonly entries: Uint32Array;
  private head = 0;
  private tail = 0;
  private isOverrun = false;
  private readonly virtualWaiters: (() => void)[] = [];
  private armed: number = Armed.not;
  private eventCount = 1;
  private eventPeriodUs = 0;
  private sinceArmed = 0;
  private cancelPeriod: (() => void) | undefined;

  constructor(device: SimDevice, init: CqInit) {
    super(init);
    if (init.thread !== undefined) throw new VerbsError('VERBS_UNSUPPORTED', 'a simulated device has no completion threads');
    this.device = device;
    const n = powerOfTwo(this.depth);
    this.mask = n - 1;
    this.id = new Float64Array(n);
    this.entries = new Uint32Array(n << ENTRY_SHIFT);
  }

  poll(wcs: WorkCompletions): number {
    this.device.fabric.progress();
    this.assertOpen();
    if (this.isOverrun) this.refuseOverrun();
    const { entries } = this;
    let n = 0;
    for (; n < wcs.capacity && this.head !== this.tail; n++) {
      const i = this.head & this.mask;
      wcs.id[n] = this.id[i];
      const e = i << ENTRY_SHIFT;
      const kind = entries[e];
      wcs.status[n] = kind & 255;
      wcs.opcode[n] = (kind >>> 8) & 255;
      wcs.flags[n] = kind >>> 16;
      wcs.byteLen[n] = entries[e + 1];
      wcs.imm[n] = entries[e + 2];
      wcs.qpNum[n] = entries[e + 3];
      wcs.srcQp[n] = entries[e + 4];
      wcs.rare = true;
      wcs.causeId[n] = entries[e + 5];
      this.head = (this.head + 1) | 0;
    }
    return n;
  }

  isReady(): boolean {
    this.device.fabric.progress();
    return this.head !== this.tail || this.isClosed || this.isOverrun;
  }

  /** Adds a completion. More than the depth is an overrun: the queue fails, and its queue pairs with it. */
  push(
    id: number,
    status: number,
    opcode: number,
    byteLen: number,
    imm: number,
    qpNum: number,
    srcQp: number,
    flags: number,
    causeId: number,
    isSolicited: boolean,
  ): void {
    if (this.isOverrun || this.isClosed) return;
    if (((this.tail - this.head) | 0) >= this.depth) {
      this.isOverrun = true;
      this.device.overran(this);
      this.announce();
      return;
    }
    const i = this.tail & this.mask;
    this.id[i] = id;
    const { entries } = this;
    const e = i << ENTRY_SHIFT;
    entries[e] = status | (opcode << 8) | (flags << 16);
    entries[e + 1] = byteLen;
    entries[e + 2] = imm;
    entries[e + 3] = qpNum;
    entries[e + 4] = srcQp;
    entries[e + 5] = causeId;
    this.tail = (this.tail + 1) | 0;
    if (this.armed === Armed.any || (this.armed === Armed.solicited && (isSolicited || status !== 0))) this.moderated();
  }

  requestNotify(solicitedOnly = false): void {
    this.assertOpen();
    if (this.armed !== Armed.any) this.armed = solicitedOnly ? Armed.solicited : Armed.any;
    this.sinceArmed = 0;
  }

  moderate(moderation: Moderation): void {
    const { count, periodUs } = this.checkedModeration(moderation);
    this.eventCount = count;
    this.eventPeriodUs = periodUs;
  }

  private moderated(): void {
    this.sinceArmed++;
    if (this.sinceArmed >= this.eventCount) {
      this.announce();
    } else if (this.eventPeriodUs > 0 && this.cancelPeriod === undefined) {
      const { fabric } = this.device;
      this.cancelPeriod = fabric.at(fabric.nowNs + this.eventPeriodUs * 1000, () => this.announce());
    }
  }

  protected announce(): void {
    this.cancelPeriod?.();
    this.cancelPeriod = undefined;
    this.armed = Armed.not;
    this.signal();
    for (const wake of this.virtualWaiters.splice(0)) wake();
  }

  /** On virtual time a wait ends by the fabric's clock, whatever the mode: spinning would only keep that clock from moving. */
  override async ready(options: WaitOptions = {}): Promise<void> {
    const { fabric } = this.device;
    if (!fabric.isVirtual) return super.ready(options);
    const { timeoutMs, signal } = options;
    signal?.throwIfAborted();
    const endNs = timeoutMs === undefined ? undefined : fabric.nowNs + timeoutMs * 1e6;
    while (!this.isReady()) {
      this.requestNotify(false);
      const leftMs = endNs === undefined ? undefined : (endNs - fabric.nowNs) / 1e6;
      await waitOn<void>(this.device, { timeoutMs: leftMs, signal }, 'no completion', ({ resolve }) => {
        this.virtualWaiters.push(resolve);
        return () => {
          const at = this.virtualWaiters.indexOf(resolve);
          if (at >= 0) this.virtualWaiters.splice(at, 1);
        };
      });
    }
  }

  /** Keeps a cause under a number. */
  explain(cause: Cause): number {
    return this.causes.note(cause);
  }
}
