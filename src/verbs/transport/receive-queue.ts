/**
 * The receive queue, a queue pair's own or one that many share: a ring of buffers in flat arrays, as in send-queue.ts.
 *
 *            head        tail
 *             v           v
 *     ... taken | posted  | free ...          slot = seq & (capacity - 1); sge[slot * maxSge + i]
 *
 * A taken request is copied out into the taker's `ReceiveWork`, because the slots of a shared queue are reused while a long
 * message is still arriving.
 */

import { acquire, release } from '../../native/ordering.js';
import { ACCESS_LOCAL_WRITE } from '../access.js';
import { WC_RECV } from '../opcode.js';
import { STATUS } from '../status.js';
import type { TransportHost } from './host.js';
import type { TransportMemory } from './memory.js';
import { powerOfTwo, seqAdd, seqDistance } from './sequence.js';
import type { StateCopy } from './state-copy.js';

/** One receive request: filled to post it, or what a state machine has taken and is filling. */
export class ReceiveWork {
  id = 0;
  sgeCount = 0;
  /** Bytes of all elements. */
  length = 0;
  readonly sgeAddress: Float64Array;
  readonly sgeLength: Uint32Array;
  readonly sgeKey: Uint32Array;

  constructor(maxSge: number) {
    this.sgeAddress = new Float64Array(maxSge);
    this.sgeLength = new Uint32Array(maxSge);
    this.sgeKey = new Uint32Array(maxSge);
  }

  copyState(s: StateCopy): void {
    this.id = s.number(this.id);
    this.length = s.number(this.length);
    this.sgeCount = s.number(this.sgeCount);
    for (let i = 0; i < this.sgeCount; i++) {
      this.sgeAddress[i] = s.number(this.sgeAddress[i]);
      this.sgeLength[i] = s.number(this.sgeLength[i]);
      this.sgeKey[i] = s.number(this.sgeKey[i]);
    }
    s.skip(3 * (this.sgeAddress.length - this.sgeCount));
  }

  /** Whether all of its memory is registered and may be written. */
  isWritable(memory: TransportMemory): boolean {
    for (let i = 0; i < this.sgeCount; i++) {
      const length = this.sgeLength[i];
      if (length > 0 && !memory.check(this.sgeKey[i], this.sgeAddress[i], length, ACCESS_LOCAL_WRITE)) return false;
    }
    return true;
  }

  /** Scatters `length` bytes of `from` to this request's memory, `offset` bytes into it. The caller has checked that they fit. */
  scatter(memory: TransportMemory, offset: number, from: Uint8Array, at: number, length: number): boolean {
    let skip = offset;
    let source = at;
    let left = length;
    for (let i = 0; i < this.sgeCount && left > 0; i++) {
      const room = this.sgeLength[i] - skip;
      if (room <= 0) {
        skip -= this.sgeLength[i];
        continue;
      }
      const n = Math.min(room, left);
      if (!memory.write(this.sgeKey[i], this.sgeAddress[i] + skip, n, from, source)) return false;
      skip = 0;
      source += n;
      left -= n;
    }
    return left === 0;
  }
}

export interface ReceiveQueueOptions {
  /** Requests outstanding at most. Range 1..65536. */
  depth: number;
  /** Elements of a scatter list. Range 1..64. */
  maxSge: number;
}

const CONTROL_BYTES = 16;
const HEAD = 0;
const TAIL = 1;

export class ReceiveQueue {
  readonly depth: number;
  readonly maxSge: number;
  private readonly mask: number;
  private readonly control: Int32Array;
  private readonly id: Float64Array;
  private readonly sgeAddress: Float64Array;
  private readonly sgeLength: Uint32Array;
  private readonly sgeKey: Uint32Array;
  private readonly sgeCount: Uint8Array;

  /** Bytes of a buffer for these options. */
  static byteLength(options: ReceiveQueueOptions): number {
    return CONTROL_BYTES + powerOfTwo(options.depth) * (9 + options.maxSge * 16);
  }

  /** @param buffer zeroed memory of `byteLength(options)` bytes, from `offset` (a multiple of 8) on. Default: a new buffer. */
  constructor(
    options: ReceiveQueueOptions,
    buffer: ArrayBufferLike = new ArrayBuffer(ReceiveQueue.byteLength(options)),
    offset = 0,
  ) {
    const n = powerOfTwo(options.depth);
    const sges = n * options.maxSge;
    this.depth = options.depth;
    this.maxSge = options.maxSge;
    this.mask = n - 1;
    this.control = new Int32Array(buffer, offset, 4);
    const at = offset + CONTROL_BYTES;
    this.id = new Float64Array(buffer, at, n);
    this.sgeAddress = new Float64Array(buffer, at + 8 * n, sges);
    this.sgeLength = new Uint32Array(buffer, at + 8 * n + 8 * sges, sges);
    this.sgeKey = new Uint32Array(buffer, at + 8 * n + 12 * sges, sges);
    this.sgeCount = new Uint8Array(buffer, at + 8 * n + 16 * sges, n);
  }

  /** Its arrays and numbers, in the order of native/rc-fast.h. */
  get layout(): readonly (ArrayBufferView | number)[] {
    return [this.control, this.id, this.sgeAddress, this.sgeLength, this.sgeKey, this.sgeCount, this.mask, this.maxSge];
  }

  get count(): number {
    return seqDistance(acquire(this.control, HEAD), acquire(this.control, TAIL));
  }

  /** Copies a request into the ring. False when the queue is full. */
  push(work: ReceiveWork): boolean {
    if (this.count >= this.depth) return false;
    const tail = this.control[TAIL];
    const i = tail & this.mask;
    const base = i * this.maxSge;
    this.id[i] = work.id;
    this.sgeCount[i] = work.sgeCount;
    for (let s = 0; s < work.sgeCount; s++) {
      this.sgeAddress[base + s] = work.sgeAddress[s];
      this.sgeLength[base + s] = work.sgeLength[s];
      this.sgeKey[base + s] = work.sgeKey[s];
    }
    Atomics.store(this.control, TAIL, seqAdd(tail, 1));
    return true;
  }

  /** Drops every request without a completion. */
  clear(): void {
    release(this.control, HEAD, this.control[TAIL]);
  }

  /** Every request completes with WR_FLUSH_ERR. */
  flush(host: TransportHost): void {
    const work = new ReceiveWork(this.maxSge);
    while (this.take(work)) host.receiveComplete(work.id, STATUS.WR_FLUSH_ERR, WC_RECV, 0, 0, 0, 0, false);
  }

  /** Takes the oldest request. False when there is none. */
  take(into: ReceiveWork): boolean {
    if (this.count === 0) return false;
    const head = this.control[HEAD];
    const i = head & this.mask;
    const base = i * this.maxSge;
    into.id = this.id[i];
    into.sgeCount = this.sgeCount[i];
    let length = 0;
    for (let s = 0; s < into.sgeCount; s++) {
      into.sgeAddress[s] = this.sgeAddress[base + s];
      into.sgeLength[s] = this.sgeLength[base + s];
      into.sgeKey[s] = this.sgeKey[base + s];
      length += into.sgeLength[s];
    }
    into.length = length;
    release(this.control, HEAD, seqAdd(head, 1));
    return true;
  }
}
