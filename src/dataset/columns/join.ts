/**
 * Equi-join of columns: both sides are spread by the hash of the key, natively; then each partition is joined by a native hash join and the rows are gathered. A
 * partition that is too large for memory is joined piece by piece, every piece of one side with every piece of the other.
 */

import { DatasetError } from '../errors.js';
import { KERNEL, run } from '../kernels.js';
import { PlanNode } from '../plan/node.js';
import type { Batch, Task } from '../plan/task.js';
import { ColumnBatch, rowBytes } from './batch.js';
import { ColumnShuffle, fetchColumns, hashOf, piecesOf, powerOfTwo } from './exchange.js';
import { arrayOf, COLUMN_TYPES, type ColumnArray, columnType, type Schema, widthOf } from './schema.js';

/** Rows of the result are yielded in batches of at most so many. */
const MOST_ROWS = 4 << 20;
const FEWEST_ROWS = 16 << 10;

/** The schema of the result: all of the left, then the right without its key. @throws DATASET_SCHEMA where names or key types clash. */
export function joinedSchema(left: Schema, right: Schema, key: string): Schema {
  const [a, b] = [columnType(left, key), columnType(right, key)];
  if (a !== b) throw new DatasetError('DATASET_SCHEMA', `the key ${key} is ${a} on the left and ${b} on the right`);
  const clash = Object.keys(right).find((name) => name !== key && Object.hasOwn(left, name));
  if (clash) throw new DatasetError('DATASET_SCHEMA', `both sides have a column ${clash}: rename one with select`);
  return { ...left, ...Object.fromEntries(Object.entries(right).filter(([name]) => name !== key)) };
}

/** The values of some rows. @param out where they go; default: new memory. */
export async function gather(
  array: ColumnArray,
  type: Schema[string],
  rows: Uint32Array,
  out: ColumnArray = arrayOf(type, rows.length),
): Promise<ColumnArray> {
  if (rows.length > 0) await run(KERNEL.gather, array, widthOf(type), rows, rows.length, out);
  return out;
}

export function joinColumnsNode(
  left: PlanNode,
  leftSchema: Schema,
  right: PlanNode,
  rightSchema: Schema,
  key: string,
  partitions: number | undefined,
): { node: PlanNode; schema: Schema } {
  const schema = joinedSchema(leftSchema, rightSchema, key);
  const keyType = columnType(leftSchema, key);
  const words = 'hash by key, native';
  const ours = new ColumnShuffle(left, words, leftSchema, partitions, hashOf(leftSchema, key));
  const theirs = new ColumnShuffle(right, words, rightSchema, partitions, hashOf(rightSchema, key));
  const node = new PlanNode({
    name: 'join',
    words: `by ${key}`,
    dependencies: [ours, theirs],
    partitions: (preparation) => {
      theirs.partitions = powerOfTwo(ours.decide(preparation));
      return ours.partitions;
    },
    async *compute(partition, task): AsyncIterable<Batch> {
      const { share } = task.services.memory;
      const [ourBytes, theirBytes] = [ours, theirs].map((side) => task.services.sizeOf(side));
      if (ourBytes === 0 || theirBytes === 0) return;
      if (ourBytes + theirBytes > share) {
        const [held, streamed] = ourBytes < theirBytes ? [ours, theirs] : [theirs, ours];
        for await (const a of piecesOf(task, held, partition, share / 2)) {
          for await (const b of piecesOf(task, streamed, partition, share / 4)) {
            yield* joined(held === ours ? a : b, held === ours ? b : a, task);
          }
        }
        return;
      }
      const a = await fetchColumns(task, ours, partition);
      const b = await fetchColumns(task, theirs, partition);
      try {
        if (a.batch && b.batch) yield* joined(a.batch, b.batch, task);
      } finally {
        a.release();
        b.release();
      }
    },
  });

  /** Pairs of rows of two batches. Where there are too many at once, the longer batch is cut. */
  async function* joined(l: ColumnBatch, r: ColumnBatch, task: Task): AsyncGenerator<ColumnBatch> {
    const most = Math.min(MOST_ROWS, Math.max(FEWEST_ROWS, task.services.memory.share / (8 + rowBytes(schema))));
    let room = Math.min(most, Math.max(l.length, r.length));
    for (;;) {
      const rows = [new Uint32Array(room), new Uint32Array(room)];
      const [a, b] = [l.column(key), r.column(key)];
      const found = (await run(KERNEL.join, a, l.length, b, r.length, COLUMN_TYPES[keyType], rows[0], rows[1], room))[1];
      if (found <= room) {
        if (found > 0) yield await gathered(l, r, rows[0].subarray(0, found), rows[1].subarray(0, found));
        return;
      }
      if (found > most) {
        yield* joinedInParts(l, r, Math.ceil(found / most), task);
        return;
      }
      room = found;
    }
  }

  async function* joinedInParts(l: ColumnBatch, r: ColumnBatch, parts: number, task: Task): AsyncGenerator<ColumnBatch> {
    const { length } = l.length > r.length ? l : r;
    const each = Math.ceil(length / Math.min(parts, length));
    for (let at = 0; at < length; at += each) {
      const to = Math.min(length, at + each);
      if (l.length > r.length) yield* joined(l.slice(at, to), r, task);
      else yield* joined(l, r.slice(at, to), task);
      await task.breathe();
    }
  }

  async function gathered(l: ColumnBatch, r: ColumnBatch, left: Uint32Array, right: Uint32Array): Promise<ColumnBatch> {
    const arrays: ColumnArray[] = [];
    for (const [c, type] of Object.values(leftSchema).entries()) arrays.push(await gather(l.arrays[c], type, left));
    for (const [c, [name, type]] of Object.entries(rightSchema).entries()) {
      if (name !== key) arrays.push(await gather(r.arrays[c], type, right));
    }
    return new ColumnBatch(schema, arrays, left.length);
  }

  return { node, schema };
}
