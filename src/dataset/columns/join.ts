/** Equi-join of columns: both sides are spread by the hash of the key, natively; then each partition is joined by a native hash join and the rows are gathered. */

import { DatasetError } from '../errors.js';
import { KERNEL, run } from '../kernels.js';
import { PlanNode } from '../plan/node.js';
import type { Batch } from '../plan/task.js';
import { ColumnBatch } from './batch.js';
import { ColumnShuffle, fetchColumns, hashOf, powerOfTwo } from './exchange.js';
import { arrayOf, COLUMN_TYPES, type ColumnArray, columnType, type Schema, widthOf } from './schema.js';

/** Rows of the result are yielded in batches of at most so many. */
const OUT_ROWS = 4 << 20;

/** The schema of the result: all of the left, then the right without its key. @throws DATASET_SCHEMA where names or key types clash. */
export function joinedSchema(left: Schema, right: Schema, key: string): Schema {
  const [a, b] = [columnType(left, key), columnType(right, key)];
  if (a !== b) throw new DatasetError('DATASET_SCHEMA', `the key ${key} is ${a} on the left and ${b} on the right`);
  const clash = Object.keys(right).find((name) => name !== key && Object.hasOwn(left, name));
  if (clash) throw new DatasetError('DATASET_SCHEMA', `both sides have a column ${clash}: rename one with select`);
  return { ...left, ...Object.fromEntries(Object.entries(right).filter(([name]) => name !== key)) };
}

export async function gather(array: ColumnArray, type: Schema[string], rows: Uint32Array): Promise<ColumnArray> {
  const out = arrayOf(type, rows.length);
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
      const a = await fetchColumns(task, ours, partition);
      const b = await fetchColumns(task, theirs, partition);
      try {
        if (!a.batch || !b.batch) return;
        const [l, r] = [a.batch, b.batch];
        let room = Math.max(l.length, r.length);
        let rows: [Uint32Array, Uint32Array] = [new Uint32Array(room), new Uint32Array(room)];
        let found = 0;
        for (;;) {
          const block = await run(
            KERNEL.join,
            l.column(key),
            l.length,
            r.column(key),
            r.length,
            COLUMN_TYPES[keyType],
            rows[0],
            rows[1],
            room,
          );
          found = block[1];
          if (found <= room) break;
          room = found;
          rows = [new Uint32Array(room), new Uint32Array(room)];
        }
        for (let at = 0; at < found; at += OUT_ROWS) {
          const [fromLeft, fromRight] = rows.map((list) => list.subarray(at, Math.min(found, at + OUT_ROWS)));
          const arrays: ColumnArray[] = [];
          for (const [c, type] of Object.values(leftSchema).entries()) arrays.push(await gather(l.arrays[c], type, fromLeft));
          for (const [c, [name, type]] of Object.entries(rightSchema).entries()) {
            if (name !== key) arrays.push(await gather(r.arrays[c], type, fromRight));
          }
          yield new ColumnBatch(schema, arrays, fromLeft.length);
        }
      } finally {
        a.release();
        b.release();
      }
    },
  });
  return { node, schema };
}
