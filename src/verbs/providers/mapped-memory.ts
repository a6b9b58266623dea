/**
 * Memory of a device whose peers reach it through a wire, not by mapping it: segments of its own, and files. The device pins what is registered;
 * the rest goes with its last ArrayBuffer.
 */

import { closeSync, fstatSync, openSync } from 'node:fs';
import { markAsUntransferable } from 'node:worker_threads';
import type { Door } from '../../native/door.js';
import { ACCESS_ON_DEMAND, ACCESS_REMOTE_ATOMIC, ACCESS_REMOTE_READ, type Access, accessBits, accessWords } from '../access.js';
import type { AllocOptions, MapFileOptions } from '../device.js';
import { VerbsError } from '../errors.js';
import type { MemoryKind, MemoryRegion } from '../memory-region.js';
import { bytesOf, refuseMovable } from './registrable.js';
import { createSegment, Segment } from './shm/segment.js';

const PAGE = 4096;
const HUGE_PAGE = 2 << 20;

/** Throws VERBS_INVALID unless it is a number of bytes that can be allocated. */
export function checkAllocation(byteLength: number): void {
  if (!Number.isSafeInteger(byteLength) || byteLength < 1) {
    throw new VerbsError('VERBS_INVALID', `alloc takes a number of bytes, at least 1: got ${String(byteLength)}`);
  }
}

/** Throws VERBS_BUSY while one of the regions lies in it. */
export function assertUnregistered(memory: ArrayBuffer, regions: Iterable<MemoryRegion>): void {
  for (const region of regions) {
    if (region.bytes.buffer !== memory || region.kind === 'umr') continue;
    throw new VerbsError('VERBS_BUSY', 'the memory is registered: deregister it first');
  }
}

/** Opens a file for mapping; the caller closes it. Throws VERBS_SYSTEM with the path, VERBS_INVALID for a range that is not in it. */
export function openRange(
  path: string,
  options: MapFileOptions,
): { fd: number; offset: number; length: number; writable: boolean } {
  const { writable = false, offset = 0 } = options;
  if (!Number.isInteger(offset) || offset < 0 || offset % PAGE !== 0) {
    throw new VerbsError('VERBS_INVALID', `offset must be a multiple of ${PAGE}: got ${String(offset)}`);
  }
  let fd: number;
  try {
    fd = openSync(path, writable ? 'r+' : 'r');
  } catch (cause) {
    throw new VerbsError('VERBS_SYSTEM', `cannot open ${path}: ${(cause as Error).message}`, { cause });
  }
  const { size } = fstatSync(fd);
  const length = options.length ?? size - offset;
  if (!(Number.isInteger(length) && length >= 1 && offset + length <= size)) {
    closeSync(fd);
    throw new VerbsError('VERBS_INVALID', `${path} has ${size} bytes: bytes ${offset} to ${offset + length} are not all there`);
  }
  return { fd, offset, length, writable };
}

/** Memory that may be registered, and the rights that were asked for. */
interface Registrable {
  readonly bytes: Uint8Array;
  /** Bits of access.ts. */
  readonly bits: number;
  readonly kind: MemoryKind;
  readonly addr: number;
}

export class MappedMemory {
  private readonly door: Door;
  private readonly label: string;
  private readonly regions: () => Iterable<MemoryRegion>;
  private readonly kinds = new Map<ArrayBuffer, MemoryKind>();
  private readonly readOnly = new WeakSet<ArrayBuffer>();
  private readonly addresses = new WeakMap<ArrayBuffer, number>();

  /** @param label names the segments in /proc @param regions that are registered now; default: none ever */
  constructor(door: Door, label: string, regions: () => Iterable<MemoryRegion> = () => []) {
    this.door = door;
    this.label = label;
    this.regions = regions;
  }

  alloc(byteLength: number, options: AllocOptions): ArrayBuffer {
    checkAllocation(byteLength);
    const unit = options.hugePages ? HUGE_PAGE : PAGE;
    const segment = createSegment(this.door, this.label, Math.ceil(byteLength / unit) * unit, options);
    const memory = this.door.addon.view(segment.mapping, 0, byteLength);
    segment.close(this.door);
    this.kinds.set(memory, 'arena');
    return memory;
  }

  /** Lets go of memory of `alloc`. Throws VERBS_BUSY while one of the regions lies in it. */
  free(memory: ArrayBuffer): void {
    if (!this.kinds.has(memory)) return;
    assertUnregistered(memory, this.regions());
    this.kinds.delete(memory);
  }

  mapFile(path: string, options: MapFileOptions): ArrayBuffer {
    const { fd, offset, length, writable } = openRange(path, options);
    try {
      const segment = new Segment(this.door, fd, offset, length, writable, false);
      segment.close(this.door);
      this.kinds.set(segment.buffer, 'file');
      if (!writable) this.readOnly.add(segment.buffer);
      return segment.buffer;
    } finally {
      closeSync(fd);
    }
  }

  /** The kind of a buffer: of this device, or the process's own. */
  private kindOf(buffer: ArrayBuffer): MemoryKind {
    return this.kinds.get(buffer) ?? 'private';
  }

  /** Whether these bytes are of a file that is mapped for reading. */
  isReadOnly(bytes: Uint8Array): boolean {
    return this.readOnly.has(bytes.buffer as ArrayBuffer);
  }

  /** What is to be registered. Throws VERBS_INVALID for memory that cannot be, VERBS_UNSUPPORTED for a right that it cannot give. */
  registrable(memory: ArrayBuffer | ArrayBufferView, access: Access): Registrable {
    const bytes = bytesOf(memory);
    const buffer = bytes.buffer as ArrayBuffer;
    const bits = accessBits(access);
    const kind = this.kindOf(buffer);
    if (this.isReadOnly(bytes) && bits & ~(ACCESS_REMOTE_READ | ACCESS_ON_DEMAND)) {
      throw new VerbsError(
        'VERBS_INVALID',
        `the file is mapped for reading: it cannot give ${accessWords(bits)}; map it with { writable: true }`,
      );
    }
    if (kind === 'private') {
      if (bits & ACCESS_REMOTE_ATOMIC) {
        throw new VerbsError('VERBS_UNSUPPORTED', 'ordinary memory cannot be the target of atomics: take memory of device.alloc');
      }
      refuseMovable(buffer, this.addressOf(new Uint8Array(buffer)));
      markAsUntransferable(buffer);
    }
    return { bytes, bits, kind, addr: this.addressOf(bytes) };
  }

  /** Address of the first of some bytes, in this process. */
  addressOf(bytes: Uint8Array): number {
    const buffer = bytes.buffer as ArrayBuffer;
    let base = this.addresses.get(buffer);
    if (base === undefined) {
      base = this.door.addon.addressOf(buffer);
      this.addresses.set(buffer, base);
    }
    return base + bytes.byteOffset;
  }
}
