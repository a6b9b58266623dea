/**
 * What an announcement (RTS, AM_RTS) says of the sender's memory, read from a slot and written into one. One object is used for all.
 *
 * ```
 *   in the slot   0 address f64 | 8 length f64 | 16 rkey u32 | 20 send request u32            24 bytes
 *   in the bulk   address f64 | rkey f64    for every further path of the endpoint
 * ```
 */

import type { Payload } from '../payload.js';
import type { Port } from '../port.js';
import type { ProtocolName } from '../protocols/protocol.js';
import { MOST_RAILS } from '../rail.js';
import { RTS_GET, RTS_PIPELINE, RTS_PUT } from '../wire/slot.js';

/** Bytes of one further path in the bulk. */
export const PATH_BYTES = 16;

/** The flags of an announcement for a protocol. */
export function rtsFlags(protocol: ProtocolName): number {
  return protocol === 'rndv-put' ? RTS_PUT : protocol === 'rndv-pipeline' ? RTS_GET | RTS_PIPELINE : RTS_GET;
}

export class Announcement {
  length = 0;
  /** The sender's request. */
  sender = 0;
  flags = 0;
  paths = 1;
  readonly addresses = new Float64Array(MOST_RAILS);
  readonly rkeys = new Uint32Array(MOST_RAILS);
  readonly #f64 = new Float64Array(3);
  readonly #words = new Int32Array(this.#f64.buffer);
  readonly #path = new Float64Array(2);
  readonly #pathBytes = new Uint8Array(this.#path.buffer);

  /** Describes memory that is pinned for the ports of `paths`; with flags 0, memory that the peer cannot reach. */
  describe(payload: Payload, sender: number, flags: number, ports: readonly Port[], paths: number): void {
    this.length = payload.length;
    this.sender = sender;
    this.flags = flags;
    this.paths = flags === 0 ? 1 : paths;
    this.addresses[0] = 0;
    this.rkeys[0] = 0;
    if (flags === 0) return;
    for (let path = 0; path < paths; path++) {
      const registration = payload.registrations[ports[path].index];
      if (registration === undefined) continue;
      this.addresses[path] = registration.region.addr + payload.offsetIn(registration);
      this.rkeys[path] = registration.region.rkey;
    }
  }

  /** Writes the words of the slot at a word index. */
  write(i32: Int32Array, at: number): void {
    this.#f64[0] = this.addresses[0];
    this.#f64[1] = this.length;
    this.#words[4] = this.rkeys[0];
    this.#words[5] = this.sender;
    for (let w = 0; w < 6; w++) i32[at + w] = this.#words[w];
  }

  /** Bytes that `writePaths` takes. */
  get pathBytes(): number {
    return (this.paths - 1) * PATH_BYTES;
  }

  /** Writes the further paths at a byte index. */
  writePaths(u8: Uint8Array, at: number): void {
    for (let path = 1; path < this.paths; path++) {
      this.#path[0] = this.addresses[path];
      this.#path[1] = this.rkeys[path];
      u8.set(this.#pathBytes, at + (path - 1) * PATH_BYTES);
    }
  }

  /** Reads the words of a slot. */
  read(i32: Int32Array, at: number, flags: number): void {
    for (let w = 0; w < 6; w++) this.#words[w] = i32[at + w];
    this.addresses[0] = this.#f64[0];
    this.length = this.#f64[1];
    this.rkeys[0] = this.#words[4];
    this.sender = this.#words[5];
    this.flags = flags;
    this.paths = 1;
  }

  /** Reads further paths; more than a context can have are left out. */
  readPaths(u8: Uint8Array, at: number, bytes: number): void {
    this.paths = Math.min(MOST_RAILS, 1 + Math.floor(bytes / PATH_BYTES));
    for (let path = 1; path < this.paths; path++) {
      const from = at + (path - 1) * PATH_BYTES;
      for (let b = 0; b < PATH_BYTES; b++) this.#pathBytes[b] = u8[from + b];
      this.addresses[path] = this.#path[0];
      this.rkeys[path] = this.#path[1];
    }
  }

  /** The paths as numbers, to be kept until the message is received. */
  save(): Float64Array {
    const saved = new Float64Array(2 * this.paths);
    for (let path = 0; path < this.paths; path++) {
      saved[2 * path] = this.addresses[path];
      saved[2 * path + 1] = this.rkeys[path];
    }
    return saved;
  }

  restore(saved: Float64Array, length: number, sender: number, flags: number): void {
    this.paths = saved.length >> 1;
    this.length = length;
    this.sender = sender;
    this.flags = flags;
    for (let path = 0; path < this.paths; path++) {
      this.addresses[path] = saved[2 * path];
      this.rkeys[path] = saved[2 * path + 1];
    }
  }
}
