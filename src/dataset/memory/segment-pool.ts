/**
 * Memory that peers may READ: map outputs, fetched blocks, tables. In the arena while the rank's bound allows, in mapped files beyond it; a reader sees no
 * difference. Segments are used again, because new pages cost more than copying into old ones.
 *
 *   class     four sizes per doubling from 64 KiB, so that a quarter is wasted at most
 *   arena     device.alloc: counted against the memory bound, also while it waits for its next use
 *   file      an unnamed file, reserved and mapped: counted against the disk bound. Given back, its blocks return to the disk at once; the mapping stays for its
 *             next use, because a device keeps mappings until it closes
 */

import { closeSync, ftruncateSync } from 'node:fs';
import type { ExposedMemory, Worker } from '../../messaging/index.js';
import { loadAddon } from '../../native/load.js';
import { addressOf } from '../kernels.js';
import type { Budget } from './budget.js';
import type { SpillDirectory } from './spill-directory.js';

const SMALLEST = 64 << 10;

/** The size that a request is rounded up to. */
export function sizeClass(bytes: number): number {
  if (bytes <= SMALLEST) return SMALLEST;
  const step = 2 ** Math.floor(Math.log2(bytes - 1)) / 4;
  return Math.ceil(bytes / step) * step;
}

/** A piece of memory, the caller's until `release`. */
export class Segment {
  /** As long as was asked for. */
  readonly bytes: Uint8Array;
  readonly kind: 'arena' | 'file';
  readonly address: number;
  /** What a peer needs to READ it. */
  readonly key: Uint8Array;
  readonly #owner: SegmentPool;
  readonly #whole: Whole;
  #held = true;

  /** @internal */
  constructor(owner: SegmentPool, whole: Whole, length: number) {
    this.#owner = owner;
    this.#whole = whole;
    this.bytes = whole.memory.subarray(0, length);
    this.kind = whole.kind;
    this.address = whole.address;
    this.key = whole.key;
  }

  /** Gives it back. Idempotent. */
  release(): void {
    if (!this.#held) return;
    this.#held = false;
    this.#owner.giveBack(this.#whole);
  }
}

interface Whole {
  readonly memory: Uint8Array;
  readonly kind: 'arena' | 'file';
  readonly address: number;
  readonly key: Uint8Array;
  readonly exposed: ExposedMemory;
  /** Of a file. */
  readonly fd: number;
}

export class SegmentPool {
  readonly #worker: Worker;
  readonly #memory: Budget;
  readonly #disk: SpillDirectory;
  readonly #free = new Map<number, Whole[]>();
  readonly #freeFiles = new Map<number, Whole[]>();

  constructor(worker: Worker, memory: Budget, disk: SpillDirectory) {
    this.#worker = worker;
    this.#memory = memory;
    this.#disk = disk;
    memory.reclaim = (most) => this.#trim(most);
  }

  /**
   * Memory for so many bytes; its contents are what was left there.
   * @param mustBeFast arena memory whatever waits in it: for buffers that work is done in.
   * @throws DATASET_DISK_FULL when neither memory nor disk may hold it.
   */
  take(bytes: number, mustBeFast = false): Segment {
    const size = sizeClass(bytes);
    const used = this.#free.get(size)?.pop();
    if (used) return new Segment(this, used, bytes);
    if (mustBeFast) this.#memory.take(size);
    else if (!this.#memory.tryTake(size, this.#memory.waiting)) return new Segment(this, this.#takeFile(size), bytes);
    let memory: Uint8Array;
    try {
      memory = this.#worker.context.alloc(size);
    } catch (error) {
      this.#memory.give(size);
      if (mustBeFast) throw error;
      return new Segment(this, this.#takeFile(size), bytes); // the machine has less than the bound
    }
    return new Segment(this, this.#expose(memory, 'arena', -1), bytes);
  }

  #expose(memory: Uint8Array, kind: 'arena' | 'file', fd: number): Whole {
    const exposed = this.#worker.expose(memory);
    return { memory, kind, exposed, key: exposed.pack(), address: addressOf(memory), fd };
  }

  #takeFile(size: number): Whole {
    this.#disk.take(size);
    const used = this.#freeFiles.get(size)?.pop();
    const fd = used?.fd ?? this.#disk.open();
    try {
      if (!used) ftruncateSync(fd, size);
      this.#disk.reserve(fd, 0, size);
      if (used) return used;
      return this.#expose(this.#worker.context.mapFile(`/proc/self/fd/${fd}`, { writable: true }), 'file', fd);
    } catch (error) {
      if (used) this.#keep(this.#freeFiles, used);
      else closeSync(fd);
      throw error;
    }
  }

  /** @internal */
  giveBack(whole: Whole): void {
    if (whole.kind === 'arena') {
      this.#keep(this.#free, whole);
      return;
    }
    const size = whole.memory.length;
    loadAddon().release(whole.fd, 0, size);
    this.#disk.budget.give(size);
    this.#keep(this.#freeFiles, whole);
  }

  #keep(lists: Map<number, Whole[]>, whole: Whole): void {
    const list = lists.get(whole.memory.length);
    if (list) list.push(whole);
    else lists.set(whole.memory.length, [whole]);
  }

  /** Lets unused arena memory go until no more than so many bytes of the bound are used. */
  #trim(most: number): void {
    for (const [size, list] of this.#free) {
      while (this.#memory.used > most && list.length > 0) {
        const whole = list.pop() as Whole;
        whole.exposed.close();
        this.#worker.context.free(whole.memory);
        this.#memory.give(size);
      }
    }
  }

  /** Lets everything go that nobody holds. */
  close(): void {
    this.#trim(-1);
    for (const { exposed, fd } of [...this.#freeFiles.values()].flat()) {
      exposed.close();
      closeSync(fd);
    }
    this.#freeFiles.clear();
  }
}
