/**
 * A queue pair at a peer, as the sender sees it: where its receive ring is, which rights it gives, and how far the sender has got.
 *
 * The entry in the peer's control segment is read once; `word` remembers the state word it was read under. As long as the word is
 * the same nothing has changed, which is all the fast path checks.
 */

import { QP_STATES, type QpState } from '../../qp-state.js';
import {
  CQ_DEPTH,
  CQ_OVERRUN,
  CQ_WORDS,
  CQS,
  H_ATTENTION,
  H_BARRIER,
  QP_ACCESS,
  QP_CQ_RING,
  QP_DEST,
  QP_DEST_ID_HI,
  QP_DEST_ID_LO,
  QP_KEY,
  QP_LIFE,
  QP_MAX,
  QP_MIN_RNR_TIMER,
  QP_PD,
  QP_READ_RESOURCES,
  QP_RECV_CQ,
  QP_RING_DEPTH,
  QP_RING_OFFSET_F64,
  QP_RING_SEGMENT,
  QP_RING_SHARED,
  QP_RING_STRIDE,
  QP_STATE,
  QP_TYPE,
  QP_WORDS,
  QPS,
  REQUEST_CLAIM,
  RING_CONSUMER,
  RING_HEAD_WORDS,
  RING_HINT,
  RING_SMALLEST,
  RING_TAIL,
  SLOT_WORDS,
} from './layout.js';
import type { Peer } from './peer.js';
import { claimWord } from './receive-ring.js';

const NO_WORDS = new Int32Array(0);
/** Looks at the tail before a sender gives up waiting, and steps of arithmetic between two looks: about a microsecond in all. */
const LOOKS = 40;
const PAUSE = 24;
/** Requests that a streaming sender waits for at most. */
const LARGEST_BATCH = 16;

export class Target {
  readonly peer: Peer;
  readonly qpNum: number;
  /** Word index of the entry. */
  readonly at: number;
  /** Both sides take part in asymmetric barriers: plain stores publish and announce (ordering.ts). */
  readonly relaxed: boolean;
  /** State word under which the fields below were read; 0: not bound. */
  word = 0;
  type = -1;
  pd = 0;
  access = 0;
  key = 0;
  minRnrTimer = 0;
  readResources = 0;
  /** The ring. */
  i32: Int32Array = NO_WORDS;
  f64: Float64Array = new Float64Array(0);
  u8: Uint8Array = new Uint8Array(0);
  ringAddress = 0;
  head = 0;
  /** First entry, first request. */
  slots = 0;
  requests = 0;
  depth = 1;
  mask = 0;
  stride = 0;
  shared = false;
  cqAt = 0;
  cqRing = 0;
  /** Life of the queue pair that this sender talks to; -1: none yet. */
  life = -1;
  /** Next position, and the first one that is not known to be posted (private rings). */
  position = 0;
  limit = 0;
  #batch = 8;
  /** Receives counted when the ring was last looked at: unchanged means a one-way stream. */
  receivedBefore = -1;
  /** No request posted below `limit` is shorter. */
  smallest = 0;

  constructor(peer: Peer, qpNum: number) {
    this.peer = peer;
    this.qpNum = qpNum;
    this.relaxed = peer.asymmetric && peer.i32[H_BARRIER] === 1;
    this.at = QPS + (qpNum < QP_MAX ? qpNum : 0) * QP_WORDS;
  }

  /** State of the queue pair now, or undefined when there is none. */
  state(): QpState | undefined {
    return QP_STATES[(Atomics.load(this.peer.i32, this.at + QP_STATE) & 15) - 1];
  }

