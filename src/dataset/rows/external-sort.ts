/**
 * Sorting rows of any size: sorted runs go to files when memory is short, and are merged at the end. Stable: among equals the earlier row is first.
 */

import { SpillFile } from '../memory/spill-file.js';
import { estimateBytes } from '../plan/node.js';
import { BATCH_ROWS, type Task } from '../plan/task.js';
import { decodeRows, encodeRows } from './codec.js';
import { type Cursor, inOrder } from './merge.js';

export class ExternalSort<T> {
  readonly #compare: (a: T, b: T) => number;
  readonly #task: Task;
  #rows: T[] = [];
  #held = 0;
  readonly #runs: SpillFile[] = [];

  constructor(compare: (a: T, b: T) => number, task: Task) {
    this.#compare = compare;
    this.#task = task;
  }

  add(batch: readonly T[]): void {
    const bytes = estimateBytes(batch);
    const { memory } = this.#task.services;
    if (this.#held + bytes > memory.share && this.#rows.length > 0) this.#spill();
    memory.take(bytes); // a batch is always held
    this.#held += bytes;
    for (const row of batch) this.#rows.push(row);
  }

  #spill(): void {
    const { services, stats } = this.#task;
    const file = new SpillFile(services.disk);
    this.#runs.push(file);
    this.#rows.sort(this.#compare);
    for (let at = 0; at < this.#rows.length; at += 256) file.append(encodeRows(this.#rows.slice(at, at + 256)));
    file.flush();
    stats.spills++;
    stats.spilledBytes += file.length;
    this.#letGo();
  }

  #letGo(): void {
    this.#rows = [];
    this.#task.services.memory.give(this.#held);
    this.#held = 0;
  }

  /** The rows in order. Call it once; it lets go of everything, also when it is not read to its end. */
  async *results(): AsyncGenerator<T[]> {
    try {
      if (this.#runs.length === 0) {
        this.#rows.sort(this.#compare);
        for (let at = 0; at < this.#rows.length; at += BATCH_ROWS) yield this.#rows.slice(at, at + BATCH_ROWS);
        return;
      }
      if (this.#rows.length > 0) this.#spill();
      yield* this.#merge();
    } finally {
      this.close();
    }
  }

  async *#merge(): AsyncGenerator<T[]> {
    const compare = this.#compare;
    const cursors = this.#runs.map((file, run) => new RunCursor<T>(file, run)).filter((cursor) => cursor.advance());
    let batch: T[] = [];
    for (const { row } of inOrder(cursors, (a, b) => compare(a.row, b.row))) {
      batch.push(row);
      if (batch.length < BATCH_ROWS) continue;
      yield batch;
      batch = [];
      await this.#task.breathe();
    }
    if (batch.length > 0) yield batch;
  }

  close(): void {
    this.#letGo();
    for (const run of this.#runs) run.close();
    this.#runs.length = 0;
  }
}

/** A place in a sorted run. */
class RunCursor<T> implements Cursor {
  readonly run: number;
  row!: T;
  readonly #frames: Generator<Uint8Array>;
  #batch: T[] = [];
  #at = 0;

  constructor(file: SpillFile, run: number) {
    this.run = run;
    this.#frames = file.frames();
  }

  advance(): boolean {
    while (this.#at >= this.#batch.length) {
      const frame = this.#frames.next();
      if (frame.done) return false;
      this.#batch = [...decodeRows(frame.value)].flat() as T[];
      this.#at = 0;
    }
    this.row = this.#batch[this.#at++];
    return true;
  }
}
