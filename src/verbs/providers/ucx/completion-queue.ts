/** The completion queue of a UCX device: a ring in this thread, which the device's progress fills. */

import { CompletionQueue, type CqInit, type Moderation } from '../../completion-queue.js';
import { VerbsError } from '../../errors.js';
import { COMPLETION_OPCODES } from '../../opcode.js';
import { type Cause, STATUS, statusMeaning, statusName } from '../../status.js';
import type { WorkCompletions } from '../../work-completions.js';
import type { UcxDevice } from './device.js';

const CAUSES = 1024;

export class UcxCompletionQueue extends CompletionQueue {
  readonly device: UcxDevice;
  users = 0;
  private readonly mask: number;
  private readonly ids: Float64Array;
  private readonly statuses: Uint8Array;
  private readonly opcodes: Uint8Array;
  private readonly lengths: Uint32Array;
  private readonly immediates: Uint32Array;
  private readonly numbers: Uint32Array;
  private readonly sources: Uint32Array;
  private readonly flags: Uint8Array;
  private readonly causeIds: Uint32Array;
  private head = 0;
  private tail = 0;
  private readonly causes: (Cause | undefined)[] = [];
  private lastCause = 0;
  private isClosed = false;
  private isOverrun = false;
  private isArmed = false;
  private isHeld = false;
  private onlySolicited = false;
  private count = 1;
  private periodUs = 0;
  private pending = 0;
  private period: NodeJS.Timeout | undefined;

  constructor(device: UcxDevice, init: CqInit) {
    super(init);
    if (init.thread !== undefined)
      throw new VerbsError('VERBS_UNSUPPORTED', 'a UCX device has no completion threads: leave out `thread`');
    this.device = device;
    let size = 1;
    while (size < this.depth) size *= 2;
    this.mask = size - 1;
    this.ids = new Float64Array(size);
    this.statuses = new Uint8Array(size);
    this.opcodes = new Uint8Array(size);
    this.lengths = new Uint32Array(size);
    this.immediates = new Uint32Array(size);
    this.numbers = new Uint32Array(size);
    this.sources = new Uint32Array(size);
    this.flags = new Uint8Array(size);
    this.causeIds = new Uint32Array(size);
  }

  /** Adds a completion. */
  push(
    id: number,
    status: number,
    opcode: number,
    length: number,
    immediate: number,
    number: number,
    source: number,
    flags: number,
    solicited: boolean,
    cause?: Cause,
  ): void {
    if (this.isClosed) return;
    if (this.tail - this.head >= this.depth) {
      if (!this.isOverrun) this.device.raise({ type: 'CQ_ERR', words: `a completion queue of ${this.depth} entries overran` });
      this.isOverrun = true;
      return;
    }
    const at = this.tail & this.mask;
    this.ids[at] = id;
    this.statuses[at] = status;
    this.opcodes[at] = opcode;
    this.lengths[at] = length;
    this.immediates[at] = immediate;
    this.numbers[at] = number;
    this.sources[at] = source;
    this.flags[at] = flags;
    this.causeIds[at] = cause === undefined ? 0 : ++this.lastCause;
    if (cause !== undefined) this.causes[this.lastCause % CAUSES] = cause;
    this.tail++;
    if (!this.isArmed || (this.onlySolicited && !solicited && status === STATUS.SUCCESS)) return;
    this.pending++;
    if (this.pending >= this.count) this.announce();
    else if (this.periodUs > 0) this.period ??= setTimeout(() => this.announce(), Math.max(1, this.periodUs / 1000));
  }

  poll(wcs: WorkCompletions): number {
    if (this.isClosed) throw new VerbsError('VERBS_CLOSED', 'the completion queue is closed');
    if (this.head === this.tail) this.device.progress();
    if (this.isOverrun) {
      throw new VerbsError(
        'VERBS_ILLEGAL',
        `the completion queue of ${this.depth} entries overran (event CQ_ERR): make a deeper one`,
      );
    }
    const n = Math.min(wcs.capacity, this.tail - this.head);
    for (let i = 0; i < n; i++) {
      const at = this.head++ & this.mask;
      wcs.id[i] = this.ids[at];
      wcs.status[i] = this.statuses[at];
      wcs.opcode[i] = this.opcodes[at];
      wcs.byteLen[i] = this.lengths[at];
      wcs.imm[i] = this.immediates[at];
      wcs.qpNum[i] = this.numbers[at];
      wcs.srcQp[i] = this.sources[at];
      wcs.flags[i] = this.flags[at];
      wcs.causeId[i] = this.causeIds[at];
    }
    if (n > 0) wcs.rare = true;
    return n;
  }

  isReady(): boolean {
    if (this.head !== this.tail || this.isClosed || this.isOverrun) return true;
    this.device.progress();
    return this.head !== this.tail || this.isOverrun;
  }

  requestNotify(solicitedOnly = false): void {
    if (this.isClosed) throw new VerbsError('VERBS_CLOSED', 'the completion queue is closed');
    this.isArmed = true;
    this.onlySolicited = solicitedOnly;
    this.pending = 0;
    this.device.watch();
  }

  moderate(moderation: Moderation): void {
    const { count = 1, periodUs = 0 } = moderation;
    for (const [name, value, low] of [
      ['count', count, 1],
      ['periodUs', periodUs, 0],
    ] as const) {
      if (!Number.isInteger(value) || value < low || value > 65535) {
        throw new VerbsError('VERBS_INVALID', `${name} must be ${low} to 65535: got ${String(value)}`);
      }
    }
    this.count = count;
    this.periodUs = periodUs;
  }

  private announce(): void {
    clearTimeout(this.period);
    this.period = undefined;
    this.isArmed = false;
    this.pending = 0;
    this.signal();
  }

  /** Why a request failed. */
  causeOf(status: number, opcode: number, id: number, qpNum: number, peer: string, words?: string): Cause {
    return {
      status: statusName(status),
      qpNum,
      wrId: id,
      opcode: COMPLETION_OPCODES[opcode],
      peer,
      words: words ?? statusMeaning(status),
    };
  }

  cause(causeId: number): Cause | undefined {
    return causeId > 0 && causeId > this.lastCause - CAUSES && causeId <= this.lastCause
      ? this.causes[causeId % CAUSES]
      : undefined;
  }

  protected hold(on: boolean): void {
    if (on === this.isHeld) return;
    this.isHeld = on;
    this.device.hold(on);
  }

  close(): void {
    if (this.isClosed) return;
    if (this.users > 0) throw new VerbsError('VERBS_BUSY', 'queue pairs use this completion queue: close them first');
    this.shut();
  }

  /** Closes without asking: the device is going. */
  shut(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.device.forgetCq(this);
    this.announce();
  }
}
