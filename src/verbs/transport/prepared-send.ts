/**
 * A send request made once and posted without an object: everything fixed stands in a `SendWork` of its own.
 */

import { VerbsError } from '../errors.js';
import { opcodeOf, type QpType } from '../opcode.js';
import { checkPrepared, type PreparedSend, type PrepareSpec, rejectRange } from '../work-request.js';
import { SendFlag, SendWork } from './send-queue.js';

/** What it needs of the queue pair that it posts to. */
export interface WorkPoster {
  readonly type: QpType;
  readonly maxSendSge: number;
  readonly maxInline: number;
  readonly sqSigAll: boolean;
  /** Takes a request into the send queue. Throws with `badIndex` as postSend does. */
  postWork(work: SendWork, badIndex: number): void;
  /** The doorbell. */
  kick(): void;
}

export class QueuedSend implements PreparedSend {
  imm = 0;
  addLo = 0;
  addHi = 0;
  compareLo = 0;
  compareHi = 0;
  swapLo = 0;
  swapHi = 0;
  private readonly qp: WorkPoster;
  private readonly spec: PrepareSpec;
  private readonly work = new SendWork(1);
  private readonly every: number;
  private readonly isAtomic: boolean;
  private readonly isAdd: boolean;
  private sinceSignal = 0;

  constructor(qp: WorkPoster, spec: PrepareSpec) {
    this.every = checkPrepared(qp, spec);
    this.isAtomic = spec.opcode.startsWith('ATOMIC_');
    this.isAdd = spec.opcode === 'ATOMIC_FETCH_AND_ADD';
    this.qp = qp;
    this.spec = spec;
    const w = this.work;
    w.opcode = opcodeOf(spec.opcode);
    w.flags = (spec.fence ? SendFlag.fence : 0) | (spec.solicited ? SendFlag.solicited : 0);
    w.remoteKey = spec.remote?.rkey ?? 0;
    w.sgeCount = 1;
    w.sgeKey[0] = spec.local.lkey;
    w.destination = (spec.ah as { readonly destination?: number } | undefined)?.destination ?? 0;
    w.destQp = spec.remoteQpn ?? 0;
    w.destKey = (qp.type === 'DCI' ? spec.dcKey : spec.remoteQkey) ?? 0;
  }

  post(offset: number, length: number, id: number, remoteOffset = offset): void {
    const { spec, work: w } = this;
    const { local } = spec;
    if (!(offset >= 0 && length >= 0 && offset + length <= local.length)) rejectRange(offset, length, local.length);
    if (this.isAtomic && length !== 8)
      throw new VerbsError('VERBS_INVALID', `an atomic returns 8 bytes: got a length of ${length}`);
    if (spec.inline && length > this.qp.maxInline) {
      throw new VerbsError(
        'VERBS_INVALID',
        `${length} bytes inline, but the queue pair was made with maxInline ${this.qp.maxInline}`,
      );
    }
    const flags = w.flags;
    if (this.every > 0 && ++this.sinceSignal >= this.every) {
      this.sinceSignal = 0;
      w.flags |= SendFlag.signaled;
    }
    w.id = id;
    w.immediate = this.imm;
    w.remoteAddress = spec.remote ? spec.remote.addr + remoteOffset : 0;
    w.sgeAddress[0] = local.addr + offset;
    w.sgeLength[0] = length;
    w.inlineData = spec.inline ? local.bytes.subarray(offset, offset + length) : null;
    w.swapHi = this.isAdd ? this.addHi : this.swapHi;
    w.swapLo = this.isAdd ? this.addLo : this.swapLo;
    w.compareHi = this.compareHi;
    w.compareLo = this.compareLo;
    try {
      this.qp.postWork(w, 0);
    } finally {
      w.flags = flags;
    }
    this.qp.kick();
  }
}
