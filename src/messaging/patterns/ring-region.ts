/**
 * A ring region: memory of the receiver that one sender writes by itself. The receiver is not asked; it finds messages by looking.
 *
 * ```
 *   receiver's memory, registered for remote write
 *   +--------------------------+------------------------------------+--------------------------------------------+
 *   | head, 128 B              | slots, 64 B each                   | bulk                                       |
 *   | 0 consumed (receiver's)  | [seq ...][seq ...][seq ...]        | ====payload====  ==payload==               |
 *   | 64 starved, farewell     |   ^ consumed     ^ position        |                 ^ bulk head                |
 *   |    (sender's)            |                                    |                                            |
 *   +--------------------------+------------------------------------+--------------------------------------------+
 * ```
 * A slot is published by its first word, position + 1, which is written last; a stale slot holds the number of an earlier lap, so nothing has to be
 * cleared. What does not fit a slot lies in the bulk part, in the order of the slots, so the one number `consumed` gives back both: it is the credit.
 *
 * Two ways to write, chosen by what the device can do:
 * - `direct`: the sender has the memory mapped (`directAccess`) and stores into it; the receiver polls the slot. It reads `consumed` when it runs out.
 * - `immediate`: the sender composes the slot in a mirror of the ring and posts RDMA_WRITE of the bulk and RDMA_WRITE_WITH_IMM of the slot; the receiver
 *   counts immediates, and returns `consumed` by RDMA_WRITE into a word of the sender.
 */

import { release, TSO } from '../../native/ordering.js';
import type { Device, MemoryRegion, PreparedSend, ProtectionDomain, QpAddress, RemoteRegion } from '../../verbs/index.js';
import { S_SEQUENCE, SLOT_BYTES, SLOT_WORDS } from '../wire/slot.js';

/** Size of a ring. Both are powers of two. */
export interface RingShape {
  /** Slots: messages under way at most. */
  readonly slots: number;
  /** Bytes for payloads that do not fit a slot. */
  readonly bulkBytes: number;
}

const RING_HEAD_BYTES = 128;
const HEAD_CONSUMED = 0;
const HEAD_STARVED = 16;
const HEAD_FAREWELL = 17;

/** Bytes that a ring of this shape takes. */
export function ringBytes(shape: RingShape): number {
  return RING_HEAD_BYTES + shape.slots * SLOT_BYTES + shape.bulkBytes;
}

/** A ring in registered memory: whoever receives makes it, tells the sender `remote()` by any means, and reads; the sender attaches to it. */
export class RingRegion {
  readonly memory: MemoryRegion;
  readonly reader: RingReader;

  /** @param shape both powers of two; the sender must know it too. Throws VERBS_NO_MEMORY. */
  constructor(device: Device, pd: ProtectionDomain, shape: RingShape) {
    this.memory = pd.register(device.alloc(ringBytes(shape)), { remoteWrite: true });
    this.reader = new RingReader(this.memory.bytes, shape, false);
  }

  /** What the sender needs. */
  remote(): RemoteRegion {
    return this.memory.remote();
  }

  /** The sender's side of a ring that can be mapped. @param peer the receiver's queue pair. Throws VERBS_UNSUPPORTED, VERBS_PEER_LOST. */
  static attach(device: Device, peer: QpAddress, remote: RemoteRegion, shape: RingShape): RingWriter {
    return new RingWriter(device.directAccess(peer, remote), shape, true);
  }
}

/** The receiver's side. */
export class RingReader {
  /** The memory: the fields of the next message are `i32[slot + S_...]`. */
  readonly i32: Int32Array;
  readonly u8: Uint8Array;
  /** Byte index of the bulk part in `u8`. */
  readonly bulkAt: number;
  /** Address of byte 0 of `u8`, when it is known; else 0. */
  address = 0;
  readonly slots: number;
  readonly bulkBytes: number;
  /** Messages taken so far. */
  position = 0;
  /** Immediates that announced slots not yet taken; unused in direct mode. */
  arrived = 0;
  /** `position` as the sender was told last; immediate mode. */
  reported = 0;
  /** Bulk bytes taken and not yet reported; immediate mode. */
  unreportedBytes = 0;
  readonly #counted: boolean;
  readonly #head: number;
  readonly #first: number;
  readonly #mask: number;

