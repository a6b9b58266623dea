/**
 * The completion queue of the shm provider: one ring of its own for sends, and a receive ring per queue pair that its peers fill.
 *
 * ```
 *   own posts ────────────> [ local ring: typed arrays of this thread ]──┐
 *   peer A ──> [ receive ring of QP 1, shared memory, one producer ]─────┼──> poll(wcs)
 *   peer B ──> [ receive ring of QP 2 ]──────────────────────────────────┘
 * ```
 * Every ring has one producer, so a peer killed in the middle wedges nobody. Up to 16 rings are looked at one by one; above that producers keep a
 * bitmap of the rings that may hold something. Both ways a producer publishes first and then looks at the queue's word, so nothing is lost in between.
 */

import type { CqInit, Moderation } from '../../completion-queue.js';
import type { WorkCompletions } from '../../work-completions.js';
import { ProvidedCompletionQueue } from '../provided-completion-queue.js';
import type { ShmCompletionThread } from './completion-thread.js';
import type { ShmDevice } from './device.js';
import {
  ARMED_ANY,
  ARMED_SOLICITED,
  C_ERRORS,
  C_RECEIVED,
  C_RECEIVED_BYTES,
  CQ_BIT_WORDS,
  CQ_BITS,
  CQ_COUNTERS_F64,
  CQ_DEPTH,
  CQ_MODERATION_COUNT,
  CQ_MODERATION_PERIOD,
  CQ_OVERRUN,
  CQ_PENDING,
  CQ_READY,
  CQ_THREAD_ARMED,
  CQ_WORD,
  CQ_WORDS,
  CQS,
  FENCED,
  H_ATTENTION,
  KEEP_BITMAP,
} from './layout.js';
import type { ShmQueuePair } from './queue-pair.js';
import type { ReceiveRing } from './receive-ring.js';
import type { ShmSharedReceiveQueue } from './shared-receive-queue.js';

/** More rings than this are found by the bitmap. */
const SCAN_AT_MOST = 16;
/** Successful polls without sleeping after which the owner counts as awake. */
const AWAKE = 256;

/**
 * A local completion: [ status | opcode << 8 | flags << 16 ][ byteLen ][ causeId ][ position in the send queue, or -1 for a receive ][ imm ][ srcQp ].
 * The last two are meant for receives only.
 */
const LOCAL_WORDS = 8;

export class ShmCompletionQueue extends ProvidedCompletionQueue {
  readonly device: ShmDevice;
  readonly number: number;
  /** Word index of the head in the control segment. */
  readonly at: number;
  readonly rings: (ReceiveRing | undefined)[] = [];
  /** Set when it overran: polling throws. */
  failed = false;
  readonly #i32: Int32Array;
  readonly #mask: number;
  /** The local ring: ids, queue pairs, and LOCAL_WORDS words each (drawn at LOCAL_WORDS). */
  readonly #id: Float64Array;
  readonly #qp: (ShmQueuePair | undefined)[];
  readonly #local: Int32Array;
  /** Where this queue's counters stand, as an index of floats. */
  readonly #counters: number;
  #head = 0;
  #tail = 0;
  #turn = 0;
  #bitmap = false;
  readonly #marked: Int32Array = new Int32Array(CQ_BIT_WORDS);
  #armed = 0;
  #fenced = false;
  #emptyPolls = 0;
  #pollsAwake = 0;
  #signalling = false;
  #periodTimer: NodeJS.Timeout | undefined;
  readonly #thread: ShmCompletionThread | undefined;

  constructor(device: ShmDevice, init: CqInit) {
    super(init, device.causes);
    this.device = device;
    this.#i32 = device.i32;
    this.number = device.cqPool.take();
    this.at = CQS + this.number * CQ_WORDS;
    this.#counters = (this.at >> 1) + CQ_COUNTERS_F64;
    const size = 1 << (32 - Math.clz32(Math.max(1, this.depth - 1)));
    this.#mask = size - 1;
    this.#id = new Float64Array(size);
    this.#qp = new Array(size).fill(undefined);
    this.#local = new Int32Array(size * LOCAL_WORDS);
    this.#i32.fill(0, this.at, this.at + CQ_WORDS);
    this.#i32[this.at + CQ_DEPTH] = this.depth;
    this.#i32[this.at + CQ_MODERATION_COUNT] = 1;
    device.noteCq(this);
    this.#thread = init.thread as ShmCompletionThread | undefined;
    if (this.#thread) {
      this.#keepBitmap();
      this.#thread.add(this);
    }
  }

