/** The memory of a simulated device: ArrayBuffers at addresses that nothing else has. */

import { VerbsError } from '../../errors.js';
import type { MemoryRegion } from '../../memory-region.js';
import type { RegionTable } from '../../transport/region-table.js';
import { assertUnregistered, checkAllocation } from '../mapped-memory.js';

export class SimMemory {
  private readonly table: RegionTable;
  private readonly regions: () => Iterable<MemoryRegion>;
  private readonly arenas = new Map<ArrayBuffer, number>();
  private readonly privateAddresses = new WeakMap<ArrayBuffer, number>();

  /** @param regions that are registered now */
  constructor(table: RegionTable, regions: () => Iterable<MemoryRegion>) {
    this.table = table;
    this.regions = regions;
  }

  alloc(byteLength: number): ArrayBuffer {
    checkAllocation(byteLength);
    let memory: ArrayBuffer;
    try {
      memory = new ArrayBuffer(byteLength);
    } catch (cause) {
      throw new VerbsError('VERBS_NO_MEMORY', `no memory for ${byteLength} bytes`, { cause });
    }
    this.arenas.set(memory, this.table.newAddress(byteLength));
    return memory;
  }

  free(memory: ArrayBuffer): void {
    if (!this.arenas.has(memory)) return;
    assertUnregistered(memory, this.regions());
    this.arenas.delete(memory);
  }

  mapFile(): ArrayBuffer {
    throw new VerbsError('VERBS_UNSUPPORTED', 'a simulated device maps no files: read the file into memory of alloc');
  }

  isOwn(buffer: ArrayBuffer): boolean {
    return this.arenas.has(buffer);
  }

  /** The address of bytes as requests use it: arenas and private buffers lie at addresses of their own. */
  addressOf(bytes: Uint8Array): number {
    const buffer = bytes.buffer as ArrayBuffer;
    let base = this.arenas.get(buffer) ?? this.privateAddresses.get(buffer);
    if (base === undefined) {
      base = this.table.newAddress(buffer.byteLength);
      this.privateAddresses.set(buffer, base);
    }
    return base + bytes.byteOffset;
  }
}
