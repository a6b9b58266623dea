/**
 * Remote memory: put, get and atomics on memory of the peer, without its help.
 *
 * The owner registers memory and packs a key; whoever gets those bytes unpacks them on its endpoint to that owner. Adding and compare-and-swap are
 * operations of the engine; and, or, xor and swap are made of them: read, then compare-and-swap until nobody came in between.
 */

import type { Endpoint } from '../endpoint.js';
import { MessagingError } from '../errors.js';
import { type Data, type Payload, payloadOf } from '../payload.js';
import type { CallOptions } from '../request.js';

/** The longest packed key of any engine. */
export const MOST_PACKED_BYTES = 1024;
const WORD = 8;

/** Memory that peers may reach. Made by `worker.expose`. */
export interface ExposedMemory {
  readonly bytes: Uint8Array;
  /** What a peer needs, as bytes to be passed on by any means. */
  pack(): Uint8Array;
  /** Lets the memory go out of use. */
  close(): void;
  [Symbol.dispose](): void;
}

/** Memory of a peer. Made by `endpoint.unpack`. */
export abstract class RemoteMemory {
  abstract readonly endpoint: Endpoint;
  abstract readonly length: number;
  /** Whether atomics go without the owner's help; else the owner's worker runs them when it makes progress. */
  abstract readonly hasAtomics: boolean;

  /**
   * The memory itself, as bytes of this process: where the device maps peers, and only for memory that its owner has from `alloc`. Undefined elsewhere. Nobody
   * watches over it: owner and reader agree between themselves on who touches it when. Valid while the endpoint is open.
   */
  abstract map(): Uint8Array | undefined;

  /**
   * Writes memory of the peer; resolves when `data` may be used again: of up to 256 bytes at once, of more when all of it is there. `endpoint.flush()` waits
   * until everything is there. Throws MSG_INVALID outside the memory, PeerLost, MSG_TIMEOUT. */
  async put(offset: number, data: Data, options?: CallOptions): Promise<void> {
    const handle = this.postPut(offset, payloadOf(data));
    if (handle !== 0) await this.endpoint.worker.own(handle).wait(options);
  }

  /** Reads memory of the peer; resolves when `into` is filled. Throws as put. */
  async get(offset: number, into: Data, options?: CallOptions): Promise<void> {
    const handle = this.postGet(offset, payloadOf(into));
    if (handle !== 0) await this.endpoint.worker.own(handle).wait(options);
  }

  /** The synchronous form of put: 0 when it is done with `payload`, else a handle for `worker.test`. */
  abstract postPut(offset: number, payload: Payload): number;

  /** The synchronous form of get. */
  abstract postGet(offset: number, payload: Payload): number;

  // ---- atomics on 64-bit words ----

  /** Adds; returns what was there. The offset is a multiple of 8. Throws MSG_INVALID, PeerLost, MSG_TIMEOUT. */
  abstract fetchAdd(offset: number, add: bigint, options?: CallOptions): Promise<bigint>;

  /** Stores `swap` if `compare` is there; returns what was there. */
  abstract compareSwap(offset: number, compare: bigint, swap: bigint, options?: CallOptions): Promise<bigint>;

  /** Stores a value; returns what was there. */
  swap(offset: number, value: bigint, options?: CallOptions): Promise<bigint> {
    return this.#emulate(offset, () => value, options);
  }

  fetchAnd(offset: number, mask: bigint, options?: CallOptions): Promise<bigint> {
    return this.#emulate(offset, (old) => old & mask, options);
  }

  fetchOr(offset: number, mask: bigint, options?: CallOptions): Promise<bigint> {
    return this.#emulate(offset, (old) => old | mask, options);
  }

  fetchXor(offset: number, mask: bigint, options?: CallOptions): Promise<bigint> {
    return this.#emulate(offset, (old) => old ^ mask, options);
  }

  async #emulate(offset: number, next: (old: bigint) => bigint, options?: CallOptions): Promise<bigint> {
    // The first compare is a guess; a wrong one returns the value to try with.
    let seen = 0n;
    for (;;) {
      const found = await this.compareSwap(offset, seen, next(seen), options);
      if (found === seen) return found;
      seen = found;
    }
  }

  protected check(offset: number, length: number): void {
    if (!(Number.isInteger(offset) && offset >= 0 && offset + length <= this.length)) {
      throw new MessagingError(
        'MSG_INVALID',
        `bytes ${offset} to ${offset + length} are outside the ${this.length} bytes of the peer`,
      );
    }
  }

  /** Before an atomic. */
  protected checkWord(offset: number): void {
    this.check(offset, WORD);
    this.endpoint.check();
    if (offset % WORD !== 0) throw new MessagingError('MSG_INVALID', `an atomic works on 8 aligned bytes: got offset ${offset}`);
  }
}
