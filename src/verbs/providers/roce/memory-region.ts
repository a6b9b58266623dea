/**
 * A registered region of a RoCE device: keys of the device's table, known to the engine by the addresses of its bytes.
 */

import type { MemoryKind } from '../../memory-region.js';
import { TableRegion } from '../table-region.js';
import type { RegionRecord } from './address-memory.js';
import type { RoceDevice } from './device.js';
import type { RoceProtectionDomain } from './protection-domain.js';

export class RoceMemoryRegion extends TableRegion {
  /** As the engine knows it. */
  readonly record: RegionRecord;
  private readonly device: RoceDevice;

  constructor(
    pd: RoceProtectionDomain,
    kind: MemoryKind,
    access: number,
    parts: readonly Uint8Array[],
    addr: number,
    bases: readonly TableRegion[] = [],
  ) {
    super(pd, kind, access, parts, addr, bases);
    const { device } = pd;
    this.device = device;
    this.record = {
      key: this.rkey,
      domain: pd.number,
      access,
      address: addr,
      length: this.length,
      parts: parts.flatMap((part) => [device.memory.addressOf(part), part.length]),
    };
    device.call({ kind: 'register', region: this.record });
  }

  protected override revoked(): void {
    if (!this.device.isClosed) this.device.call({ kind: 'revoke', key: this.lkey });
  }
}
