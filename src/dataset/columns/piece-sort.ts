/** Sorted pieces of a partition that does not fit: each lies in a segment of its own, in memory or in a file, and all are merged. */

import type { Segment } from '../memory/segment-pool.js';
import type { Task } from '../plan/task.js';
import { type Cursor, inOrder } from '../rows/merge.js';
import { ColumnBatch, columnOffsets, encodedBytes } from './batch.js';
import { gather } from './join.js';
import { arrayOf, type ColumnArray, type Schema } from './schema.js';

/** Rows of a batch of the result. */
const OUT_ROWS = 32 << 10;

class PieceCursor implements Cursor {
  readonly run: number;
  readonly arrays: readonly ColumnArray[];
  readonly keys: ColumnArray;
  readonly rows: number;
  at = 0;

  constructor(run: number, batch: ColumnBatch, key: string) {
    this.run = run;
    this.arrays = batch.arrays;
    this.keys = batch.column(key);
    this.rows = batch.length;
  }

  advance(): boolean {
    return ++this.at < this.rows;
  }
}

export class PieceSort {
  readonly #schema: Schema;
  readonly #key: string;
  readonly #sign: 1 | -1;
  readonly #task: Task;
  readonly #pieces: { segment: Segment; batch: ColumnBatch }[] = [];

  constructor(schema: Schema, key: string, descending: boolean, task: Task) {
    this.#schema = schema;
    this.#key = key;
    this.#sign = descending ? -1 : 1;
    this.#task = task;
  }

  /** Takes a piece, whose rows are in order as `rows` says. @throws DATASET_DISK_FULL. */
  async add(piece: ColumnBatch, rows: Uint32Array): Promise<void> {
    const { services, stats } = this.#task;
    const segment = services.pool.take(encodedBytes(this.#schema, piece.length));
    const offsets = columnOffsets(this.#schema, piece.length);
    const arrays = Object.values(this.#schema).map((type, c) =>
      arrayOf(type, segment.bytes.buffer, segment.bytes.byteOffset + offsets[c], piece.length),
    );
    this.#pieces.push({ segment, batch: new ColumnBatch(this.#schema, arrays, piece.length) });
    for (const [c, type] of Object.values(this.#schema).entries()) await gather(piece.arrays[c], type, rows, arrays[c]);
    if (segment.kind === 'arena') return;
    stats.spills++;
    stats.spilledBytes += segment.bytes.length;
  }

  /** Everything in order; stable, and what is no number comes last. */
  async *results(): AsyncGenerator<ColumnBatch> {
    const cursors = this.#pieces.map(({ batch }, run) => new PieceCursor(run, batch, this.#key));
    const compare = (a: PieceCursor, b: PieceCursor) => {
      const [x, y] = [a.keys[a.at], b.keys[b.at]];
      if (x < y) return -this.#sign;
      if (x > y) return this.#sign;
      return Number(Number.isNaN(x)) - Number(Number.isNaN(y));
    };
    const types = Object.values(this.#schema);
    let out = types.map((type) => arrayOf(type, OUT_ROWS));
    let filled = 0;
    for (const { arrays, at } of inOrder(cursors, compare)) {
      for (let c = 0; c < out.length; c++) (out[c] as Float64Array)[filled] = (arrays[c] as Float64Array)[at];
      if (++filled < OUT_ROWS) continue;
      yield new ColumnBatch(this.#schema, out, filled);
      out = types.map((type) => arrayOf(type, OUT_ROWS));
      filled = 0;
      await this.#task.breathe();
    }
    if (filled > 0) yield new ColumnBatch(this.#schema, out, OUT_ROWS).slice(0, filled);
  }

  close(): void {
    for (const { segment } of this.#pieces) segment.release();
    this.#pieces.length = 0;
  }
}
