/** A registered region of an RDMA device. */

import type { MemoryKind, MemoryRegion, RemoteRegion } from '../../memory-region.js';
import { systemError } from '../../system-error.js';
import type { Sge } from '../../work-request.js';
import type { IbverbsProtectionDomain } from './protection-domain.js';

export class IbverbsMemoryRegion implements MemoryRegion {
  readonly lkey: number;
  readonly rkey: number;
  readonly addr: number;
  readonly length: number;
  readonly access: number;
  readonly kind: MemoryKind;
  /** Holding these bytes keeps the memory: the NIC may write there until the region is gone. */
  readonly bytes: Uint8Array;
  private readonly pd: IbverbsProtectionDomain;
  private readonly object: number;
  private isLive = true;

  constructor(
    pd: IbverbsProtectionDomain,
    kind: MemoryKind,
    access: number,
    bytes: Uint8Array,
    addr: number,
    keys: readonly [object: number, lkey: number, rkey: number],
  ) {
    this.pd = pd;
    this.kind = kind;
    this.access = access;
    this.bytes = bytes;
    this.addr = addr;
    this.length = bytes.length;
    [this.object, this.lkey, this.rkey] = keys;
    pd.adopt(this);
    pd.device.adoptRegion(this);
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
    const { device } = this.pd;
    if (!device.isClosed) {
      const errno = device.addon.destroy(device.handle, this.object);
      if (errno !== 0) throw systemError(errno, 'the region cannot be deregistered now', 'VERBS_BUSY');
    }
    this.isLive = false;
    this.pd.release(this);
    device.releaseRegion(this);
  }

  [Symbol.dispose](): void {
    this.deregister();
  }
}