  /** @param memory the ring's bytes, 64-byte aligned. @param counted arrivals are counted by immediates. */
  constructor(memory: Uint8Array, shape: RingShape, counted: boolean) {
    this.i32 = new Int32Array(memory.buffer, 0, memory.buffer.byteLength >> 2);
    this.u8 = new Uint8Array(memory.buffer);
    this.#head = memory.byteOffset >> 2;
    this.#first = this.#head + (RING_HEAD_BYTES >> 2);
    this.#mask = shape.slots - 1;
    this.slots = shape.slots;
    this.bulkBytes = shape.bulkBytes;
    this.bulkAt = memory.byteOffset + RING_HEAD_BYTES + shape.slots * SLOT_BYTES;
    this.#counted = counted;
  }

  /** Word index of the next message, or -1 when there is none. */
  peek(): number {
    const position = this.position;
    const slot = this.#first + (position & this.#mask) * SLOT_WORDS;
    if (this.#counted) return this.arrived > 0 ? slot : -1;
    if (this.i32[slot] !== ((position + 1) | 0)) return -1;
    if (!TSO) Atomics.load(this.i32, slot);
    return slot;
  }

  /** Word index of the message `ahead` places behind the next one, or -1 when it has not arrived. */
  peekAhead(ahead: number): number {
    const position = (this.position + ahead) | 0;
    const slot = this.#first + (position & this.#mask) * SLOT_WORDS;
    if (ahead >= this.slots) return -1;
    if (this.#counted) return this.arrived > ahead ? slot : -1;
    return Atomics.load(this.i32, slot) === ((position + 1) | 0) ? slot : -1;
  }

  /** Gives the next slot and its bulk back. */
  release(bulkLength: number): void {
    this.pass(bulkLength);
    this.giveBack();
  }

  /** Goes on to the next slot. The sender learns of it by `giveBack`: once for many, since the line of `consumed` then moves between the caches. */
  pass(bulkLength: number): void {
    this.position = (this.position + 1) | 0;
    if (!this.#counted) return;
    this.arrived--;
    this.unreportedBytes += bulkLength;
  }

  /** Gives back all slots that were passed; direct mode. */
  giveBack(): void {
    if (!this.#counted) release(this.i32, this.#head + HEAD_CONSUMED, this.position);
  }

  /** Whether enough was taken that the sender should hear of it; immediate mode. */
  get creditDue(): boolean {
    return (
      ((this.position - this.reported) | 0) > 0 &&
      (((this.position - this.reported) | 0) >= this.slots >> 3 || this.unreportedBytes >= this.bulkBytes >> 3)
    );
  }

  /** True once after the sender said that it sleeps until there is room; direct mode. */
  takeStarved(): boolean {
    if (this.i32[this.#head + HEAD_STARVED] === 0) return false;
    return Atomics.exchange(this.i32, this.#head + HEAD_STARVED, 0) !== 0;
  }

  /** The sender has said that it writes nothing more; direct mode. */
  get hasFarewell(): boolean {
    return Atomics.load(this.i32, this.#head + HEAD_FAREWELL) !== 0;
  }
}

/** How slots leave in immediate mode. */
export interface RingPosts {
  /** RDMA_WRITE from the mirror to the ring, the same offsets. */
  readonly bulk: PreparedSend;
  /** RDMA_WRITE_WITH_IMM likewise. */
  readonly slot: PreparedSend;
  /** The word that the receiver writes `consumed` into. */
  readonly credits: Int32Array;
  readonly creditAt: number;
  /** Immediate data: which ring. */
  readonly imm: number;
  /** Where the ring begins in the prepared regions, bytes. */
  readonly offset: number;
  /** Told after each slot. */
  readonly posted: () => void;
}

/** The sender's side. Reserve, fill the slot and its bulk, publish. */
export class RingWriter {
  /** The ring (direct) or its mirror. */
  readonly i32: Int32Array;
  readonly u8: Uint8Array;
  readonly bulkAt: number;
  /** Address of byte 0 of `u8`, when it is known; else 0. */
  address = 0;
  readonly slots: number;
  readonly bulkBytes: number;
  /** Messages published so far. */
  position = 0;
  /** Offset in the bulk part of the reservation made last. */
  bulkOffset = 0;
  #limit: number;
  #consumed = 0;
  #bulkHead = 0;
  #bulkFreed = 0;
  #reservedHead = 0;
  #reservedLength = 0;
  readonly #ends: Int32Array;
  readonly #head: number;
  readonly #first: number;
  readonly #mask: number;
  readonly #isRelaxed: boolean;
  readonly #posts: RingPosts | undefined;

  /** @param isRelaxed nothing that is loaded after a message was published has to be newer than it; direct mode. */
  constructor(memory: Uint8Array, shape: RingShape, isRelaxed: boolean, posts?: RingPosts) {
    this.i32 = new Int32Array(memory.buffer, 0, memory.buffer.byteLength >> 2);
    this.u8 = new Uint8Array(memory.buffer);
    this.#head = memory.byteOffset >> 2;
    this.#first = this.#head + (RING_HEAD_BYTES >> 2);
    this.#mask = shape.slots - 1;
    this.slots = shape.slots;
    this.bulkBytes = shape.bulkBytes;
    this.bulkAt = memory.byteOffset + RING_HEAD_BYTES + shape.slots * SLOT_BYTES;
    this.#limit = shape.slots;
    this.#ends = new Int32Array(shape.slots);
    this.#isRelaxed = isRelaxed;
    this.#posts = posts;
  }

  /** Word index of a free slot, or -1 when the receiver has to give some back first. */
  reserve(): number {
    const position = this.position;
    if (position === this.#limit && !this.#refresh()) return -1;
    this.#reservedHead = this.#bulkHead;
    this.#reservedLength = 0;
    return this.#first + (position & this.#mask) * SLOT_WORDS;
  }

  /** The same with `length` bytes of bulk, contiguous at `bulkOffset`. */
  reserveBulk(length: number): number {
    const slot = this.reserve();
    if (slot < 0) return -1;
    const bytes = this.bulkBytes;
    let head = this.#bulkHead;
    const at = head & (bytes - 1);
    if (at + length > bytes) head = (head + bytes - at) | 0; // wrap: the rest of the lap is left out
    const end = (head + ((length + 63) & ~63)) | 0;
    if (((end - this.#bulkFreed) | 0) > bytes) {
      this.#refresh();
      if (((end - this.#bulkFreed) | 0) > bytes) return -1;
    }
    this.bulkOffset = head & (bytes - 1);
    this.#reservedHead = end;
    this.#reservedLength = length;
    return slot;
  }

  /** Where the reserved bulk lies in the receiver's memory, from the start of what the prepared requests reach; immediate mode. */
  get remoteBulkOffset(): number {
    return (this.#posts?.offset ?? 0) + RING_HEAD_BYTES + this.slots * SLOT_BYTES + this.bulkOffset;
  }

  /** Makes the reserved slot visible to the receiver. @param withBulk false: its bulk was written there by another request before. */
  publish(slot: number, withBulk = true): void {
    const position = this.position;
    const next = (position + 1) | 0;
    this.#ends[position & this.#mask] = this.#reservedHead;
    this.#bulkHead = this.#reservedHead;
    this.position = next;
    if (this.#isRelaxed) release(this.i32, slot + S_SEQUENCE, next);
    else Atomics.store(this.i32, slot + S_SEQUENCE, next);
    if (this.#posts !== undefined) this.#post(this.#posts, position, withBulk);
  }

  #post(posts: RingPosts, position: number, withBulk: boolean): void {
    if (this.#reservedLength > 0 && withBulk) posts.bulk.post(this.remoteBulkOffset, this.#reservedLength, 0);
    posts.slot.imm = posts.imm;
    posts.slot.post(posts.offset + RING_HEAD_BYTES + (position & this.#mask) * SLOT_BYTES, SLOT_BYTES, 0);
    posts.posted();
  }

  /** Tells the receiver that the sender is about to sleep until there is room; then look again. Direct mode. */
  declareStarved(): void {
    if (this.#posts === undefined) Atomics.store(this.i32, this.#head + HEAD_STARVED, 1);
  }

  /** The last store into the ring: nothing more comes. Direct mode. */
  sayFarewell(): void {
    if (this.#posts === undefined) Atomics.store(this.i32, this.#head + HEAD_FAREWELL, 1);
  }

  #refresh(): boolean {
    const posts = this.#posts;
    const consumed =
      posts === undefined ? Atomics.load(this.i32, this.#head + HEAD_CONSUMED) : Atomics.load(posts.credits, posts.creditAt);
    if (consumed === this.#consumed) return this.position !== this.#limit;
    this.#consumed = consumed;
    this.#limit = (consumed + this.slots) | 0;
    this.#bulkFreed = this.#ends[(consumed - 1) & this.#mask];
    return true;
  }
}
