/** The memory that a device hands out: blocks of its arena and mapped files, as ArrayBuffers, and where each of them lies. */

import { closeSync } from 'node:fs';
import type { AllocOptions, MapFileOptions } from '../../device.js';
import { VerbsError } from '../../errors.js';
import type { MemoryKind } from '../../memory-region.js';
import { assertUnregistered, checkAllocation, openRange } from '../mapped-memory.js';
import type { Block } from './arena.js';
import type { ShmDevice } from './device.js';
import { Segment } from './segment.js';

/** Where a buffer of this device lies. */
export interface Home {
  readonly kind: MemoryKind;
  readonly segment: Segment;
  readonly segmentIndex: number;
  readonly offset: number;
}

export class Buffers {
  readonly #device: ShmDevice;
  readonly #homes = new WeakMap<ArrayBuffer, Home & { block?: Block }>();
  readonly #collected: FinalizationRegistry<Block>;
  readonly #files: Segment[] = [];

  constructor(device: ShmDevice) {
    this.#device = device;
    this.#collected = new FinalizationRegistry((block) => {
      if (!device.isClosed) device.arena.give(block);
    });
  }

  alloc(byteLength: number, options: AllocOptions): ArrayBuffer {
    checkAllocation(byteLength);
    const block = this.#device.arena.take(byteLength, options);
    const buffer = this.#device.door.addon.view(block.segment.mapping, block.offset, byteLength);
    this.#homes.set(buffer, {
      kind: 'arena',
      segment: block.segment,
      segmentIndex: block.segmentIndex,
      offset: block.offset,
      block,
    });
    this.#collected.register(buffer, block, buffer);
    return buffer;
  }

  free(memory: ArrayBuffer): void {
    const home = this.#homes.get(memory);
    if (!home?.block) throw new VerbsError('VERBS_INVALID', 'this is not memory of device.alloc, or it was freed already');
    assertUnregistered(memory, this.#device.regions.values());
    this.#homes.delete(memory);
    this.#collected.unregister(memory);
    this.#device.arena.give(home.block);
  }

  mapFile(path: string, options: MapFileOptions): ArrayBuffer {
    const { fd, offset, length, writable } = openRange(path, options);
    // Peers map the file from its start, so the segment does too.
    const segment = new Segment(this.#device.door, fd, 0, offset + length, writable, false);
    this.#files.push(segment);
    const segmentIndex = this.#device.control.addSegment(segment);
    const buffer = this.#device.door.addon.view(segment.mapping, offset, length);
    this.#homes.set(buffer, { kind: 'file', segment, segmentIndex, offset });
    return buffer;
  }

  /** Where a buffer lies in this device's segments, or undefined for memory of the process. */
  locate(buffer: ArrayBuffer): Home | undefined {
    return this.#homes.get(buffer);
  }

  close(): void {
    for (const file of this.#files) {
      file.close(this.#device.door);
      closeSync(file.fd);
    }
  }
}
