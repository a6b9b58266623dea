/** What peers see of a queue pair: its entry in the table of the control segment (drawn in layout.ts). Only the owner writes it, but for the fault. */

import { QP_TYPES, type QpType } from '../../opcode.js';
import { QP_STATES, type QpAttributes, type QpState } from '../../qp-state.js';
import { contextIdOf } from './control.js';
import {
  COUNTERS,
  H_RETIRED_F64,
  QP_ACCESS,
  QP_COUNTERS_F64,
  QP_CQ_RING,
  QP_DEST,
  QP_DEST_ID_HI,
  QP_DEST_ID_LO,
  QP_KEY,
  QP_LIFE,
  QP_MIN_RNR_TIMER,
  QP_PD,
  QP_READ_RESOURCES,
  QP_RECV_CQ,
  QP_REMOTE_FAULT,
  QP_RING_DEPTH,
  QP_RING_OFFSET_F64,
  QP_RING_SEGMENT,
  QP_RING_SHARED,
  QP_RING_STRIDE,
  QP_STATE,
  QP_TYPE,
  QP_WORDS,
  QPS,
} from './layout.js';
import type { ReceiveRing } from './receive-ring.js';

/** What stands there from the beginning. */
interface Description {
  readonly type: QpType;
  readonly pd: number;
  readonly dcKey: number;
  readonly recvCq: number;
  readonly ring: ReceiveRing;
  /** Number of the ring in its completion queue. */
  readonly cqRing: number;
}

export class QueuePairEntry {
  /** Where its counters are, as an index of floats. */
  readonly counterAt: number;
  readonly #i32: Int32Array;
  readonly #f64: Float64Array;
  readonly #at: number;
  #epoch: number;

  constructor(i32: Int32Array, f64: Float64Array, qpNum: number, description: Description) {
    const { type, pd, dcKey, recvCq, ring, cqRing } = description;
    const at = QPS + qpNum * QP_WORDS;
    this.#i32 = i32;
    this.#f64 = f64;
    this.#at = at;
    this.counterAt = (at >> 1) + QP_COUNTERS_F64;
    const life = i32[at + QP_LIFE];
    i32.fill(0, at, at + QP_WORDS);
    i32[at + QP_LIFE] = life + 1;
    i32[at + QP_READ_RESOURCES] = 16;
    i32[at + QP_TYPE] = QP_TYPES.indexOf(type);
    i32[at + QP_PD] = pd;
    i32[at + QP_KEY] = dcKey | 0;
    i32[at + QP_RECV_CQ] = recvCq;
    i32[at + QP_CQ_RING] = cqRing;
    i32[at + QP_RING_SEGMENT] = ring.block.segmentIndex;
    f64[(at >> 1) + QP_RING_OFFSET_F64] = ring.block.offset;
    i32[at + QP_RING_DEPTH] = ring.depth;
    i32[at + QP_RING_STRIDE] = ring.stride;
    i32[at + QP_RING_SHARED] = ring.shared ? 1 : 0;
    this.#epoch = life * 16;
    this.show('RESET');
  }

  /** Publishes a state under a new epoch: whoever has looked looks again. */
  show(state: QpState): void {
    this.#epoch = (this.#epoch + 1) & 0x7ffffff;
    Atomics.store(this.#i32, this.#at + QP_STATE, (this.#epoch << 4) | (QP_STATES.indexOf(state) + 1));
  }

  describe({ accessFlags, qkey, minRnrTimer, maxDestRdAtomic, av, destQpNum }: QpAttributes): void {
    const i32 = this.#i32;
    const at = this.#at;
    if (accessFlags !== undefined) i32[at + QP_ACCESS] = accessFlags;
    if (qkey !== undefined) i32[at + QP_KEY] = qkey | 0;
    if (minRnrTimer !== undefined) i32[at + QP_MIN_RNR_TIMER] = minRnrTimer;
    if (maxDestRdAtomic !== undefined) i32[at + QP_READ_RESOURCES] = maxDestRdAtomic;
    if (!av || destQpNum === undefined) return;
    const id = contextIdOf(av.gid);
    i32[at + QP_DEST] = destQpNum;
    i32[at + QP_DEST_ID_LO] = id.idLo;
    i32[at + QP_DEST_ID_HI] = id.idHi;
  }

  /** Another life: what peers knew of the last one is void. */
  reset(): void {
    this.#i32[this.#at + QP_LIFE]++;
    this.#i32[this.#at + QP_REMOTE_FAULT] = 0;
    this.show('RESET');
  }

  /** What a peer has done wrong since the last look: 0 nothing, 1 an access error, 2 an invalid request. */
  takeFault(): number {
    return Atomics.exchange(this.#i32, this.#at + QP_REMOTE_FAULT, 0);
  }

  /** No such queue pair any more. Its counters go to those of the device. */
  close(): void {
    Atomics.store(this.#i32, this.#at + QP_STATE, 0);
    this.#i32[this.#at + QP_LIFE]++;
    for (let c = 0; c < COUNTERS; c++) this.#f64[H_RETIRED_F64 + c] += this.#f64[this.counterAt + c];
  }
}
