/** A registered region of an RDMA device. */

import type { MemoryKind } from '../../memory-region.js';
import { systemError } from '../../system-error.js';
import { RegisteredRegion } from '../registered-region.js';
import type { IbverbsProtectionDomain } from './protection-domain.js';

export class IbverbsMemoryRegion extends RegisteredRegion {
  readonly lkey: number;
  readonly rkey: number;
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
    super(kind, access, bytes, addr);
    this.pd = pd;
    [this.object, this.lkey, this.rkey] = keys;
    pd.adopt(this);
    pd.device.adoptRegion(this);
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
}
