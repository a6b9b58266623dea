/**
 * What a message is made of, in the form the core works with: one run of bytes, or a list of pieces.
 *
 * A user gives a typed array, a Buffer, an ArrayBuffer, a list of them (iov), or a strided description. All become a Payload once, at the edge.
 */

import { MessagingError } from './errors.js';
import type { Registration } from './memory/registration-cache.js';

/** Blocks of equal length at equal distances, as of a column of a matrix. */
export interface Strided {
  /** The memory that the blocks lie in. */
  readonly memory: ArrayBuffer | ArrayBufferView;
  /** First block, bytes from the start of `memory`. Default 0. */
  readonly offset?: number;
  /** Bytes of one block. */
  readonly blockLength: number;
  /** From the start of one block to the start of the next, bytes. At least blockLength. */
  readonly stride: number;
  /** Number of blocks. */
  readonly count: number;
}

/** Everything that can be sent or received into. */
export type Data = ArrayBuffer | ArrayBufferView | readonly (ArrayBuffer | ArrayBufferView)[] | Strided | Payload;

const NOTHING = new Uint8Array(0);

function bytesOf(data: ArrayBuffer | ArrayBufferView): Uint8Array {
  if (data instanceof Uint8Array) return data;
  return data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** A message's bytes. Made by `payloadOf`. */
export class Payload {
  readonly length: number;
  /** The bytes when they are in one run; else empty. */
  readonly bytes: Uint8Array;
  /** The pieces when they are not. */
  readonly pieces: readonly Uint8Array[] | undefined;
  /** Registrations that cover `bytes`, by rail, as they were found last: they may have ended since. */
  readonly registrations: (Registration | undefined)[] = [];
  /** Address of the first byte, when it is known; else 0. */
  address = 0;
  /** The same bytes as words, when they are aligned; length 0 when not. */
  readonly words: Int32Array;

  constructor(bytes: Uint8Array, pieces: readonly Uint8Array[] | undefined) {
    this.bytes = bytes;
    this.pieces = pieces;
    this.length = pieces === undefined ? bytes.length : pieces.reduce((sum, piece) => sum + piece.length, 0);
    this.words =
      pieces === undefined && bytes.length >= 4 && (bytes.byteOffset & 3) === 0
        ? new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2)
        : NO_WORDS;
  }

  /** Where `bytes` begins in a registration that covers it. */
  offsetIn(registration: Registration): number {
    return this.bytes.byteOffset - registration.region.bytes.byteOffset;
  }

  /** Copies `length` bytes from `offset` of the message into `to` at `at`. */
  pack(offset: number, length: number, to: Uint8Array, at: number): void {
    if (this.pieces === undefined) {
      copyBytes(this.bytes, offset, to, at, length);
      return;
    }
    this.#walk(offset, length, (piece, from, count, done) => copyBytes(piece, from, to, at + done, count));
  }

  /** Copies the first `length` bytes to a word of `i32`, of which `u8` is the same memory. */
  copyTo(i32: Int32Array, u8: Uint8Array, word: number, length: number): void {
    const { words } = this;
    const count = length >> 2;
    if ((length & 3) === 0 && words.length >= count) for (let w = 0; w < count; w++) i32[word + w] = words[w];
    else this.pack(0, length, u8, word << 2);
  }

  /** Copies from a word of `i32` to the first `length` bytes. */
  copyFrom(i32: Int32Array, u8: Uint8Array, word: number, length: number): void {
    const { words } = this;
    const count = length >> 2;
    if ((length & 3) === 0 && words.length >= count) for (let w = 0; w < count; w++) words[w] = i32[word + w];
    else this.unpack(0, length, u8, word << 2);
  }

  /** Copies `length` bytes of `from` at `at` to `offset` of the message. */
  unpack(offset: number, length: number, from: Uint8Array, at: number): void {
    if (this.pieces === undefined) {
      copyBytes(from, at, this.bytes, offset, length);
      return;
    }
    this.#walk(offset, length, (piece, to, count, done) => copyBytes(from, at + done, piece, to, count));
  }

  #walk(offset: number, length: number, act: (piece: Uint8Array, at: number, count: number, done: number) => void): void {
    let skip = offset;
    let done = 0;
    for (const piece of this.pieces as readonly Uint8Array[]) {
      if (done === length) return;
      if (skip >= piece.length) {
        skip -= piece.length;
        continue;
      }
      const count = Math.min(piece.length - skip, length - done);
      act(piece, skip, count, done);
      done += count;
      skip = 0;
    }
  }
}

const NO_WORDS = new Int32Array(0);
const COPY_IN_JS = 64;

/** memcpy between typed arrays: a loop where that is faster than a call. */
export function copyBytes(from: Uint8Array, at: number, to: Uint8Array, toAt: number, length: number): void {
  if (length <= COPY_IN_JS) {
    for (let i = 0; i < length; i++) to[toAt + i] = from[at + i];
  } else if (at === 0 && length === from.length) {
    to.set(from, toAt);
  } else {
    to.set(from.subarray(at, at + length), toAt);
  }
}

function stridedPieces(layout: Strided): Uint8Array[] {
  const { memory, offset = 0, blockLength, stride, count } = layout;
  const bytes = bytesOf(memory);
  const whole = [offset, blockLength, stride, count].every(Number.isInteger);
  if (!whole || offset < 0 || blockLength < 1 || count < 0 || stride < blockLength) {
    throw new MessagingError(
      'MSG_INVALID',
      'a strided layout has whole numbers: offset from 0, blockLength from 1, stride from blockLength, count from 0',
    );
  }
  if (count > 0 && offset + stride * (count - 1) + blockLength > bytes.length) {
    throw new MessagingError('MSG_INVALID', `the strided blocks end outside the ${bytes.length} bytes of their memory`);
  }
  return Array.from({ length: count }, (_, i) => bytes.subarray(offset + i * stride, offset + i * stride + blockLength));
}

/** The payload of whatever a user gives. Throws MSG_INVALID for what is no memory. */
export function payloadOf(data: Data): Payload {
  if (data instanceof Payload) return data;
  if (data instanceof ArrayBuffer || ArrayBuffer.isView(data)) return new Payload(bytesOf(data), undefined);
  if (Array.isArray(data)) {
    const pieces = (data as readonly (ArrayBuffer | ArrayBufferView)[]).map(bytesOf);
    return pieces.length === 1 ? new Payload(pieces[0], undefined) : new Payload(NOTHING, pieces);
  }
  if (typeof data === 'object' && data !== null && 'memory' in data) return new Payload(NOTHING, stridedPieces(data as Strided));
  throw new MessagingError(
    'MSG_INVALID',
    `give a typed array, a Buffer, an ArrayBuffer, a list of them or a strided layout: got ${typeof data}`,
  );
}
