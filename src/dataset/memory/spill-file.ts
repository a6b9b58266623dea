/** A file of frames that did not fit in memory: written once, read back in order. It has no name and goes with its descriptor. */

import { closeSync, readSync, writeSync } from 'node:fs';
import { systemError } from '../errors.js';
import type { SpillDirectory } from './spill-directory.js';

/** Frames are collected up to so many bytes before they are written. */
const CHUNK = 256 << 10;

export class SpillFile {
  readonly #directory: SpillDirectory;
  readonly #fd: number;
  #parts: Uint8Array[] = [];
  #pending = 0;
  #written = 0;
  #open = true;

  constructor(directory: SpillDirectory) {
    this.#directory = directory;
    this.#fd = directory.open();
  }

  /** Bytes appended so far. */
  get length(): number {
    return this.#written + this.#pending;
  }

  /** @throws DATASET_DISK_FULL. */
  append(frame: Uint8Array): void {
    this.#parts.push(frame);
    this.#pending += frame.length;
    if (this.#pending >= CHUNK) this.flush();
  }

  flush(): void {
    if (this.#pending === 0) return;
    this.#directory.take(this.#pending);
    const chunk = Buffer.concat(this.#parts, this.#pending);
    try {
      for (let done = 0; done < chunk.length; ) {
        done += writeSync(this.#fd, chunk, done, chunk.length - done, this.#written + done);
      }
    } catch (error) {
      this.#directory.budget.give(this.#pending);
      throw systemError(`spilling to ${this.#directory.path}`, error);
    }
    this.#written += chunk.length;
    this.#parts = [];
    this.#pending = 0;
  }

  /** The frames between two offsets, one at a time; each begins with its length as u32. */
  *frames(from = 0, to = this.length): Generator<Uint8Array> {
    this.flush();
    const head = Buffer.alloc(4);
    for (let at = from; at < to; ) {
      readSync(this.#fd, head, 0, 4, at);
      const frame = Buffer.allocUnsafeSlow(head.readUInt32LE(0));
      for (let done = 0; done < frame.length; ) {
        const n = readSync(this.#fd, frame, done, frame.length - done, at + done);
        if (n === 0) throw new RangeError('a spill file is shorter than what was written to it');
        done += n;
      }
      at += frame.length;
      yield frame;
    }
  }

  /** Idempotent. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#directory.budget.give(this.#written);
    closeSync(this.#fd);
  }
}
