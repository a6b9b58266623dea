/** A region whose keys stand in a table of the device (transport/region-table.ts): one piece of memory, or several one after the other. */

import { VerbsError } from '../errors.js';
import type { MemoryKind } from '../memory-region.js';
import type { RegionTable } from '../transport/region-table.js';
import { RegisteredRegion } from './registered-region.js';

/** The protection domain of a region, as far as the region needs it. */
interface Home {
  readonly number: number;
  readonly device: { readonly regions: RegionTable };
  adopt(region: TableRegion): void;
  release(region: TableRegion): void;
}

export class TableRegion extends RegisteredRegion {
  readonly lkey: number;
  readonly rkey: number;
  private readonly pd: Home;
  /** Regions made of this one; it cannot go before them. */
  dependants = 0;
  private readonly bases: readonly TableRegion[];
  private isLive = true;

  constructor(
    pd: Home,
    kind: MemoryKind,
    access: number,
    parts: readonly Uint8Array[],
    addr: number,
    bases: readonly TableRegion[] = [],
  ) {
    const length = parts.reduce((sum, part) => sum + part.length, 0);
    super(kind, access, kind === 'umr' ? new Uint8Array(0) : parts[0], addr, length);
    this.pd = pd;
    this.bases = bases;
    this.lkey = this.rkey = pd.device.regions.register(pd.number, parts, addr, access);
    for (const base of bases) base.dependants++;
    pd.adopt(this);
  }

  deregister(): void {
    if (!this.isLive) return;
    if (this.dependants > 0) {
      throw new VerbsError('VERBS_BUSY', 'an indexed or strided region is made of this one: deregister that first');
    }
    this.isLive = false;
    this.pd.device.regions.revoke(this.lkey);
    this.revoked();
    for (const base of this.bases) base.dependants--;
    this.pd.release(this);
  }

  /** The key is gone from the table. */
  protected revoked(): void {}
}
