/**
 * A registered region of a simulated device: bytes of this process under keys of the device's region table.
 */

import { VerbsError } from '../../errors.js';
import type { MemoryKind, MemoryRegion, RemoteRegion } from '../../memory-region.js';
import type { Sge } from '../../work-request.js';
import type { SimProtectionDomain } from './protection-domain.js';

export class SimMemoryRegion implements MemoryRegion {
  readonly lkey: number;
  readonly rkey: number;
  readonly addr: number;
  readonly length: number;
  readonly access: number;
  readonly kind: MemoryKind;
  readonly bytes: Uint8Array;
  readonly pd: SimProtectionDomain;
  /** Regions made of this one; it cannot go before them. */
  dependants = 0;
  private readonly bases: readonly SimMemoryRegion[];
  private isLive = true;

  constructor(
    pd: SimProtectionDomain,
    kind: MemoryKind,
    access: number,
    parts: readonly Uint8Array[],
    addr: number,
    bases: readonly SimMemoryRegion[] = [],
  ) {
    this.pd = pd;
    this.kind = kind;
    this.access = access;
    this.bytes = kind === 'umr' ? new Uint8Array(0) : parts[0];
    this.length = parts.reduce((sum, part) => sum + part.length, 0);
    this.addr = addr;
    this.bases = bases;
    this.lkey = this.rkey = pd.device.regions.register(pd.number, parts, addr, access);
    for (const base of bases) base.dependants++;
    pd.adopt(this);
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
    if (this.dependants > 0) {
      throw new VerbsError('VERBS_BUSY', 'an indexed or strided region is made of this one: deregister that first');
    }
    this.isLive = false;
    this.pd.device.regions.revoke(this.lkey);
    for (const base of this.bases) base.dependants--;
    this.pd.release(this);
  }

  [Symbol.dispose](): void {
    this.deregister();
  }
}
