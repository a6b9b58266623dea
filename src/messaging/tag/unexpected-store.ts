/**
 * Where messages lie that came before their receive: bounded in bytes and in count. Small payloads stand in the row, longer ones in blocks that are
 * used again.
 *
 * The bound is the promise that a receiver that never receives does not grow: what does not fit here stays in the ring, and when the ring is full, at
 * the sender.
 */

import { copyBytes, type Payload } from '../payload.js';
import { INLINE_BYTES } from '../wire/slot.js';

const INLINE_WORDS = INLINE_BYTES >> 2;
const SMALLEST_CLASS = 6;

export class UnexpectedStore {
  readonly maxBytes: number;
  readonly maxCount: number;
  /** Payload bytes held now. */
  bytes = 0;
  count = 0;
  /** False while the bound is left out of account. */
  isBounded = true;
  /** Endpoint of each row. */
  endpoint = new Int32Array(64);
  length = new Float64Array(64);
  /** 1: only announced. */
  isRendezvous = new Uint8Array(64);
  /** Of rendezvous: address and key of the sender's memory, by path. */
  readonly paths: (Float64Array | undefined)[] = [];
  sender = new Int32Array(64);
  flags = new Int32Array(64);
  #inline = new Int32Array(64 * INLINE_WORDS);
  #inlineBytes = new Uint8Array(this.#inline.buffer);
  readonly #blocks: (Uint8Array | undefined)[] = [];
  readonly #spare: Uint8Array[][] = Array.from({ length: 31 }, () => []);
  #spareBytes = 0;
  readonly #free: number[] = [];
  #size = 0;

  constructor(maxBytes: number, maxCount: number) {
    this.maxBytes = maxBytes;
    this.maxCount = maxCount;
  }

  /** Whether a message of this many bytes may come in. */
  hasRoom(bytes: number): boolean {
    return !this.isBounded || (this.count < this.maxCount && this.bytes + bytes <= this.maxBytes);
  }

  /** A row for a message. */
  take(endpoint: number, length: number): number {
    let row = this.#free.pop();
    if (row === undefined) {
      if (this.#size === this.endpoint.length) this.#widen();
      row = this.#size++;
      this.#blocks.push(undefined);
      this.paths.push(undefined);
    }
    this.count++;
    this.endpoint[row] = endpoint;
    this.length[row] = length;
    this.isRendezvous[row] = 0;
    return row;
  }

  /** Keeps an eager payload. */
  fill(row: number, from: Uint8Array, at: number): void {
    const length = this.length[row];
    this.bytes += length;
    if (length <= INLINE_BYTES) {
      copyBytes(from, at, this.#inlineBytes, row * INLINE_BYTES, length);
      return;
    }
    const size = Math.max(SMALLEST_CLASS, 32 - Math.clz32(length - 1));
    let block = this.#spare[size].pop();
    if (block === undefined) block = new Uint8Array(1 << size);
    else this.#spareBytes -= block.length;
    copyBytes(from, at, block, 0, length);
    this.#blocks[row] = block;
  }

  /** Copies an eager payload out; at most what the receive holds. */
  copyOut(row: number, payload: Payload): void {
    const length = Math.min(this.length[row], payload.length);
    const block = this.#blocks[row];
    if (block === undefined) payload.unpack(0, length, this.#inlineBytes, row * INLINE_BYTES);
    else payload.unpack(0, length, block, 0);
  }

  /** Frees the row and its block. */
  release(row: number): void {
    this.count--;
    if (this.isRendezvous[row] === 0) this.bytes -= this.length[row];
    this.paths[row] = undefined;
    const block = this.#blocks[row];
    if (block !== undefined) {
      this.#blocks[row] = undefined;
      if (this.#spareBytes + block.length <= this.maxBytes >> 2) {
        this.#spareBytes += block.length;
        this.#spare[31 - Math.clz32(block.length)].push(block);
      }
    }
    this.#free.push(row);
  }

  #widen(): void {
    const rows = this.endpoint.length * 2;
    const i32 = (old: Int32Array, n = rows): Int32Array<ArrayBuffer> => {
      const next = new Int32Array(n);
      next.set(old);
      return next;
    };
    const f64 = (old: Float64Array): Float64Array<ArrayBuffer> => {
      const next = new Float64Array(rows);
      next.set(old);
      return next;
    };
    this.endpoint = i32(this.endpoint);
    this.length = f64(this.length);
    this.sender = i32(this.sender);
    this.flags = i32(this.flags);
    const kinds = new Uint8Array(rows);
    kinds.set(this.isRendezvous);
    this.isRendezvous = kinds;
    this.#inline = i32(this.#inline, rows * INLINE_WORDS);
    this.#inlineBytes = new Uint8Array(this.#inline.buffer);
  }
}
