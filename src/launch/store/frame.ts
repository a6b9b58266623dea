/**
 * Messages of the store's TCP protocol.
 *
 *   | length of all that follows, u32 | length of the header, u32 | header: JSON | value: bytes |
 *
 * The header says what is wanted, the value is what is stored; so values are never encoded twice. Both lengths are little endian. A peer that announces more
 * than it may is cut off before anything is allocated for it.
 */

import type { Socket } from 'node:net';
import { LaunchError } from '../errors.js';

/** Any message: a JSON object and bytes that belong to it. */
export interface Frame {
  readonly header: Readonly<Record<string, unknown>>;
  readonly value: Uint8Array;
}

const NOTHING = new Uint8Array(0);

export function encodeFrame(header: object, value: Uint8Array = NOTHING): Buffer {
  const text = Buffer.from(JSON.stringify(header));
  const out = Buffer.allocUnsafe(8 + text.length + value.length);
  out.writeUInt32LE(4 + text.length + value.length, 0);
  out.writeUInt32LE(text.length, 4);
  out.set(text, 8);
  out.set(value, 8 + text.length);
  return out;
}

/** Cuts a stream of bytes into frames. */
export class FrameReader {
  readonly #take: (frame: Frame) => void;
  #maxBytes: number;
  #chunks: Buffer[] = [];
  #held = 0;

  /** @param maxBytes longest frame that is accepted. */
  constructor(maxBytes: number, take: (frame: Frame) => void) {
    this.#maxBytes = maxBytes;
    this.#take = take;
  }

  /** Accepts longer frames from now on: the other side has shown who it is. */
  allow(maxBytes: number): void {
    this.#maxBytes = maxBytes;
  }

  /** @throws LAUNCH_INVALID for bytes that are no frame. */
  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#held += chunk.length;
    while (this.#held >= 8) {
      const bytes = this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks);
      this.#chunks = [bytes];
      const length = bytes.readUInt32LE(0);
      const headerLength = bytes.readUInt32LE(4);
      if (length > this.#maxBytes || headerLength > length - 4) {
        throw new LaunchError('LAUNCH_INVALID', `a frame of ${length} bytes where ${this.#maxBytes} are allowed`);
      }
      if (this.#held < 4 + length) return;
      const rest = bytes.subarray(4 + length);
      this.#chunks = rest.length > 0 ? [rest] : [];
      this.#held = rest.length;
      const header: unknown = JSON.parse(bytes.toString('utf8', 8, 8 + headerLength));
      if (typeof header !== 'object' || header === null) throw new LaunchError('LAUNCH_INVALID', 'a frame without a header');
      this.#take({ header: header as Frame['header'], value: new Uint8Array(bytes.subarray(8 + headerLength, 4 + length)) });
    }
  }
}

/** Feeds a socket's bytes to a reader; `fail` hears of bytes that are no frames. */
export function readFrames(socket: Socket, reader: FrameReader, fail: (error: Error) => void): void {
  socket.on('data', (chunk: Buffer) => {
    try {
      reader.push(chunk);
    } catch (error) {
      fail(error as Error);
    }
  });
}
