/**
 * Aggregation by key, in memory while it fits and with the help of files when it does not.
 *
 *   table: key -> accumulated value          full: all entries go to 16 files by a part of the hash, and the table begins anew
 *   at the end each file is aggregated by itself, by the next part of the hash if it is still too much
 *
 * Whether it spills depends on the bound and the data alone, so another attempt gives the same rows in the same order. What one key accumulates is one value and
 * cannot be split: beyond the bound it is an error that names the key.
 */

import { inspect } from 'node:util';
import { DatasetError } from '../errors.js';
import { SpillFile } from '../memory/spill-file.js';
import { estimateValue } from '../plan/node.js';
import { BATCH_ROWS, type Task } from '../plan/task.js';
import { decodeRows, encodeRows } from './codec.js';
import { hashIdentity, identityOf } from './hash.js';
import { KeyTable } from './key-table.js';

export interface Combiner<V, A> {
  create(value: V): A;
  /** May change and return its first argument. */
  add(accumulated: A, value: V): A;
  merge(a: A, b: A): A;
  /** Whether an accumulated value grows with what is added: then additions count against the memory bound. */
  readonly grows: boolean;
}

const FAN_OUT = 16;
const DEEPEST = 6;
const ENTRY_BYTES = 72;
/** New bytes between two looks at the bound. */
const STEP = 256 << 10;

export class Aggregation<V, A> {
  readonly #combiner: Combiner<V, A>;
  readonly #task: Task;
  readonly #level: number;
  #table = new KeyTable();
  #keys: unknown[] = [];
  #values: A[] = [];
  #files: SpillFile[] = [];
  #held = 0;
  #unaccounted = 0;

  constructor(combiner: Combiner<V, A>, task: Task, level = 0) {
    this.#combiner = combiner;
    this.#task = task;
    this.#level = level;
  }

  add(key: unknown, value: V): void {
    const at = this.#table.entryOf(identityOf(key));
    if (at === this.#values.length) {
      this.#keep(key, this.#combiner.create(value));
      return;
    }
    this.#values[at] = this.#combiner.add(this.#values[at], value);
    if (this.#combiner.grows) this.#account(key, 8 + estimateValue(value, 2));
  }

  merge(key: unknown, accumulated: A): void {
    const at = this.#table.entryOf(identityOf(key));
    if (at === this.#values.length) {
      this.#keep(key, accumulated);
      return;
    }
    this.#values[at] = this.#combiner.merge(this.#values[at], accumulated);
    if (this.#combiner.grows) this.#account(key, estimateValue(accumulated, 2));
  }

  #keep(key: unknown, accumulated: A): void {
    this.#keys.push(key);
    this.#values.push(accumulated);
    this.#account(key, ENTRY_BYTES + estimateValue(key) + estimateValue(accumulated, 2));
  }

  #account(key: unknown, bytes: number): void {
    this.#unaccounted += bytes;
    if (this.#unaccounted < STEP) return;
    const { memory } = this.#task.services;
    memory.take(this.#unaccounted);
    this.#held += this.#unaccounted;
    this.#unaccounted = 0;
    if (this.#held <= memory.share) return;
    if (this.#keys.length > 1 && this.#level < DEEPEST) this.#spill();
    else if (this.#held > memory.limit / 2) throw tooLarge(key, memory.limit);
  }

  #spill(): void {
    const { stats, services } = this.#task;
    while (this.#files.length < FAN_OUT) this.#files.push(new SpillFile(services.disk));
    const before = this.#files.reduce((sum, { length }) => sum + length, 0);
    const parts: unknown[][] = Array.from({ length: FAN_OUT }, () => []);
    const write = (part: number) => {
      this.#files[part].append(encodeRows(parts[part]));
      parts[part] = [];
    };
    for (const [i, key] of this.#keys.entries()) {
      // The partition was chosen by the low part of the hash; levels use four bits each from the top.
      const part = (Math.imul(hashIdentity(identityOf(key)), 0x9e3779b1) >>> (28 - 4 * this.#level)) & (FAN_OUT - 1);
      if (parts[part].push([key, this.#values[i]]) >= 256) write(part);
    }
    for (let part = 0; part < FAN_OUT; part++) if (parts[part].length > 0) write(part);
    stats.spills++;
    stats.spilledBytes += this.#files.reduce((sum, { length }) => sum + length, 0) - before;
    this.#letGo();
  }

  #letGo(): void {
    this.#task.services.memory.give(this.#held);
    this.#held = 0;
    this.#unaccounted = 0;
    this.#table = new KeyTable();
    this.#keys = [];
    this.#values = [];
  }

  /** All keys with what was accumulated. Call it once; it lets go of everything, also when it is not read to its end. */
  async *results(): AsyncGenerator<[unknown, A][]> {
    try {
      if (this.#files.length === 0) {
        yield* this.#drain();
        return;
      }
      this.#spill();
      for (const file of this.#files) {
        const inner = new Aggregation<V, A>(this.#combiner, this.#task, this.#level + 1);
        for (const frame of file.frames()) {
          for (const rows of decodeRows(frame)) for (const [key, value] of rows as [unknown, A][]) inner.merge(key, value);
          await this.#task.breathe();
        }
        file.close();
        yield* inner.results();
      }
    } finally {
      this.close();
    }
  }

  *#drain(): Generator<[unknown, A][]> {
    for (let at = 0; at < this.#keys.length; at += BATCH_ROWS) {
      const keys = this.#keys.slice(at, at + BATCH_ROWS);
      yield keys.map((key, i) => [key, this.#values[at + i]]);
    }
  }

  /** Lets go of memory and files. Idempotent. */
  close(): void {
    this.#letGo();
    for (const file of this.#files) file.close();
    this.#files = [];
  }
}

function tooLarge(key: unknown, limit: number): DatasetError {
  return new DatasetError(
    'DATASET_MEMORY',
    `the values of the key ${inspect(key, { depth: 1, maxStringLength: 120 })} take more than half of the ${limit} bytes that a rank may hold, and they are one value: ` +
      'combine them (reduceByKey, aggregateByKey), join instead of cogroup, or raise memoryBytes',
  );
}
