/** A registered region of a UCX device: keys of the device's own table. UCX registers the memory itself when it moves it. */

import type { MemoryKind, MemoryRegion, RemoteRegion } from '../../memory-region.js';
import type { Sge } from '../../work-request.js';
import type { UcxProtectionDomain } from './protection-domain.js';

export class UcxMemoryRegion implements MemoryRegion {
  readonly lkey: number;
  readonly rkey: number;
  readonly addr: number;
  readonly length: number;
  readonly access: number;
  readonly kind: MemoryKind;
  readonly bytes: Uint8Array;
  /** The same as 64-bit words for atomics; undefined where it is not aligned. */
  readonly words: BigUint64Array | undefined;
  readonly pd: UcxProtectionDomain;
  isLive = true;

  constructor(pd: UcxProtectionDomain, kind: MemoryKind, access: number, bytes: Uint8Array, addr: number, key: number) {
    this.pd = pd;
    this.kind = kind;
    this.access = access;
    this.bytes = bytes;
    this.addr = addr;
    this.length = bytes.length;
    this.lkey = this.rkey = key;
    this.words = bytes.byteOffset % 8 === 0 ? new BigUint64Array(bytes.buffer, bytes.byteOffset, bytes.length >> 3) : undefined;
  }

  slice(offset = 0, length = this.length - offset): Sge {
    if (!(Number.isInteger(offset) && Number.isInteger(length) && offset >= 0 && length >= 0 && offset + length <= this.length)) {
      throw new RangeError(`bytes ${offset} to ${offset + length} are outside the region of ${this.length} bytes`);
    }
    return { addr: this.addr + offset, length, lkey: this.lkey };
  }

  remote(): RemoteRegion {
    return { addr: this.addr, length: this.length, rkey: this.rkey };
  }

  deregister(): void {
    if (!this.isLive) return;
    this.isLive = false;
    this.pd.releaseRegion(this);
  }

  [Symbol.dispose](): void {
    this.deregister();
  }
}
