/**
 * A completion queue between two threads: the engine pushes, the program's thread takes. One producer, one consumer, no lock.
 *
 *     control [ head | tail | armed | count | period | pending | due | overrun ]      arrays of `capacity`, slot = seq & mask
 *     id [f64]  byteLength, immediate, qpNum, sourceQp, epoch [u32]  status, opcode, flags [u8]
 *
 *     sleeping without losing a wake-up:     consumer: arm, look once more, sleep      producer: publish `tail`, then look at `armed`
 *
 * `due` is what the consumer finds when its bell has rung: an event is due, or a moderation period has to be waited for.
 */

import { acquire, release } from '../../../native/ordering.js';
import { powerOfTwo } from '../../transport/sequence.js';
import type { WorkCompletions } from '../../work-completions.js';

const HEAD = 0;
const TAIL = 1;
const ARMED = 2;
const COUNT = 3;
const PERIOD = 4;
const PENDING = 5;
const DUE = 6;
const OVERRUN = 7;
const CONTROL_BYTES = 64;

/** How the queue is armed. */
const Armed = { not: 0, solicited: 1, any: 2 } as const;
/** What `takeDue` gives. */
export const Due = { nothing: 0, event: 1, period: 2 } as const;
/** What became of a completion that was pushed. */
export const Pushed = { quietly: 0, ring: 1, overrun: 2, lost: 3 } as const;

export class CompletionRing {
  readonly depth: number;
  private readonly mask: number;
  private readonly control: Int32Array;
  private readonly id: Float64Array;
  private readonly byteLength: Uint32Array;
  private readonly immediate: Uint32Array;
  private readonly qpNum: Uint32Array;
  private readonly sourceQp: Uint32Array;
  private readonly epoch: Uint32Array;
  private readonly status: Uint8Array;
  private readonly opcode: Uint8Array;
  private readonly flags: Uint8Array;

  /** Bytes of a buffer for this depth. */
  static byteLength(depth: number): number {
    return CONTROL_BYTES + powerOfTwo(depth) * (8 + 5 * 4 + 3);
  }

  /** @param buffer zeroed memory of `byteLength(depth)` bytes, the same for both sides. */
  constructor(depth: number, buffer: SharedArrayBuffer) {
    const n = powerOfTwo(depth);
    this.depth = depth;
    this.mask = n - 1;
    this.control = new Int32Array(buffer, 0, 16);
    let at = CONTROL_BYTES;
    const take = (bytes: number): number => {
      const from = at;
      at += bytes * n;
      return from;
    };
    this.id = new Float64Array(buffer, take(8), n);
    this.byteLength = new Uint32Array(buffer, take(4), n);
    this.immediate = new Uint32Array(buffer, take(4), n);
    this.qpNum = new Uint32Array(buffer, take(4), n);
    this.sourceQp = new Uint32Array(buffer, take(4), n);
    this.epoch = new Uint32Array(buffer, take(4), n);
    this.status = new Uint8Array(buffer, take(1), n);
    this.opcode = new Uint8Array(buffer, take(1), n);
    this.flags = new Uint8Array(buffer, take(1), n);
  }

  /** Its arrays and numbers, in the order of native/rc-fast.h. */
  get layout(): readonly (ArrayBufferView | number)[] {
    const { control, id, byteLength, immediate, qpNum, sourceQp, epoch, status, opcode, flags, mask, depth } = this;
    return [control, id, byteLength, immediate, qpNum, sourceQp, epoch, status, opcode, flags, mask, depth];
  }

  // ---- producer ----

  /** Adds a completion. The answer is one of `Pushed`: `ring` asks to ring the consumer's bell. */
  push(
    id: number,
    status: number,
    opcode: number,
    byteLength: number,
    immediate: number,
    qpNum: number,
    sourceQp: number,
    flags: number,
    epoch: number,
    isSolicited: boolean,
  ): number {
    const { control } = this;
    if (control[OVERRUN] !== 0) return Pushed.lost;
    const tail = control[TAIL];
    if (((tail - acquire(control, HEAD)) | 0) >= this.depth) {
      Atomics.store(control, OVERRUN, 1);
      return Pushed.overrun;
    }
    const i = tail & this.mask;
    this.id[i] = id;
    this.status[i] = status;
    this.opcode[i] = opcode;
    this.byteLength[i] = byteLength;
    this.immediate[i] = immediate;
    this.qpNum[i] = qpNum;
    this.sourceQp[i] = sourceQp;
    this.flags[i] = flags;
    this.epoch[i] = epoch;
    Atomics.store(control, TAIL, (tail + 1) | 0);
    const armed = acquire(control, ARMED);
    if (armed === Armed.not || (armed === Armed.solicited && !isSolicited && status === 0)) return Pushed.quietly;
    const pending = Atomics.add(control, PENDING, 1) + 1;
    if (pending >= Atomics.load(control, COUNT)) {
      Atomics.store(control, ARMED, Armed.not);
      Atomics.store(control, DUE, Due.event);
      return Pushed.ring;
    }
    if (pending > 1 || Atomics.load(control, PERIOD) === 0) return Pushed.quietly;
    Atomics.store(control, DUE, Due.period);
    return Pushed.ring;
  }

  // ---- consumer ----

  get isEmpty(): boolean {
    return acquire(this.control, TAIL) === this.control[HEAD];
  }

  get isOverrun(): boolean {
    return acquire(this.control, OVERRUN) !== 0;
  }

  /** Takes the oldest completion into entry `n` and returns its epoch, or -1 when there is none. */
  take(wcs: WorkCompletions, n: number): number {
    const { control } = this;
    const head = control[HEAD];
    if (acquire(control, TAIL) === head) return -1;
    const i = head & this.mask;
    wcs.id[n] = this.id[i];
    wcs.status[n] = this.status[i];
    wcs.opcode[n] = this.opcode[i];
    wcs.byteLen[n] = this.byteLength[i];
    wcs.imm[n] = this.immediate[i];
    wcs.qpNum[n] = this.qpNum[i];
    wcs.srcQp[n] = this.sourceQp[i];
    wcs.flags[n] = this.flags[i];
    wcs.causeId[n] = 0;
    const epoch = this.epoch[i];
    release(control, HEAD, (head + 1) | 0);
    return epoch;
  }

  arm(solicitedOnly: boolean): void {
    const { control } = this;
    Atomics.store(control, PENDING, 0);
    if (Atomics.load(control, ARMED) !== Armed.any) Atomics.store(control, ARMED, solicitedOnly ? Armed.solicited : Armed.any);
  }

  disarm(): void {
    Atomics.store(this.control, ARMED, Armed.not);
  }

  /** `count` completions make an event; with a period, fewer do after it. Microseconds. */
  moderate(count: number, periodUs: number): void {
    Atomics.store(this.control, COUNT, count);
    Atomics.store(this.control, PERIOD, periodUs);
  }

  get periodUs(): number {
    return this.control[PERIOD];
  }

  takeDue(): number {
    return Atomics.exchange(this.control, DUE, Due.nothing);
  }
}