  /** Adds the receive ring of a queue pair; returns its number, which peers use for the bitmap and which therefore never moves. */
  addRing(ring: ReceiveRing): number {
    const known = this.rings.indexOf(ring);
    if (known >= 0) return known;
    const hole = this.rings.indexOf(undefined);
    const at = hole >= 0 ? hole : this.rings.length;
    this.rings[at] = ring;
    if (this.rings.length > SCAN_AT_MOST) this.#keepBitmap();
    return at;
  }

  removeRing(ring: ReceiveRing): void {
    const at = this.rings.indexOf(ring);
    if (at >= 0) this.rings[at] = undefined;
  }

  #keepBitmap(): void {
    if (this.#bitmap) return;
    this.#bitmap = true;
    Atomics.or(this.#i32, this.at + CQ_WORD, KEEP_BITMAP);
    this.device.barrier();
    this.#marked.fill(-1); // what was published before anybody kept the bitmap is found by one full look
  }

  poll(wcs: WorkCompletions): number {
    const device = this.device;
    const i32 = this.#i32;
    if (i32[H_ATTENTION] !== device.attention || device.busy !== 0) device.progress();
    if (this.isClosed || this.failed) this.#refuse();
    if (wcs.rare) wcs.settle();
    let n = this.#head !== this.#tail ? this.#takeLocal(wcs) : 0;
    if (n < wcs.capacity) n = this.#bitmap ? this.#pollMarked(wcs, n) : this.#pollRings(wcs, n);
    if (n === 0) {
      // Whatever an optimizing compiler thinks of plain loads in a caller's loop, it does not move them across this.
      if ((++this.#emptyPolls & 15) === 0) Atomics.load(i32, H_ATTENTION);
    } else if (this.#fenced && ++this.#pollsAwake === AWAKE) {
      this.#fenced = false;
      Atomics.and(i32, this.at + CQ_WORD, ~FENCED);
    }
    return n;
  }

  /** Looks into every ring, starting with another one each time a poll was filled. */
  #pollRings(wcs: WorkCompletions, start: number): number {
    const { capacity } = wcs;
    const rings = this.rings;
    const count = rings.length;
    let n = start;
    for (let i = 0; i < count && n < capacity; i++) {
      const at = this.#turn + i;
      const ring = rings[at < count ? at : at - count];
      if (ring !== undefined) n = this.#pollRing(ring, wcs, n);
    }
    if (n === capacity && count > 1) this.#turn = (this.#turn + 1) % count;
    return n;
  }

  /** Takes what a ring has: ordinary messages of a private ring in one go, everything else one by one. */
  #pollRing(ring: ReceiveRing, wcs: WorkCompletions, start: number): number {
    let n = start;
    if (!ring.shared) {
      n = ring.drain(wcs, n, this.#counters);
      if (!ring.unusual && !ring.flushing) return n;
    }
    while (n < wcs.capacity) {
      const qp = ring.take(wcs, n);
      if (qp === undefined) break;
      n += this.#arrived(wcs, n, qp);
    }
    return n;
  }

  #pollMarked(wcs: WorkCompletions, start: number): number {
    const i32 = this.#i32;
    let n = start;
    if (Atomics.load(i32, this.at + CQ_READY) !== 0) {
      Atomics.store(i32, this.at + CQ_READY, 0);
      for (let w = 0; w < CQ_BIT_WORDS; w++) {
        if (Atomics.load(i32, this.at + CQ_BITS + w) !== 0) this.#marked[w] |= Atomics.exchange(i32, this.at + CQ_BITS + w, 0);
      }
    }
    const rings = this.rings;
    for (let w = 0; w < CQ_BIT_WORDS; w++) {
      while (this.#marked[w] !== 0) {
        const bit = 31 - Math.clz32(this.#marked[w] & -this.#marked[w]);
        // Rings beyond 1,024 share bits.
        for (let r = w * 32 + bit; r < rings.length; r += CQ_BIT_WORDS * 32) {
          const ring = rings[r];
          if (ring !== undefined) n = this.#pollRing(ring, wcs, n);
          if (n === wcs.capacity) return n;
        }
        this.#marked[w] &= ~(1 << bit);
      }
    }
    return n;
  }

  /** A receive completion was taken into entry n. Returns 1, or 0 when it belongs to another queue (shared receive queues). */
  #arrived(wcs: WorkCompletions, n: number, qp: ShmQueuePair): number {
    const status = wcs.status[n];
    const { f64, counterAt: counters } = qp;
    f64[counters + C_RECEIVED] += 1;
    f64[counters + C_RECEIVED_BYTES] += wcs.byteLen[n];
    f64[this.#counters] += 1;
    f64[this.#counters + 1] += wcs.byteLen[n];
    if (status !== 0) {
      qp.count(C_ERRORS, 1);
      f64[this.#counters + 2] += 1;
      if (wcs.causeId[n] === 0) {
        wcs.causeId[n] = this.device.explain(status, qp, wcs.id[n], wcs.opcode[n]);
        qp.failed(status, wcs.causeId[n]);
      }
    }
    if (qp.srq !== undefined) (qp.srq as ShmSharedReceiveQueue).check();
    const home = qp.recvCq as ShmCompletionQueue;
    if (home === this) return 1;
    home.#pushReceive(qp, wcs, n);
    wcs.status[n] = 0;
    wcs.flags[n] = 0;
    wcs.causeId[n] = 0;
    return 0;
  }

  /** Takes local completions; returns how many. */
  #takeLocal(wcs: WorkCompletions): number {
    const { capacity, id, opcode, byteLen, qpNum } = wcs;
    const local = this.#local;
    const mask = this.#mask;
    const tail = this.#tail;
    let head = this.#head;
    let n = 0;
    let bytes = 0;
    while (head !== tail && n < capacity) {
      const i = head & mask;
      const at = i * LOCAL_WORDS;
      const qp = this.#qp[i] as ShmQueuePair;
      const word = local[at];
      const length = local[at + 1];
      const position = local[at + 3];
      id[n] = this.#id[i];
      opcode[n] = word >> 8;
      byteLen[n] = length;
      qpNum[n] = qp.qpNum;
      if (position >= 0) qp.sqDone = (position + 1) & 0x7fffffff;
      if ((word & ~0xff00) !== 0 || position < 0) this.#takeRare(wcs, n, at);
      bytes += length;
      head = (head + 1) | 0;
      n++;
    }
    this.#head = head;
    const f64 = this.device.f64;
    f64[this.#counters] += n;
    f64[this.#counters + 1] += bytes;
    return n;
  }

  /** The columns that ordinary sends leave at 0. */
  #takeRare(wcs: WorkCompletions, n: number, at: number): void {
    const local = this.#local;
    const word = local[at];
    wcs.rare = true;
    wcs.status[n] = word;
    wcs.flags[n] = word >> 16;
    wcs.causeId[n] = local[at + 2];
    if ((word & 0xff) !== 0) this.device.f64[this.#counters + 2] += 1;
    if (local[at + 3] >= 0) return;
    wcs.imm[n] = local[at + 4];
    wcs.srcQp[n] = local[at + 5];
  }

  /** A completion of this context's own making. `sqPosition`: the send it finishes, or -1 for a receive. */
  push(qp: ShmQueuePair, sqPosition: number, id: number, status: number, opcode: number, byteLen: number, causeId: number): void {
    const tail = this.#tail;
    if (((tail - this.#head) | 0) >= this.depth) {
      this.overrun();
      return;
    }
    const i = tail & this.#mask;
    const local = this.#local;
    const at = i * LOCAL_WORDS;
    this.#qp[i] = qp;
    this.#id[i] = id;
    local[at] = status | (opcode << 8);
    local[at + 1] = byteLen;
    local[at + 2] = causeId;
    local[at + 3] = sqPosition;
    this.#tail = (tail + 1) | 0;
    if (this.#armed !== 0 && (this.#armed === ARMED_ANY || status !== 0)) this.#announceLocal();
  }

  /** A receive that another queue found in a shared ring. */
  #pushReceive(qp: ShmQueuePair, wcs: WorkCompletions, n: number): void {
    const at = (this.#tail & this.#mask) * LOCAL_WORDS;
    this.push(qp, -1, wcs.id[n], wcs.status[n], wcs.opcode[n], wcs.byteLen[n], wcs.causeId[n]);
    this.#local[at] |= wcs.flags[n] << 16;
    this.#local[at + 4] = wcs.imm[n];
    this.#local[at + 5] = wcs.srcQp[n];
  }

  /** More completions than the queue holds: it fails, and its queue pairs with it. */
  overrun(): void {
    if (this.failed) return;
    this.failed = true;
    this.device.raise({
      type: 'CQ_ERR',
      words: `a completion queue of ${this.depth} entries overran: poll more often or make it deeper`,
    });
    this.device.failQueuePairsOf(this);
    this.signal();
  }

  /** Called by the device when attention was asked for: a sender may have found the queue full. */
  checkOverrun(): void {
    if (Atomics.load(this.#i32, this.at + CQ_OVERRUN) !== 0) this.overrun();
  }

  isReady(): boolean {
    const device = this.device;
    if (this.#i32[H_ATTENTION] !== device.attention || device.busy !== 0) device.progress();
    if ((++this.#emptyPolls & 15) === 0) Atomics.load(this.#i32, H_ATTENTION);
    if (this.#head !== this.#tail || this.failed || this.isClosed) return true;
    if (this.#bitmap) {
      if (Atomics.load(this.#i32, this.at + CQ_READY) !== 0) return true;
      for (let w = 0; w < CQ_BIT_WORDS; w++) {
        if (this.#marked[w] === 0) continue;
        for (let r = w * 32; r < this.rings.length; r++) {
          if (((r >> 5) & (CQ_BIT_WORDS - 1)) === w && (this.#marked[w] >>> (r & 31)) & 1 && this.rings[r]?.isReady())
            return true;
        }
      }
      return this.#flushReady();
    }
    for (let i = 0; i < this.rings.length; i++) if (this.rings[i]?.isReady()) return true;
    return false;
  }

  #flushReady(): boolean {
    return this.rings.some((ring) => ring?.flushing && ring.isReady());
  }

  requestNotify(solicitedOnly = false): void {
    this.assertOpen();
    this.#armed = solicitedOnly && this.#armed !== ARMED_ANY ? ARMED_SOLICITED : ARMED_ANY;
    this.#i32[this.at + CQ_PENDING] = 0;
    this.device.sleeping();
    if (this.#thread?.awake && !solicitedOnly) {
      Atomics.store(this.#i32, this.at + CQ_THREAD_ARMED, 1);
      if (this.#thread.awake) return;
    }
    Atomics.or(this.#i32, this.at + CQ_WORD, FENCED | (solicitedOnly ? ARMED_SOLICITED : ARMED_ANY));
    if (!this.#fenced) this.device.barrier();
    this.#fenced = true;
    this.#pollsAwake = 0;
  }

  moderate(moderation: Moderation): void {
    const { count, periodUs } = this.checkedModeration(moderation);
    this.#i32[this.at + CQ_MODERATION_PERIOD] = periodUs;
    Atomics.store(this.#i32, this.at + CQ_MODERATION_COUNT, count);
  }

  /** Somebody rang. Wakes the waiters when the queue was armed and the event is due. */
  rang(): void {
    if (this.#armed === 0) return;
    const i32 = this.#i32;
    const word = Atomics.load(i32, this.at + CQ_WORD);
    const stillArmed = (word & (ARMED_ANY | ARMED_SOLICITED)) !== 0 || Atomics.load(i32, this.at + CQ_THREAD_ARMED) !== 0;
    if (stillArmed && !this.failed && !this.isClosed) {
      const period = i32[this.at + CQ_MODERATION_PERIOD];
      if (period > 0 && i32[this.at + CQ_PENDING] > 0) {
        this.#periodTimer ??= setTimeout(() => this.#due(), Math.max(1, period / 1000));
        return;
      }
      // Not from a sender: a death, a finished transfer or a deferred request may have put something here.
      if (i32[this.at + CQ_MODERATION_COUNT] > 1 || this.#armed === ARMED_SOLICITED || !this.isReady()) {
        if (!this.failed && this.#head === this.#tail && !this.#flushReady()) return;
      }
    }
    this.#due();
  }

  #due(): void {
    clearTimeout(this.#periodTimer);
    this.#periodTimer = undefined;
    if (this.#armed === 0) return;
    this.#armed = 0;
    Atomics.and(this.#i32, this.at + CQ_WORD, ~(ARMED_ANY | ARMED_SOLICITED));
    Atomics.store(this.#i32, this.at + CQ_THREAD_ARMED, 0);
    this.#thread?.traffic();
    this.device.f64[this.#counters + 3] += 1;
    this.signal();
  }

  /** A completion of one's own: counted like a sender's for moderation, and delivered from a clean stack. */
  #announceLocal(): void {
    const i32 = this.#i32;
    const count = i32[this.at + CQ_MODERATION_COUNT];
    if (count > 1) {
      const pending = Atomics.add(i32, this.at + CQ_PENDING, 1) + 1;
      if (pending < count) {
        const period = i32[this.at + CQ_MODERATION_PERIOD];
        if (period > 0) this.#periodTimer ??= setTimeout(() => this.#due(), Math.max(1, period / 1000));
        return;
      }
    }
    if (this.#signalling) return;
    this.#signalling = true;
    queueMicrotask(() => {
      this.#signalling = false;
      this.#due();
    });
  }

  #refuse(): never {
    this.assertOpen();
    this.refuseOverrun();
  }

  protected announce(): void {
    clearTimeout(this.#periodTimer);
    this.signal();
  }

  override shut(): void {
    if (!this.isClosed) this.#thread?.remove(this);
    super.shut();
  }
}
