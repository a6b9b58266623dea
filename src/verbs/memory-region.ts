/**
 * A memory region: memory that the device may touch, with the keys that name it.
 *
 * `lkey` stands in the scatter/gather lists of the owner; `rkey`, with the address, is what a peer needs to reach the memory. Keys
 * guard against mistakes, not against a hostile process of the same user.
 */

/** One element of a scatter/gather list: a range of a registered region. Made by `mr.slice(offset, length)`. */
export interface Sge {
  readonly addr: number;
  readonly length: number;
  readonly lkey: number;
}

/** What a peer needs to reach a region. Plain JSON: send it by any means. */
export interface RemoteRegion {
  readonly addr: number;
  readonly length: number;
  readonly rkey: number;
}

/**
 * How the bytes are reached: 'arena' (device.alloc: peers map it), 'private' (any ArrayBuffer of the process), 'file' (device.mapFile),
 * 'umr' (a descriptor over other regions).
 */
export type MemoryKind = 'arena' | 'private' | 'file' | 'umr';

export interface MemoryRegion {
  readonly lkey: number;
  readonly rkey: number;
  /** Address of the first byte, as requests use it. */
  readonly addr: number;
  readonly length: number;
  /** Bits of access.ts. */
  readonly access: number;
  readonly kind: MemoryKind;
  /** The registered bytes. Empty for 'umr'. */
  readonly bytes: Uint8Array;

  /** A range of the region for a scatter/gather list. Throws RangeError outside the region. Default: all of it. */
  slice(offset?: number, length?: number): Sge;
  /** What to tell a peer. */
  remote(): RemoteRegion;
  /**
   * Revokes both keys. When it returns no initiator touches the memory any more. Throws VERBS_BUSY when an initiator that is
   * stopped in the middle of a copy does not let go within a second; the keys are revoked all the same, and a later call tries again.
   */
  deregister(): void;
  [Symbol.dispose](): void;
}

/** Blocks of equal length at equal distances: `count` blocks of `blockLength` bytes, the starts `stride` bytes apart. */
export interface StridedLayout {
  readonly region: MemoryRegion;
  /** First block, bytes from the start of the region. Default 0. */
  readonly offset?: number;
  readonly blockLength: number;
  /** At least blockLength. */
  readonly stride: number;
  readonly count: number;
}
