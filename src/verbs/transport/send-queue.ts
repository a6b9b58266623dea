/**
 * The send queue: a ring of work requests in flat arrays over one buffer.
 *
 *             head                assigned       tail
 *              v                     v            v
 *     ... done | sent, not yet acked | not started | free ...          seq numbers; slot = seq & (capacity - 1)
 *
 *     opcode   [u8 |u8 |...]   flags [u8 ...]   id [f64 ...]   remoteAddress [f64 ...]   sge[slot * maxSge + i] ...
 *
 * Flat arrays because a slot is written by one side and read by the other without making objects, and because the buffer may be a
 * SharedArrayBuffer: then the thread that posts and the thread that runs the transport share the ring, and `tail` is published
 * after the slot is complete. There is one producer (post) and one consumer (the state machine).
 */

import { acquire, release } from '../../native/ordering.js';
import { STATUS } from '../status.js';
import type { TransportHost } from './host.js';
import type { TransportMemory } from './memory.js';
import { powerOfTwo, seqAdd, seqDistance } from './sequence.js';

/** Bits of `flags`. */
export const SendFlag = { signaled: 1, fence: 2, solicited: 4 } as const;

/** A work request to be posted: filled by the caller, copied by `push`, used again. */
export class SendWork {
  /** Position in OPCODES. */
  opcode = 0;
  /** Bits of SendFlag. */
  flags: number = SendFlag.signaled;
  id = 0;
  immediate = 0;
  remoteAddress = 0;
  remoteKey = 0;
  /** Swap value of a compare-and-swap, or what a fetch-and-add adds. */
  swapHi = 0;
  swapLo = 0;
  compareHi = 0;
  compareLo = 0;
  /** UD and DC: the provider's number of the address handle, the queue pair there, and its Q_Key or DC key. */
  destination = 0;
  destQp = 0;
  destKey = 0;
  sgeCount = 0;
  readonly sgeAddress: Float64Array;
  readonly sgeLength: Uint32Array;
  readonly sgeKey: Uint32Array;
  /** Bytes taken at once instead of the scatter/gather list, or null. */
  inlineData: Uint8Array | null = null;

  constructor(maxSge: number) {
    this.sgeAddress = new Float64Array(maxSge);
    this.sgeLength = new Uint32Array(maxSge);
    this.sgeKey = new Uint32Array(maxSge);
  }
}

export interface SendQueueOptions {
  /** Requests outstanding at most. Range 1..65536. */
  depth: number;
  /** Elements of a scatter/gather list. Range 1..64. */
  maxSge: number;
  /** Bytes inline. Range 0..4096. */
  maxInline: number;
}

const CONTROL_BYTES = 16;
const HEAD = 0;
const TAIL = 1;

export class SendQueue {
  readonly depth: number;
  readonly maxSge: number;
  readonly maxInline: number;
  private readonly mask: number;
  private readonly control: Int32Array;

  readonly id: Float64Array;
  readonly remoteAddress: Float64Array;
  readonly sgeAddress: Float64Array;
  readonly remoteKey: Uint32Array;
  readonly immediate: Uint32Array;
  /** Bytes of the whole message. */
  readonly length: Uint32Array;
  readonly swapHi: Uint32Array;
  readonly swapLo: Uint32Array;
  readonly compareHi: Uint32Array;
  readonly compareLo: Uint32Array;
  readonly destination: Uint32Array;
  readonly destQp: Uint32Array;
  readonly destKey: Uint32Array;
  /** Set by the state machine when it starts the request: its first PSN and how many it takes. */
  readonly firstPsn: Uint32Array;
  readonly packets: Uint32Array;
  readonly sgeLength: Uint32Array;
  readonly sgeKey: Uint32Array;
  readonly opcode: Uint8Array;
  readonly flags: Uint8Array;
  readonly sgeCount: Uint8Array;
  /** 1: the bytes are in `inlineBytes`. */
  readonly isInline: Uint8Array;
  readonly inlineBytes: Uint8Array;

  /** Bytes of a buffer for these options. */
  static byteLength(options: SendQueueOptions): number {
    const n = powerOfTwo(options.depth);
    return CONTROL_BYTES + n * (16 + options.maxSge * 16 + 48 + 4 + options.maxInline);
  }

