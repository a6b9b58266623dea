/**
 * What the state machines ask of registered memory. The memory belongs to the provider: a machine names a key, an address and a
 * length, and the provider checks and moves. One object serves one protection domain, so a key of another domain is unknown to it.
 *
 * Every call checks for itself, so memory that is deregistered in the middle of a message is refused at the next packet.
 */

/** Atomic operations of `TransportMemory.atomic`. */
export const AtomicOp = { compareSwap: 0, fetchAdd: 1 } as const;

/** The value an atomic found, as halves of 64 bits. Filled by `TransportMemory.atomic`. */
export class AtomicResult {
  hi = 0;
  lo = 0;
}

export interface TransportMemory {
  /** Whether `key` names a region that holds all of [address, address + length) and grants `access` (bits of access.ts; 0: local read). */
  check(key: number, address: number, length: number, access: number): boolean;
  /** Copies registered bytes to `into[at]`. False, with nothing copied, when the key or the range is not valid. */
  read(key: number, address: number, length: number, into: Uint8Array, at: number): boolean;
  /** Copies `from[at, at + length)` to registered memory. False, with nothing written, when the key or the range is not valid. */
  write(key: number, address: number, length: number, from: Uint8Array, at: number): boolean;
  /**
   * Runs an atomic on 8 aligned bytes in the byte order of the machine: compareSwap stores `swap` when the value equals `compare`,
   * fetchAdd adds `swap`. The old value goes to `result`. False when the key or the range is not valid.
   */
  atomic(
    key: number,
    address: number,
    op: number,
    swapHi: number,
    swapLo: number,
    compareHi: number,
    compareLo: number,
    result: AtomicResult,
  ): boolean;
  /** Revokes a remote key (SEND with invalidate). False when it was not valid. */
  invalidate(key: number): boolean;
}
