/**
 * The owner's side of a receive ring (drawn in layout.ts): posts receive requests, takes completions.
 *
 * Two kinds. A private ring has one sender, which uses the positions in order. A shared ring (srq, UD, DCT) has many; each claims a slot with a
 * compare-and-swap of {lap, owner} in the slot's claim word. A claim of a process that died is taken back here, by the owner of the ring and nobody else.
 */

import { TSO } from '../../../native/ordering.js';
import { VerbsError } from '../../errors.js';
import { WC_RECV } from '../../opcode.js';
import { STATUS } from '../../status.js';
import type { WorkCompletions } from '../../work-completions.js';
import type { RecvWorkRequest } from '../../work-request.js';
import type { Block } from './arena.js';
import type { ShmDevice } from './device.js';
import {
  C_COPIED_OUT,
  C_RECEIVED,
  C_RECEIVED_BYTES,
  IN_PID,
  IN_START_F64,
  INITIATOR_WORDS,
  INITIATORS,
  REQUEST_CLAIM,
  REQUEST_LENGTH,
  REQUEST_SGE,
  REQUEST_SGES,
  RING_CONSUMER,
  RING_HEAD_WORDS,
  RING_HINT,
  RING_SMALLEST,
  RING_TAIL,
  requestWords,
  SLOT_BYTES,
  SLOT_FLAGS,
  SLOT_GRH,
  SLOT_IMM,
  SLOT_INLINE,
  SLOT_PAYLOAD,
  SLOT_QP,
  SLOT_SRC_QP,
  SLOT_WITH_IMM,
  SLOT_WORDS,
} from './layout.js';
import type { ShmMemoryRegion, Span } from './memory-region.js';
import type { ShmQueuePair } from './queue-pair.js';

/** Polls that meet an unfinished claim before its owner is looked at. */
const PATIENCE = 4096;

/** The claim word of a posted, unclaimed slot: 20 bits of lap, 12 bits of owner (0: none). */
export function claimWord(position: number, depth: number): number {
  return (Math.floor((position >>> 0) / depth) & 0xfffff) << 12;
}

export class ReceiveRing {
  readonly block: Block;
  readonly depth: number;
  readonly stride: number;
  readonly shared: boolean;
  readonly maxSge: number;
  /** How many requests the user may have outstanding; depth is the next power of two. */
  readonly limit: number;
  /** The queue pair of a private ring. */
  qp: ShmQueuePair | undefined;
  /** Finds the queue pair that a shared slot was for. */
  readonly findQp: (qpNum: number) => ShmQueuePair | undefined;
  /** Set when the queue pair failed: what is posted and unused completes with WR_FLUSH_ERR. */
  flushing = false;
  /** Set by `drain` when it stopped in front of a message that only `take` handles. */
  unusual = false;
  readonly #device: ShmDevice;
  readonly #i32: Int32Array;
  readonly #f64: Float64Array;
  readonly #head: number;
  readonly #slots: number;
  readonly #requests: number;
  readonly #mask: number;
  readonly #ids: Float64Array;
  /** The one element of most requests; #more holds longer lists. */
  readonly #regions: (ShmMemoryRegion | undefined)[];
  readonly #offsets: Float64Array;
  readonly #more: (readonly Span[] | undefined)[];
  readonly #taken: Uint8Array;
  #consumer = 0;
  #tail = 0;
  #smallest = 0x7fffffff;
  #impatience = 0;

  constructor(
    device: ShmDevice,
    limit: number,
    maxSge: number,
    shared: boolean,
    findQp: (qpNum: number) => ShmQueuePair | undefined,
  ) {
    this.#device = device;
    this.limit = limit;
    this.maxSge = maxSge;
    this.shared = shared;
    this.findQp = findQp;
    this.depth = limit <= 1 ? 1 : 1 << (32 - Math.clz32(limit - 1));
    this.stride = requestWords(maxSge);
    this.block = device.arena.take((RING_HEAD_WORDS + this.depth * (SLOT_WORDS + this.stride)) * 4);
    this.#i32 = this.block.segment.i32;
    this.#f64 = this.block.segment.f64;
    this.#head = this.block.offset >> 2;
    this.#slots = this.#head + RING_HEAD_WORDS;
    this.#requests = this.#slots + this.depth * SLOT_WORDS;
    this.#mask = this.depth - 1;
    this.#ids = new Float64Array(this.depth);
    this.#regions = new Array(this.depth).fill(undefined);
    this.#offsets = new Float64Array(this.depth);
    this.#more = new Array(this.depth).fill(undefined);
    this.#taken = new Uint8Array(this.depth);
    this.#i32[this.#head + RING_SMALLEST] = this.#smallest;
  }