  /** @param buffer zeroed memory of `byteLength(options)` bytes, from `offset` (a multiple of 8) on. Default: a new buffer. */
  constructor(options: SendQueueOptions, buffer: ArrayBufferLike = new ArrayBuffer(SendQueue.byteLength(options)), offset = 0) {
    const { depth, maxSge, maxInline } = options;
    const n = powerOfTwo(depth);
    this.depth = depth;
    this.maxSge = maxSge;
    this.maxInline = maxInline;
    this.mask = n - 1;
    let at = offset;
    const take = (bytes: number): number => {
      const from = at;
      at += bytes;
      return from;
    };
    this.control = new Int32Array(buffer, take(CONTROL_BYTES), 4);
    this.id = new Float64Array(buffer, take(8 * n), n);
    this.remoteAddress = new Float64Array(buffer, take(8 * n), n);
    this.sgeAddress = new Float64Array(buffer, take(8 * n * maxSge), n * maxSge);
    this.remoteKey = new Uint32Array(buffer, take(4 * n), n);
    this.immediate = new Uint32Array(buffer, take(4 * n), n);
    this.length = new Uint32Array(buffer, take(4 * n), n);
    this.swapHi = new Uint32Array(buffer, take(4 * n), n);
    this.swapLo = new Uint32Array(buffer, take(4 * n), n);
    this.compareHi = new Uint32Array(buffer, take(4 * n), n);
    this.compareLo = new Uint32Array(buffer, take(4 * n), n);
    this.destination = new Uint32Array(buffer, take(4 * n), n);
    this.destQp = new Uint32Array(buffer, take(4 * n), n);
    this.destKey = new Uint32Array(buffer, take(4 * n), n);
    this.firstPsn = new Uint32Array(buffer, take(4 * n), n);
    this.packets = new Uint32Array(buffer, take(4 * n), n);
    this.sgeLength = new Uint32Array(buffer, take(4 * n * maxSge), n * maxSge);
    this.sgeKey = new Uint32Array(buffer, take(4 * n * maxSge), n * maxSge);
    this.opcode = new Uint8Array(buffer, take(n), n);
    this.flags = new Uint8Array(buffer, take(n), n);
    this.sgeCount = new Uint8Array(buffer, take(n), n);
    this.isInline = new Uint8Array(buffer, take(n), n);
    this.inlineBytes = new Uint8Array(buffer, take(n * maxInline), n * maxInline);
  }

  /** Its arrays and numbers, in the order of native/rc-fast.h. */
  get layout(): readonly (ArrayBufferView | number)[] {
    const { control, id, remoteAddress, sgeAddress, remoteKey, immediate, length, firstPsn, packets, sgeLength, sgeKey } = this;
    const { opcode, flags, sgeCount, isInline, inlineBytes, mask, maxSge, maxInline } = this;
    const numbers = [id, remoteAddress, sgeAddress, remoteKey, immediate, length, firstPsn, packets, sgeLength, sgeKey];
    return [control, ...numbers, opcode, flags, sgeCount, isInline, inlineBytes, mask, maxSge, maxInline];
  }

  /** Oldest request that has no completion yet. */
  get head(): number {
    return acquire(this.control, HEAD);
  }

  /** Where the next request will go. */
  get tail(): number {
    return acquire(this.control, TAIL);
  }

  get count(): number {
    return seqDistance(this.head, this.tail);
  }

  slot(seq: number): number {
    return seq & this.mask;
  }

