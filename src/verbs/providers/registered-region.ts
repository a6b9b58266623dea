/** What a registered region is on every device: keys, place and rights. How it is revoked is the provider's. */

import type { MemoryKind, MemoryRegion, RemoteRegion, Sge } from '../memory-region.js';

export abstract class RegisteredRegion implements MemoryRegion {
  abstract readonly lkey: number;
  abstract readonly rkey: number;
  readonly addr: number;
  readonly length: number;
  readonly access: number;
  readonly kind: MemoryKind;
  /** Holding these bytes keeps the memory: the device may write there until the region is gone. */
  readonly bytes: Uint8Array;

  constructor(kind: MemoryKind, access: number, bytes: Uint8Array, addr: number, length = bytes.length) {
    this.kind = kind;
    this.access = access;
    this.bytes = bytes;
    this.addr = addr;
    this.length = length;
  }

  abstract deregister(): void;

  slice(offset = 0, length = this.length - offset): Sge {
    if (!(Number.isInteger(offset) && Number.isInteger(length) && offset >= 0 && length >= 0 && offset + length <= this.length)) {
      throw new RangeError(`bytes ${offset} to ${offset + length} are outside the region of ${this.length} bytes`);
    }
    return { addr: this.addr + offset, length, lkey: this.lkey };
  }

  remote(): RemoteRegion {
    return { addr: this.addr, length: this.length, rkey: this.rkey };
  }

  [Symbol.dispose](): void {
    this.deregister();
  }
}