  /** Requests posted and not yet completed. */
  get outstanding(): number {
    return (this.#tail - this.#consumer) | 0;
  }

  /** Requests posted that no sender has taken yet, as far as the owner can see (shared rings). */
  get unclaimed(): number {
    return (this.#tail - Math.max(Atomics.load(this.#i32, this.#head + RING_HINT), this.#consumer)) | 0;
  }

  /** Posts a list, checked. */
  post(wr: RecvWorkRequest, pd: object, badIndex: number): void {
    const sgl = wr.sgl ?? [];
    const refuse = (code: 'VERBS_INVALID' | 'VERBS_QUEUE_FULL', words: string): never => {
      throw new VerbsError(code, `work request ${badIndex}: ${words}`, { badIndex });
    };
    if (wr.id !== undefined && !Number.isSafeInteger(wr.id))
      refuse('VERBS_INVALID', `id must be a safe integer: got ${String(wr.id)}`);
    if (sgl.length > this.maxSge)
      refuse('VERBS_INVALID', `${sgl.length} scatter/gather elements, but the queue takes ${this.maxSge}`);
    if (this.outstanding >= this.limit) {
      refuse('VERBS_QUEUE_FULL', `${this.limit} receive requests are outstanding: poll completions first`);
    }
    const elements = sgl.map((sge) => {
      const region = this.#device.findRegion(sge.lkey);
      if (!region || region.pd !== pd) {
        return refuse('VERBS_INVALID', `lkey ${sge.lkey} names no region of this protection domain`);
      }
      const offset = sge.addr - region.addr;
      if (offset < 0 || offset + sge.length > region.length) {
        refuse('VERBS_INVALID', `bytes ${offset} to ${offset + sge.length} are outside the region of ${region.length} bytes`);
      }
      if (!(region.access & 1))
        refuse('VERBS_INVALID', 'the region does not allow local write: register it with { localWrite: true }');
      return { region, offset, length: sge.length };
    });
    const index = this.#tail & this.#mask;
    const request = this.#requests + index * this.stride;
    const single = elements.length === 1 && elements[0].region.kind !== 'umr';
    this.#ids[index] = wr.id ?? 0;
    this.#regions[index] = single ? elements[0].region : undefined;
    this.#offsets[index] = single ? elements[0].offset : 0;
    this.#more[index] = single ? undefined : elements.flatMap((e) => e.region.spans(e.offset, e.length));
    let length = 0;
    for (let i = 0; i < elements.length; i++) {
      const { region, offset, length: bytes } = elements[i];
      this.#writeElement(request, i, region.addr + offset, bytes, region.lkey);
      length += bytes;
    }
    this.#i32[request + REQUEST_SGES] = elements.length;
    this.#i32[request + REQUEST_LENGTH] = length;
    this.#publish(request, length);
  }

  /** Posts one element without checks beyond the queue's room: the caller has checked the range. */
  postOne(region: ShmMemoryRegion, offset: number, length: number, id: number): void {
    if (((this.#tail - this.#consumer) | 0) >= this.limit) {
      throw new VerbsError('VERBS_QUEUE_FULL', `${this.limit} receive requests are outstanding: poll completions first`, {
        badIndex: 0,
      });
    }
    const index = this.#tail & this.#mask;
    const request = this.#requests + index * this.stride;
    this.#ids[index] = id;
    // A loop that posts its buffers round and round finds the request in place.
    if (this.#regions[index] !== region || this.#offsets[index] !== offset || this.#i32[request + REQUEST_LENGTH] !== length) {
      this.#regions[index] = region;
      this.#offsets[index] = offset;
      this.#more[index] = undefined;
      this.#writeElement(request, 0, region.addr + offset, length, region.lkey);
      this.#i32[request + REQUEST_SGES] = 1;
      this.#i32[request + REQUEST_LENGTH] = length;
    }
    this.#publish(request, length);
  }

  #writeElement(request: number, i: number, address: number, length: number, lkey: number): void {
    const at = request + REQUEST_SGE + i * 4;
    this.#f64[at >> 1] = address;
    this.#i32[at + 2] = length;
    this.#i32[at + 3] = lkey;
  }

  #publish(request: number, length: number): void {
    const i32 = this.#i32;
    if (length < this.#smallest) {
      this.#smallest = length;
      i32[this.#head + RING_SMALLEST] = length;
    }
    if (this.shared) {
      this.#taken[this.#tail & this.#mask] = 0;
      Atomics.store(i32, request + REQUEST_CLAIM, claimWord(this.#tail, this.depth));
    }
    this.#tail = (this.#tail + 1) | 0;
    if (TSO) i32[this.#head + RING_TAIL] = this.#tail;
    else Atomics.store(i32, this.#head + RING_TAIL, this.#tail);
  }

  /** Whether `take` would return something. */
  isReady(): boolean {
    if (this.shared) return this.#findShared() >= 0;
    const position = this.#consumer;
    if (this.#i32[this.#slots + (position & this.#mask) * SLOT_WORDS] === ((position + 1) | 0)) return true;
    return this.flushing && position !== this.#tail;
  }

  /**
   * Takes ordinary messages of a private ring, as many as fit, and returns the new count. Stops in front of one that is none (`unusual`): an error, or a
   * buffer that is gone. `counters`: where the completion queue counts.
   */
  drain(wcs: WorkCompletions, start: number, counters: number): number {
    const i32 = this.#i32;
    const mask = this.#mask;
    let position = this.#consumer;
    this.unusual = false;
    if (i32[this.#slots + (position & mask) * SLOT_WORDS] !== ((position + 1) | 0)) return start;
    const qp = this.qp as ShmQueuePair;
    const number = qp.qpNum;
    const { capacity, id, opcode, byteLen, qpNum } = wcs;
    let n = start;
    let bytes = 0;
    let copied = 0;
    while (n < capacity) {
      const index = position & mask;
      const slot = this.#slots + index * SLOT_WORDS;
      // A plain load is a hint that costs nothing; the atomic one orders the entry's other words behind it.
      if (i32[slot] !== ((position + 1) | 0)) break;
      if (!TSO) Atomics.load(i32, slot);
      const flags = i32[slot + SLOT_FLAGS];
      const length = i32[slot + SLOT_BYTES];
      if ((flags & 0xff00) !== 0) {
        this.unusual = true;
        break;
      }
      if (flags & (SLOT_INLINE << 16) && length > 0) {
        if (!this.#copyOut(slot, index, length)) {
          this.unusual = true;
          break;
        }
        copied += length;
      }
      id[n] = this.#ids[index];
      opcode[n] = flags;
      byteLen[n] = length;
      qpNum[n] = number;
      if (flags & (SLOT_WITH_IMM << 16)) {
        wcs.rare = true;
        wcs.flags[n] = SLOT_WITH_IMM;
        wcs.imm[n] = i32[slot + SLOT_IMM];
      }
      bytes += length;
      position = (position + 1) | 0;
      n++;
    }
    this.#consumer = position;
    i32[this.#head + RING_CONSUMER] = position;
    const f64 = qp.f64;
    const at = qp.counterAt;
    f64[at + C_RECEIVED] += n - start;
    f64[at + C_RECEIVED_BYTES] += bytes;
    f64[at + C_COPIED_OUT] += copied;
    f64[counters] += n - start;
    f64[counters + 1] += bytes;
    return n;
  }

  /** Takes the next completion into entry n, whatever it is. Returns the queue pair it belongs to, or undefined when there is none. */
  take(wcs: WorkCompletions, n: number): ShmQueuePair | undefined {
    let position = this.#consumer;
    const i32 = this.#i32;
    if (this.shared) {
      const found = this.#findShared();
      if (found < 0) return undefined;
      position = (this.#consumer + found) | 0;
    }
    const index = position & this.#mask;
    const slot = this.#slots + index * SLOT_WORDS;
    // A plain load is a hint that costs nothing; the atomic one orders the entry's other words behind it.
    if (i32[slot] !== ((position + 1) | 0)) return this.flushing ? this.#flush(wcs, n) : undefined;
    if (!TSO) Atomics.load(i32, slot);
    const flags = i32[slot + SLOT_FLAGS];
    const byteLen = i32[slot + SLOT_BYTES];
    const qp = this.qp ?? this.findQp(i32[slot + SLOT_QP]);
    wcs.rare = true;
    wcs.id[n] = this.#ids[index];
    wcs.opcode[n] = flags & 0xff;
    wcs.status[n] = (flags >>> 8) & 0xff;
    wcs.byteLen[n] = byteLen;
    wcs.imm[n] = i32[slot + SLOT_IMM];
    wcs.srcQp[n] = i32[slot + SLOT_SRC_QP];
    wcs.flags[n] = (flags >>> 16) & (SLOT_WITH_IMM | SLOT_GRH);
    wcs.causeId[n] = 0;
    if ((flags >>> 16) & SLOT_INLINE && byteLen > 0) {
      if (this.#copyOut(slot, index, byteLen)) {
        if (qp !== undefined) qp.f64[qp.counterAt + C_COPIED_OUT] += byteLen;
      } else {
        wcs.status[n] = STATUS.LOC_PROT_ERR;
        wcs.byteLen[n] = 0;
      }
    }
    if (this.shared) {
      this.#taken[index] = 1;
      while (this.#consumer !== this.#tail && this.#taken[this.#consumer & this.#mask] === 1) {
        this.#taken[this.#consumer & this.#mask] = 0;
        this.#consumer = (this.#consumer + 1) | 0;
      }
    } else {
      this.#consumer = (position + 1) | 0;
    }
    i32[this.#head + RING_CONSUMER] = this.#consumer;
    if (qp === undefined) return this.take(wcs, n); // its queue pair was closed meanwhile
    wcs.qpNum[n] = qp.qpNum;
    return qp;
  }

  /** The payload that rode in the entry goes to where the request said. False when that memory is not registered any more. */
  #copyOut(slot: number, index: number, byteLen: number): boolean {
    const region = this.#regions[index];
    const i32 = this.#i32;
    if (region !== undefined) {
      if (!region.live || region.u8.length === 0) return false;
      const to = region.start + this.#offsets[index];
      if ((to & 3) === 0 && (byteLen & 3) === 0) {
        const words = region.i32;
        for (let w = 0, at = to >> 2, from = slot + SLOT_PAYLOAD; w < byteLen >> 2; w++) words[at + w] = i32[from + w];
      } else {
        const bytes = region.u8;
        const from = this.block.segment.u8;
        for (let b = 0, at = (slot + SLOT_PAYLOAD) * 4; b < byteLen; b++) bytes[to + b] = from[at + b];
      }
      return true;
    }
    const from = this.block.segment.u8;
    let at = (slot + SLOT_PAYLOAD) * 4;
    let left = byteLen;
    const spans = this.#more[index] ?? [];
    if (spans.some((span) => !span.region.live || span.region.u8.length === 0)) return false;
    for (const element of spans) {
      const bytes = Math.min(left, element.length);
      element.region.u8.set(from.subarray(at, at + bytes), element.region.start + element.offset);
      at += bytes;
      left -= bytes;
    }
    return true;
  }

  #flush(wcs: WorkCompletions, n: number): ShmQueuePair | undefined {
    const qp = this.qp;
    if (this.#consumer === this.#tail || qp === undefined) return undefined;
    wcs.rare = true;
    wcs.id[n] = this.#ids[this.#consumer & this.#mask];
    wcs.opcode[n] = WC_RECV;
    wcs.status[n] = STATUS.WR_FLUSH_ERR;
    wcs.byteLen[n] = 0;
    wcs.imm[n] = 0;
    wcs.srcQp[n] = 0;
    wcs.flags[n] = 0;
    wcs.causeId[n] = qp.flushCauseId;
    wcs.qpNum[n] = qp.qpNum;
    this.#consumer = (this.#consumer + 1) | 0;
    this.#i32[this.#head + RING_CONSUMER] = this.#consumer;
    return qp;
  }

  /** How far behind the consumer the next finished slot of a shared ring is, or -1. Finished slots behind unfinished claims are found too. */
  #findShared(): number {
    const i32 = this.#i32;
    const posted = (this.#tail - this.#consumer) | 0;
    const claimed = (Atomics.load(i32, this.#head + RING_HINT) - this.#consumer) | 0;
    let waiting = -1;
    for (let ahead = 0; ahead < posted; ahead++) {
      const position = (this.#consumer + ahead) | 0;
      const index = position & this.#mask;
      if (this.#taken[index] === 1) continue;
      const slot = this.#slots + index * SLOT_WORDS;
      if (Atomics.load(i32, slot) === ((position + 1) | 0)) return ahead;
      if (Atomics.load(i32, this.#requestAt(position) + REQUEST_CLAIM) !== claimWord(position, this.depth)) {
        if (waiting < 0) waiting = position;
      } else if (ahead >= claimed) {
        break;
      }
    }
    if (waiting !== -1 && ++this.#impatience >= PATIENCE) {
      this.#impatience = 0;
      this.#takeBack(waiting);
    }
    return -1;
  }

  #requestAt(position: number): number {
    return this.#requests + (position & this.#mask) * this.stride;
  }

  /** Frees the claim of a process that died before it finished. */
  #takeBack(position: number): void {
    const i32 = this.#i32;
    const slot = this.#slots + (position & this.#mask) * SLOT_WORDS;
    const claim = Atomics.load(i32, this.#requestAt(position) + REQUEST_CLAIM);
    const at = INITIATORS + ((claim & 0xfff) - 1) * INITIATOR_WORDS;
    const { i32: control, f64 } = this.#device;
    if (!this.#device.door.addon.isGone(control[at + IN_PID], f64[(at >> 1) + IN_START_F64])) return;
    if (Atomics.load(i32, slot) === ((position + 1) | 0)) return;
    if (
      Atomics.compareExchange(i32, this.#requestAt(position) + REQUEST_CLAIM, claim, claimWord(position, this.depth)) === claim
    ) {
      const hint = this.#head + RING_HINT;
      const now = Atomics.load(i32, hint);
      if (((now - position) | 0) > 0) Atomics.compareExchange(i32, hint, now, position);
    }
  }

  /** True when senders of a shared ring are in the middle of a slot. Claims the rest, so that nobody starts. */
  seal(): boolean {
    const i32 = this.#i32;
    let busy = false;
    for (let position = this.#consumer; position !== this.#tail; position = (position + 1) | 0) {
      if (this.#taken[position & this.#mask] === 1) continue;
      const slot = this.#slots + (position & this.#mask) * SLOT_WORDS;
      const free = claimWord(position, this.depth);
      const before = Atomics.compareExchange(i32, this.#requestAt(position) + REQUEST_CLAIM, free, free | 0xfff);
      if (before !== free && before !== (free | 0xfff) && Atomics.load(i32, slot) !== ((position + 1) | 0)) {
        busy = true;
        this.#takeBack(position);
      }
    }
    return busy;
  }

  /** A region goes. True when a posted request lies in it: senders must then look at each request, so no length is safe unseen. */
  distrust(region: ShmMemoryRegion): boolean {
    for (let position = this.#consumer; position !== this.#tail; position = (position + 1) | 0) {
      const index = position & this.#mask;
      if (this.#regions[index] !== region && !this.#more[index]?.some((span) => span.region === region)) continue;
      this.#smallest = -1;
      this.#i32[this.#head + RING_SMALLEST] = -1;
      return true;
    }
    return false;
  }

  /** Empties the ring for a new life of its queue pair. */
  reset(): void {
    const i32 = this.#i32;
    i32.fill(0, this.#head, this.#requests + this.depth * this.stride);
    this.#consumer = 0;
    this.#tail = 0;
    this.#smallest = 0x7fffffff;
    i32[this.#head + RING_SMALLEST] = this.#smallest;
    this.#taken.fill(0);
    this.#regions.fill(undefined);
    this.#more.fill(undefined);
    this.flushing = false;
  }
}
