/** A protection domain of a device that keeps its keys in a table: regions made of regions. */

import { type Access, accessBits, accessWords } from '../access.js';
import { VerbsError } from '../errors.js';
import type { MemoryRegion, Sge, StridedLayout } from '../memory-region.js';
import type { DomainMemory, RegionTable } from '../transport/region-table.js';
import { ProvidedDomain } from './provided-domain.js';
import { TableRegion } from './table-region.js';

const MAX_PARTS = 64;

/** What it needs of the device. */
export interface TableDevice {
  readonly regions: RegionTable;
  /** Throws VERBS_CLOSED. */
  assertOpen(): void;
  adoptRegion(region: TableRegion): void;
  releaseRegion(region: TableRegion): void;
}

export abstract class TableDomain extends ProvidedDomain {
  abstract override readonly device: TableDevice;
  readonly number: number;
  readonly memory: DomainMemory;
  private readonly regions = new Map<number, TableRegion>();

  constructor(table: RegionTable, number: number) {
    super();
    this.number = number;
    this.memory = table.view(number);
  }

  /** A region of several pieces. */
  protected abstract compose(
    bits: number,
    views: readonly Uint8Array[],
    addr: number,
    bases: readonly TableRegion[],
  ): TableRegion;

  registerIndexed(parts: readonly Sge[], access: Access = {}): MemoryRegion {
    this.assertOpen();
    if (parts.length === 0 || parts.length > MAX_PARTS) {
      throw new VerbsError('VERBS_INVALID', `an indexed region has 1 to ${MAX_PARTS} parts: got ${parts.length}`);
    }
    const bits = accessBits(access);
    const bases = parts.map((part) => this.baseOf(part, bits));
    const views = parts.flatMap((part) => this.viewsOf(part));
    const length = views.reduce((sum, view) => sum + view.length, 0);
    return this.compose(bits, views, this.device.regions.newAddress(length), bases);
  }

  registerStrided(layout: StridedLayout, access: Access = {}): MemoryRegion {
    this.assertOpen();
    const { region, offset = 0, blockLength, stride, count } = layout;
    for (const [name, value, low] of [
      ['offset', offset, 0],
      ['blockLength', blockLength, 1],
      ['stride', stride, blockLength],
      ['count', count, 1],
    ] as const) {
      if (!Number.isInteger(value) || value < low) {
        throw new VerbsError('VERBS_INVALID', `${name} must be an integer of at least ${low}: got ${String(value)}`);
      }
    }
    const end = offset + (count - 1) * stride + blockLength;
    if (end > region.length) {
      throw new VerbsError('VERBS_INVALID', `the last block ends at byte ${end}, the region at ${region.length}`);
    }
    const bits = accessBits(access);
    const base = this.baseOf(region.slice(), bits);
    const blocks = Array.from({ length: count }, (_, i) => region.slice(offset + i * stride, blockLength));
    const views = blocks.flatMap((block) => this.viewsOf(block));
    return this.compose(bits, views, this.device.regions.newAddress(count * blockLength), [base]);
  }

  private baseOf(part: Sge, bits: number): TableRegion {
    const base = this.regions.get(part.lkey);
    this.viewsOf(part);
    if (base === undefined) throw new VerbsError('VERBS_INVALID', `key ${part.lkey} is not of this protection domain`);
    const missing = bits & ~base.access;
    if (missing !== 0) {
      throw new VerbsError('VERBS_INVALID', `a part of the region does not have the right of ${accessWords(missing)}`);
    }
    return base;
  }

  private viewsOf(part: Sge): Uint8Array[] {
    const views = this.memory.views(part.lkey, part.addr, part.length, 0);
    if (views === undefined) {
      throw new VerbsError('VERBS_INVALID', `a part of ${part.length} bytes is no range of a region of this protection domain`);
    }
    return views;
  }

  override adopt(user: object): void {
    super.adopt(user);
    if (user instanceof TableRegion) {
      this.regions.set(user.lkey, user);
      this.device.adoptRegion(user);
    }
  }

  override release(user: object): void {
    super.release(user);
    if (user instanceof TableRegion) {
      this.regions.delete(user.lkey);
      this.device.releaseRegion(user);
    }
  }

  override shut(): void {
    super.shut();
    for (const region of this.regions.values()) this.device.regions.revoke(region.lkey);
  }
}