  /** Reads the entry again. False when there is no such queue pair or its ring is gone. */
  bind(): boolean {
    const { i32, f64 } = this.peer;
    const at = this.at;
    const word = Atomics.load(i32, at + QP_STATE);
    if (word === 0 || this.qpNum >= QP_MAX) return false;
    const segment = this.peer.segment(i32[at + QP_RING_SEGMENT]);
    const cq = i32[at + QP_RECV_CQ];
    const offset = f64[(at >> 1) + QP_RING_OFFSET_F64];
    const depth = i32[at + QP_RING_DEPTH];
    this.type = i32[at + QP_TYPE];
    this.pd = i32[at + QP_PD];
    this.access = i32[at + QP_ACCESS];
    this.key = i32[at + QP_KEY];
    this.minRnrTimer = i32[at + QP_MIN_RNR_TIMER];
    this.readResources = i32[at + QP_READ_RESOURCES];
    this.cqAt = CQS + cq * CQ_WORDS;
    this.cqRing = i32[at + QP_CQ_RING];
    this.shared = i32[at + QP_RING_SHARED] === 1;
    this.stride = i32[at + QP_RING_STRIDE];
    const life = i32[at + QP_LIFE];
    if (this.life >= 0 && this.life !== life) return false;
    if (!segment || depth < 1 || Atomics.load(i32, at + QP_STATE) !== word) return false;
    this.i32 = segment.i32;
    this.f64 = segment.f64;
    this.u8 = segment.u8;
    this.ringAddress = segment.address;
    this.head = offset >> 2;
    this.slots = this.head + RING_HEAD_WORDS;
    this.requests = this.slots + depth * SLOT_WORDS;
    this.depth = depth;
    this.mask = depth - 1;
    this.limit = this.position;
    this.life = life;
    this.word = word;
    return true;
  }

  /** Whether the entry names this queue pair of ours as its destination. */
  isConnectedTo(qpNum: number, idLo: number, idHi: number): boolean {
    const { i32 } = this.peer;
    return i32[this.at + QP_DEST] === qpNum && i32[this.at + QP_DEST_ID_LO] === idLo && i32[this.at + QP_DEST_ID_HI] === idHi;
  }

  /** Looks for newly posted requests of a private ring. False: receiver not ready, or its completion queue is full. */
  refill(): boolean {
    const i32 = this.i32;
    const tail = Atomics.load(i32, this.head + RING_TAIL);
    this.smallest = i32[this.head + RING_SMALLEST];
    const consumed = i32[this.head + RING_CONSUMER];
    const { i32: control } = this.peer;
    const depth = control[this.cqAt + CQ_DEPTH];
    const room = (consumed + depth) | 0;
    this.limit = ((room - tail) | 0) < 0 ? room : tail;
    if (((this.limit - this.position) | 0) > 0) return true;
    this.limit = this.position;
    if (((tail - this.position) | 0) > 0) {
      // Requests are there, but the receiver has not polled as many completions as its queue holds: an overrun.
      Atomics.store(control, this.cqAt + CQ_OVERRUN, 1);
      Atomics.add(control, H_ATTENTION, 1);
    }
    return false;
  }

  /**
   * The same for a sender in a hurry: waits about a microsecond for a receiver that is busy reposting, which is cheaper than making a request that waits.
   * In a stream it waits for several requests at once, because every look takes the line away from the receiver that writes it; how many is learned.
   */
  refillSoon(streaming: boolean): boolean {
    const i32 = this.i32;
    const tail = this.head + RING_TAIL;
    const wanted = streaming ? this.#batch : 1;
    for (let look = 0; look < LOOKS; look++) {
      if (((i32[tail] - this.position) | 0) >= wanted) {
        if (streaming && this.#batch < LARGEST_BATCH) this.#batch++;
        return this.refill();
      }
      let pause = look;
      for (let i = 0; i < PAUSE; i++) pause = Math.imul(pause, 3) + 1;
      if (pause === 0x5f3759df) return false; // never; keeps the pause from being optimized away
    }
    this.#batch = (this.#batch >> 1) | 1;
    return this.refill();
  }

  /** Word index of the request at a position. */
  requestAt(position: number): number {
    return this.requests + (position & this.mask) * this.stride;
  }

  /** Claims the next posted slot of a shared ring for an owner. Returns its position, or -1 as "receiver not ready". */
  claim(owner: number): number {
    const i32 = this.i32;
    const hint = this.head + RING_HINT;
    const tail = Atomics.load(i32, this.head + RING_TAIL);
    for (let position = Atomics.load(i32, hint); ((tail - position) | 0) > 0; position = (position + 1) | 0) {
      const at = this.requestAt(position) + REQUEST_CLAIM;
      const free = claimWord(position, this.depth);
      if (Atomics.load(i32, at) !== free || Atomics.compareExchange(i32, at, free, free | owner) !== free) continue;
      for (;;) {
        const now = Atomics.load(i32, hint);
        if (((now - position) | 0) > 0 || Atomics.compareExchange(i32, hint, now, (position + 1) | 0) === now) break;
      }
      return position >>> 0;
    }
    return -1;
  }
}
