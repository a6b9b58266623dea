/**
 * The array that `cq.poll` fills: a struct of typed arrays, made once and used again, so that polling allocates nothing.
 *
 * ```
 *            i = 0      1      2    ...  capacity-1
 *   id       [ 7.0  |  8.0  |  9.0 ...]      Float64Array: the `id` of the work request, a safe integer
 *   status   [  0   |   0   |  10  ...]      Uint8Array: numbers of status.ts, 0 is success
 *   opcode   [  2   |   2   |   4  ...]      Uint8Array: positions in COMPLETION_OPCODES
 *   byteLen, imm, qpNum, srcQp, srcLid, flags, causeId likewise
 * ```
 */

import { COMPLETION_OPCODES, type CompletionOpcode } from './opcode.js';
import { type Cause, type Status, statusName } from './status.js';

/** `flags`: the completion carries 32 bits of immediate data. */
export const WC_WITH_IMM = 1;
/** `flags`: the first 40 bytes of the receive buffer are a global route header (UD). */
export const WC_GRH = 2;

/** A reusable block of completions. Entries 0..n-1 are valid after `n = cq.poll(wcs)`, until the next poll. */
export class WorkCompletions {
  /** How many completions one poll takes at most. */
  readonly capacity: number;
  readonly id: Float64Array;
  readonly status: Uint8Array;
  readonly opcode: Uint8Array;
  /** Bytes received, or read, of a successful completion. */
  readonly byteLen: Uint32Array;
  readonly imm: Uint32Array;
  readonly qpNum: Uint32Array;
  /** Queue pair of the sender, for receives through UD and shared queues. */
  readonly srcQp: Uint32Array;
  /** LID of the sender's port, for receives through UD on InfiniBand: with it `createAh` reaches the sender. 0 elsewhere. */
  readonly srcLid: Uint16Array;
  /** Bits WC_WITH_IMM and WC_GRH. */
  readonly flags: Uint8Array;
  /** 0, or the number under which the queue keeps the cause of this error: `cq.cause(wcs.causeId[i])`. */
  readonly causeId: Uint32Array;

  /**
   * For providers: whether one of `status`, `flags`, `causeId`, `imm`, `srcQp`, `srcLid` may hold something else than 0. Whoever writes there sets it; who
   * leaves these columns alone for ordinary completions calls `settle` first.
   */
  rare = false;

  /** @param capacity 1..65536, default 16. Throws RangeError outside. */
  constructor(capacity = 16) {
    if (!Number.isInteger(capacity) || capacity < 1 || capacity > 65536) {
      throw new RangeError(`capacity must be 1 to 65536, got ${capacity}`);
    }
    this.capacity = capacity;
    this.id = new Float64Array(capacity);
    this.status = new Uint8Array(capacity);
    this.opcode = new Uint8Array(capacity);
    this.byteLen = new Uint32Array(capacity);
    this.imm = new Uint32Array(capacity);
    this.qpNum = new Uint32Array(capacity);
    this.srcQp = new Uint32Array(capacity);
    this.srcLid = new Uint16Array(capacity);
    this.flags = new Uint8Array(capacity);
    this.causeId = new Uint32Array(capacity);
  }

  /** Clears the columns that ordinary completions leave at 0. */
  settle(): void {
    this.status.fill(0);
    this.flags.fill(0);
    this.causeId.fill(0);
    this.imm.fill(0);
    this.srcQp.fill(0);
    this.srcLid.fill(0);
    this.rare = false;
  }

  /** Entry i as an object: convenient, and it allocates. */
  at(i: number): Completion {
    const flags = this.flags[i];
    return {
      id: this.id[i],
      status: statusName(this.status[i]),
      opcode: COMPLETION_OPCODES[this.opcode[i]],
      byteLen: this.byteLen[i],
      imm: flags & WC_WITH_IMM ? this.imm[i] : undefined,
      qpNum: this.qpNum[i],
      srcQp: this.srcQp[i],
      ...(this.srcLid[i] > 0 && { srcLid: this.srcLid[i] }),
      grh: (flags & WC_GRH) !== 0,
      cause: undefined,
    };
  }
}

/** One completion as an object. */
export interface Completion {
  readonly id: number;
  readonly status: Status;
  readonly opcode: CompletionOpcode;
  readonly byteLen: number;
  /** Immediate data, when the completion carries some. */
  readonly imm: number | undefined;
  readonly qpNum: number;
  readonly srcQp: number;
  /** LID of the sender of a datagram on InfiniBand. */
  readonly srcLid?: number;
  /** The receive buffer starts with 40 bytes of route header (UD). */
  readonly grh: boolean;
  /** Why it failed; undefined on success. */
  readonly cause: Cause | undefined;
}
