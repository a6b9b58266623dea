/**
 * A mapped segment as typed arrays: one's own, or a peer's.
 */

import { closeSync, ftruncateSync } from 'node:fs';
import { constants, freemem } from 'node:os';
import type { Door } from '../../../native/door.js';
import { VerbsError } from '../../errors.js';
import { systemError } from '../../system-error.js';

export class Segment {
  /** What it was mapped from, as long as that is open. */
  readonly fd: number;
  readonly length: number;
  /** Where it is mapped here. */
  readonly address: number;
  readonly mapping: number;
  readonly buffer: ArrayBuffer;
  readonly i32: Int32Array;
  readonly f64: Float64Array;
  readonly u8: Uint8Array;
  readonly writable: boolean;

  constructor(door: Door, fd: number, offset: number, length: number, writable: boolean, ownsFd: boolean) {
    const mapped = door.addon.map(fd, offset, length, writable ? 1 : 0, ownsFd ? 1 : 0);
    if (typeof mapped === 'number') throw systemError(mapped, `cannot map ${length} bytes`, 'VERBS_NO_MEMORY');
    this.fd = fd;
    this.length = length;
    this.mapping = mapped[0];
    this.address = mapped[1];
    this.writable = writable;
    this.buffer = door.addon.view(this.mapping, 0, length);
    this.i32 = new Int32Array(this.buffer, 0, length >> 2);
    this.f64 = new Float64Array(this.buffer, 0, length >> 3);
    this.u8 = new Uint8Array(this.buffer);
  }

  /** Lets go, as the end of the thread does: the memory stays mapped as long as an ArrayBuffer over it lives. */
  close(door: Door): void {
    door.addon.stop(this.mapping);
  }
}

/** How a new segment is made. */
export interface SegmentOptions {
  readonly hugePages?: boolean;
  /** Do not reserve the pages. */
  readonly onDemand?: boolean;
  readonly numaNode?: number;
  /** A mounted memory file system. */
  readonly directory?: string | undefined;
}

/** Below this, asking the kernel is cheaper than looking first. Above, looking saves the process from the out-of-memory killer. */
const SMALL = 16 << 20;

/** Whether the machine, or the container's limit, still has so many bytes. */
export function hasRoom(length: number): boolean {
  return length <= SMALL || length <= (process.availableMemory?.() ?? freemem());
}

function noRoom(length: number, options: SegmentOptions): VerbsError {
  const where = options.directory ?? (options.hugePages ? 'the huge page pool (see /proc/sys/vm/nr_hugepages)' : 'memory');
  return new VerbsError(
    'VERBS_NO_MEMORY',
    `${length} bytes do not fit into ${where}: free some, ask for less, or allocate on demand`,
  );
}

/** Makes a segment of this context. Throws VERBS_NO_MEMORY when the pages cannot be had. */
export function createSegment(door: Door, name: string, length: number, options: SegmentOptions = {}): Segment {
  const { addon } = door;
  const { numaNode } = options;
  if (numaNode !== undefined && (options.onDemand || !Number.isInteger(numaNode) || numaNode < 0)) {
    throw new VerbsError('VERBS_INVALID', `numaNode is the number of a node, and not for memory on demand: got ${numaNode}`);
  }
  const fd = options.directory === undefined ? addon.create(name, options.hugePages ? 1 : 0) : addon.createIn(options.directory);
  if (fd < 0) {
    throw systemError(
      fd,
      options.directory === undefined ? 'cannot make a memory segment' : `cannot make a memory segment in ${options.directory}`,
    );
  }
  try {
    ftruncateSync(fd, length);
    if (!options.onDemand) {
      if (!hasRoom(length)) throw noRoom(length, options);
      const errno = addon.reserve(fd, 0, length, numaNode ?? -1);
      if (errno === constants.errno.ENOSPC || errno === constants.errno.ENOMEM) {
        throw noRoom(length, options);
      }
      if (errno === constants.errno.EINVAL && numaNode !== undefined) {
        throw new VerbsError('VERBS_INVALID', `there is no NUMA node ${numaNode} here: see verbena doctor`);
      }
      if (errno !== 0) throw systemError(errno, `cannot reserve ${length} bytes`, 'VERBS_NO_MEMORY');
    }
    return new Segment(door, fd, 0, length, true, true);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}
