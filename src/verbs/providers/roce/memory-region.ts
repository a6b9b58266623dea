/**
 * A registered region of a RoCE device: keys of the device's table, known to the engine by the addresses of its bytes.
 */

import { VerbsError } from '../../errors.js';
import type { MemoryKind, MemoryRegion, RemoteRegion } from '../../memory-region.js';
import type { Sge } from '../../work-request.js';
import type { RegionRecord } from './address-memory.js';
import type { RoceProtectionDomain } from './protection-domain.js';

export class RoceMemoryRegion implements MemoryRegion {
  readonly lkey: number;
  readonly rkey: number;
  readonly addr: number;
  readonly length: number;
  readonly access: number;
  readonly kind: MemoryKind;
  readonly bytes: Uint8Array;
  readonly pd: RoceProtectionDomain;
  /** As the engine knows it. */
  readonly record: RegionRecord;
  /** Regions made of this one; it cannot go before them. */
  dependants = 0;
  private readonly bases: readonly RoceMemoryRegion[];
  private isLive = true;

  constructor(
    pd: RoceProtectionDomain,
    kind: MemoryKind,
    access: number,
    parts: readonly Uint8Array[],
    addr: number,
    bases: readonly RoceMemoryRegion[] = [],
  ) {
    const { device, number } = pd;
    this.pd = pd;
    this.kind = kind;
    this.access = access;
    this.bytes = kind === 'umr' ? new Uint8Array(0) : parts[0];
    this.length = parts.reduce((sum, part) => sum + part.length, 0);
    this.addr = addr;
    this.bases = bases;
    this.lkey = this.rkey = device.regions.register(number, parts, addr, access);
    this.record = {
      key: this.rkey,
      domain: number,
      access,
      address: addr,
      length: this.length,
      parts: parts.flatMap((part) => [device.addressOf(part), part.length]),
    };
    device.call({ kind: 'register', region: this.record });
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
    const { device } = this.pd;
    device.regions.revoke(this.lkey);
    if (!device.isClosed) device.call({ kind: 'revoke', key: this.lkey });
    for (const base of this.bases) base.dependants--;
    this.pd.release(this);
  }

  [Symbol.dispose](): void {
    this.deregister();
  }
}