  /** Copies a request into the ring. False when the queue is full. The caller has checked the request against the rules of verbs. */
  push(work: SendWork): boolean {
    if (this.count >= this.depth) return false;
    const tail = this.control[TAIL];
    const i = tail & this.mask;
    this.opcode[i] = work.opcode;
    this.flags[i] = work.flags;
    this.id[i] = work.id;
    this.immediate[i] = work.immediate;
    this.remoteAddress[i] = work.remoteAddress;
    this.remoteKey[i] = work.remoteKey;
    this.swapHi[i] = work.swapHi;
    this.swapLo[i] = work.swapLo;
    this.compareHi[i] = work.compareHi;
    this.compareLo[i] = work.compareLo;
    this.destination[i] = work.destination;
    this.destQp[i] = work.destQp;
    this.destKey[i] = work.destKey;
    if (work.inlineData !== null) {
      this.isInline[i] = 1;
      this.length[i] = work.inlineData.length;
      this.inlineBytes.set(work.inlineData, i * this.maxInline);
    } else {
      this.isInline[i] = 0;
      this.sgeCount[i] = work.sgeCount;
      const base = i * this.maxSge;
      let length = 0;
      for (let s = 0; s < work.sgeCount; s++) {
        this.sgeAddress[base + s] = work.sgeAddress[s];
        this.sgeLength[base + s] = work.sgeLength[s];
        this.sgeKey[base + s] = work.sgeKey[s];
        length += work.sgeLength[s];
      }
      this.length[i] = Math.min(length, 0xffffffff);
    }
    release(this.control, TAIL, seqAdd(tail, 1));
    return true;
  }

  /** The oldest request is done: its slot is freed and the host is told, unless it succeeded and asked for silence. */
  complete(host: TransportHost, status: number): void {
    const head = this.control[HEAD];
    const i = head & this.mask;
    const id = this.id[i];
    const opcode = this.opcode[i];
    const length = this.length[i];
    const isReported = status !== STATUS.SUCCESS || (this.flags[i] & SendFlag.signaled) !== 0;
    release(this.control, HEAD, seqAdd(head, 1));
    if (isReported) host.sendComplete(id, status, opcode, length);
  }

  /** Drops every request without a completion. */
  clear(): void {
    release(this.control, HEAD, this.control[TAIL]);
  }

  /** Every request completes with WR_FLUSH_ERR. */
  flush(host: TransportHost): void {
    while (this.count > 0) this.complete(host, STATUS.WR_FLUSH_ERR);
  }

  /** Whether all local memory of a request is registered and grants `access`. Inline requests have no local memory. */
  checkLocal(memory: TransportMemory, slot: number, access: number): boolean {
    if (this.isInline[slot]) return true;
    const base = slot * this.maxSge;
    for (let i = base; i < base + this.sgeCount[slot]; i++) {
      if (this.sgeLength[i] > 0 && !memory.check(this.sgeKey[i], this.sgeAddress[i], this.sgeLength[i], access)) return false;
    }
    return true;
  }

  /** Copies `length` bytes of a request's message, from `offset` on, to `into[at]`. False when the memory is no longer registered. */
  gather(memory: TransportMemory, slot: number, offset: number, length: number, into: Uint8Array, at: number): boolean {
    if (this.isInline[slot]) {
      const from = slot * this.maxInline + offset;
      for (let i = 0; i < length; i++) into[at + i] = this.inlineBytes[from + i];
      return true;
    }
    return this.walk(memory, slot, offset, length, into, at, false);
  }

  /** Copies `length` bytes of `from[at]` to a request's local memory (READ and atomic results), `offset` bytes into it. */
  scatter(memory: TransportMemory, slot: number, offset: number, length: number, from: Uint8Array, at: number): boolean {
    return this.walk(memory, slot, offset, length, from, at, true);
  }

  private walk(
    memory: TransportMemory,
    slot: number,
    offset: number,
    length: number,
    bytes: Uint8Array,
    at: number,
    isWrite: boolean,
  ): boolean {
    const base = slot * this.maxSge;
    let skip = offset;
    let position = at;
    let left = length;
    for (let i = base; i < base + this.sgeCount[slot] && left > 0; i++) {
      const room = this.sgeLength[i] - skip;
      if (room <= 0) {
        skip -= this.sgeLength[i];
        continue;
      }
      const n = Math.min(room, left);
      const address = this.sgeAddress[i] + skip;
      const moved = isWrite
        ? memory.write(this.sgeKey[i], address, n, bytes, position)
        : memory.read(this.sgeKey[i], address, n, bytes, position);
      if (!moved) return false;
      skip = 0;
      position += n;
      left -= n;
    }
    return left === 0;
  }
}
