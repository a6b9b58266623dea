/** Columns through a shuffle: rows are spread by the hash of a key column, natively, straight into the memory that peers read. */

import { KERNEL, run } from '../kernels.js';
import type { Segment } from '../memory/segment-pool.js';
import type { PlanNode, Preparation, ShuffleDependency } from '../plan/node.js';
import type { Task } from '../plan/task.js';
import type { ShuffleWriter } from '../shuffle/manager.js';
import { ColumnBatch, columnOffsets, concatBatches, decodeColumns, encodedBytes, rowBytes, writeHead } from './batch.js';
import { arrayOf, COLUMN_TYPES, columnType, type Schema, widthOf } from './schema.js';

/** The next power of two, which the kernels want. */
export function powerOfTwo(n: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(1, n)));
}

/** Part of each row; counts[p] of them belong to p. */
export type Spread = (batch: ColumnBatch, ids: Uint16Array, counts: Float64Array, partitions: number) => Promise<void>;

/** By the hash of a column. */
export function hashOf(schema: Schema, key: string): Spread {
  const type = COLUMN_TYPES[columnType(schema, key)];
  return async (batch, ids, counts, partitions) => {
    await run(KERNEL.hashIds, batch.column(key), type, batch.length, partitions, ids, counts);
  };
}

export class ColumnShuffle implements ShuffleDependency {
  readonly kind = 'shuffle';
  readonly parent: PlanNode;
  readonly words: string;
  readonly schema: Schema;
  readonly #spread: Spread;
  readonly #before: ((batch: ColumnBatch, task: Task) => Promise<ColumnBatch>) | undefined;
  partitions: number;

  /** @param before what happens to a map task's batch first, such as aggregation; its result has `schema`. */
  constructor(
    parent: PlanNode,
    words: string,
    schema: Schema,
    partitions: number | undefined,
    spread: Spread,
    before?: (batch: ColumnBatch, task: Task) => Promise<ColumnBatch>,
  ) {
    this.parent = parent;
    this.words = words;
    this.schema = schema;
    this.partitions = partitions === undefined ? 0 : powerOfTwo(partitions);
    this.#spread = spread;
    this.#before = before;
  }

  decide(preparation: Preparation): number {
    if (this.partitions === 0) this.partitions = powerOfTwo(preparation.defaultPartitions);
    return this.partitions;
  }

  async write(writer: ShuffleWriter, task: Task): Promise<void> {
    let any = false;
    for await (const batch of this.parent.compute(task.partition, task)) {
      const whole = batch as ColumnBatch;
      // A run is no larger than what a reader can hold of it.
      const most = Math.ceil(task.services.memory.limit / 16 / rowBytes(whole.schema));
      for (let at = 0; at < whole.length; at += most) {
        const part = whole.length <= most ? whole : whole.slice(at, Math.min(whole.length, at + most));
        const rows = this.#before ? await this.#before(part, task) : part;
        await this.#writeRun(rows, writer);
        task.stats.rowsOut += rows.length;
        any = true;
      }
    }
    if (!any) writer.run(0).seal(new Float64Array(this.partitions));
  }

  async #writeRun(batch: ColumnBatch, writer: ShuffleWriter): Promise<void> {
    const { partitions, schema } = this;
    const ids = new Uint16Array(batch.length);
    const counts = new Float64Array(partitions);
    await this.#spread(batch, ids, counts, partitions);
    const lengths = counts.map((rows) => encodedBytes(schema, rows));
    const to = writer.run(lengths.reduce((sum, bytes) => sum + bytes, 0));
    // Where each column of each part begins: bytes from the start of the run.
    const types = Object.values(schema);
    const begins = types.map(() => new Float64Array(partitions));
    let base = 0;
    for (let p = 0; p < partitions; p++) {
      if (counts[p] > 0) {
        writeHead(to.bytes, base, counts[p]);
        const offsets = columnOffsets(schema, counts[p]);
        for (let c = 0; c < types.length; c++) begins[c][p] = (base + offsets[c]) / widthOf(types[c]);
      }
      base += lengths[p];
    }
    for (let c = 0; c < types.length; c++) {
      await run(KERNEL.scatter, batch.arrays[c], widthOf(types[c]), batch.length, ids, partitions, begins[c], to.bytes);
    }
    to.seal(lengths);
  }
}

/** All rows of a partition as one batch, where memory allows that; `release` gives it back. */
export async function fetchColumns(
  task: Task,
  dependency: ColumnShuffle,
  partition: number,
): Promise<{ batch: ColumnBatch | undefined; release: () => void }> {
  const bytes = task.services.sizeOf(dependency);
  if (bytes === 0) return { batch: undefined, release: () => {} };
  const segment: Segment = task.services.pool.take(bytes, true);
  const batches: ColumnBatch[] = [];
  try {
    for await (const block of task.services.fetch(task, dependency, partition, segment.bytes)) {
      for (const batch of decodeColumns(dependency.schema, block.bytes)) batches.push(batch);
      block.release();
    }
    const batch = concatBatches(dependency.schema, batches);
    return { batch, release: () => segment.release() };
  } catch (error) {
    segment.release();
    throw error;
  }
}

/** The rows of a partition in pieces of at most so many bytes. A piece is valid until the next one is asked for. */
export async function* piecesOf(
  task: Task,
  dependency: ColumnShuffle,
  partition: number,
  bytes: number,
): AsyncGenerator<ColumnBatch> {
  const { schema } = dependency;
  const { memory } = task.services;
  const width = rowBytes(schema);
  const room = Math.max(1024, Math.floor(Math.min(bytes, task.services.sizeOf(dependency)) / width));
  const arrays = Object.values(schema).map((type) => arrayOf(type, room));
  memory.take(room * width);
  let filled = 0;
  const piece = () => new ColumnBatch(schema, arrays, room).slice(0, filled);
  try {
    for await (const block of task.services.fetch(task, dependency, partition)) {
      try {
        for (const batch of decodeColumns(schema, block.bytes)) {
          for (let from = 0; from < batch.length; ) {
            const rows = Math.min(batch.length - from, room - filled);
            for (const [c, array] of batch.slice(from, from + rows).arrays.entries()) {
              (arrays[c] as Float64Array).set(array as Float64Array, filled);
            }
            filled += rows;
            from += rows;
            if (filled < room) continue;
            yield piece();
            filled = 0;
          }
        }
      } finally {
        block.release();
      }
      await task.breathe();
    }
    if (filled > 0) yield piece();
  } finally {
    memory.give(room * width);
  }
}
