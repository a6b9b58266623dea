/**
 * The arena: memory that peers can map. Small blocks come from slabs, in four sizes to the doubling; a large block is a segment of its own.
 *
 * ```
 *   slab (2 MiB segment)  [ 128 | 128 | 256 | 4096 .......... | free ....... ]   carved from the left, freed blocks wait in a list per size
 * ```
 */

import type { Door } from '../../../native/door.js';
import type { Control } from './control.js';
import { createSegment, type Segment, type SegmentOptions } from './segment.js';

const SLAB_BYTES = 2 << 20;
const LARGEST_SMALL = 256 << 10;
const PAGE = 4096;
const HUGE_PAGE = 2 << 20;

/** Processors fetch cache lines in pairs: a neighbour that another core writes would take this block away, too. */
const LINE = 128;

/** Bytes of a size class: 64, 80, 96, 112, 128, 160 ... rounded up to pairs of cache lines. */
function sizeOf(order: number): number {
  const quarter = 2 ** (4 + (order >> 2));
  return Math.ceil((quarter * (4 + (order & 3))) / LINE) * LINE;
}

/** The smallest class that holds `length` bytes. */
function orderOf(length: number): number {
  let order = 4 * Math.max(0, 31 - Math.clz32(Math.max(1, length)) - 6);
  while (sizeOf(order) < length) order++;
  return order;
}

/** A piece of arena memory. */
export interface Block {
  readonly segment: Segment;
  /** Number of the segment in the control segment's table. */
  readonly segmentIndex: number;
  /** Bytes from the start of the segment. */
  readonly offset: number;
  readonly length: number;
  /** Size class, or -1 for a segment of its own. */
  readonly order: number;
}

export class Arena {
  readonly #door: Door;
  readonly #control: Control;
  readonly #directory: string | undefined;
  readonly #free: Block[][] = [];
  readonly #own = new Set<Block>();
  readonly #slabs: Segment[] = [];
  #slab: Segment | undefined;
  #slabIndex = 0;
  #slabUsed = 0;
  #closed = false;

  constructor(door: Door, control: Control, directory: string | undefined) {
    this.#door = door;
    this.#control = control;
    this.#directory = directory;
  }

  /** Zeroed memory. Throws VERBS_NO_MEMORY. */
  take(length: number, options: SegmentOptions = {}): Block {
    if (length > LARGEST_SMALL || options.hugePages || options.onDemand || options.numaNode !== undefined)
      return this.#takeSegment(length, options);
    const order = orderOf(length);
    const reused = this.#free[order]?.pop();
    if (reused) {
      reused.segment.u8.fill(0, reused.offset, reused.offset + reused.length);
      return reused;
    }
    const size = sizeOf(order);
    if (!this.#slab || this.#slabUsed + size > SLAB_BYTES) {
      this.#slab = createSegment(this.#door, 'verbena-arena', SLAB_BYTES, { directory: this.#directory });
      this.#slabs.push(this.#slab);
      this.#slabIndex = this.#control.addSegment(this.#slab);
      this.#slabUsed = 0;
    }
    // Blocks of a page and more start on a page, smaller ones on a pair of cache lines.
    const align = size >= PAGE ? PAGE : LINE;
    const offset = (this.#slabUsed + align - 1) & ~(align - 1);
    if (offset + size > SLAB_BYTES) {
      this.#slab = undefined;
      return this.take(length, options);
    }
    this.#slabUsed = offset + size;
    return { segment: this.#slab, segmentIndex: this.#slabIndex, offset, length: size, order };
  }

  give(block: Block): void {
    if (this.#closed) return; // everything went at once
    if (block.order >= 0) {
      let list = this.#free[block.order];
      if (!list) {
        list = [];
        this.#free[block.order] = list;
      }
      list.push(block);
      return;
    }
    this.#own.delete(block);
    this.#control.removeSegment(block.segmentIndex);
    this.#door.addon.release(block.segment.fd, 0, block.segment.length);
    block.segment.close(this.#door);
  }

  close(): void {
    this.#closed = true;
    for (const block of this.#own) block.segment.close(this.#door);
    for (const slab of this.#slabs) slab.close(this.#door);
    this.#own.clear();
    this.#slabs.length = 0;
  }

  #takeSegment(length: number, options: SegmentOptions): Block {
    const unit = options.hugePages ? HUGE_PAGE : PAGE;
    const size = Math.max(unit, Math.ceil(length / unit) * unit);
    const segment = createSegment(this.#door, 'verbena-arena', size, { ...options, directory: this.#directory });
    const block: Block = { segment, segmentIndex: this.#control.addSegment(segment), offset: 0, length: size, order: -1 };
    this.#own.add(block);
    return block;
  }
}
