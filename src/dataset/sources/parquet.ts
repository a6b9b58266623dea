/** Parquet files as columns or rows, by DuckDB. A partition is a part of a file. */

import { ColumnBatch } from '../columns/batch.js';
import { arrayOf, type Schema, type Type } from '../columns/schema.js';
import { DatasetError } from '../errors.js';
import { PlanNode } from '../plan/node.js';
import type { Batch } from '../plan/task.js';
import { openDuckDb, type ParquetPart } from './duckdb.js';
import { inputFiles } from './files.js';

const TYPES: Readonly<Record<string, Type>> = {
  INTEGER: 'i32',
  UINTEGER: 'u32',
  FLOAT: 'f32',
  DOUBLE: 'f64',
  BIGINT: 'i64',
  UTINYINT: 'u8',
};

/** Rows of a partition, at most. */
const PART_ROWS = 1 << 20;

/** Cuts files into parts, at least `wanted` of them where there are enough rows. */
async function partsOf(paths: string | readonly string[], wanted: number): Promise<ParquetPart[]> {
  const database = await openDuckDb();
  try {
    const files: { path: string; rows: number }[] = [];
    for (const { path } of inputFiles(paths)) files.push({ path, rows: await database.rowsOf(path) });
    const total = files.reduce((sum, { rows }) => sum + rows, 0);
    const ideal = Math.max(16_384, Math.min(PART_ROWS, Math.ceil(total / wanted)));
    return files.flatMap(({ path, rows }) => {
      const count = Math.max(1, Math.ceil(rows / ideal));
      return Array.from({ length: count }, (_, i) => ({
        path,
        from: Math.floor((i * rows) / count),
        to: Math.floor(((i + 1) * rows) / count),
      }));
    });
  } finally {
    database.close();
  }
}

/** Batches of columns hold about so many rows. */
const ROWS = 1 << 20;

export function parquetRowsNode(paths: string | readonly string[], wanted: readonly string[] | undefined): PlanNode {
  let parts: ParquetPart[] = [];
  return new PlanNode({
    name: 'parquet',
    words: String(paths),
    dependencies: [],
    partitions: async ({ defaultPartitions }) => {
      parts = await partsOf(paths, defaultPartitions);
      return parts.length;
    },
    async *compute(partition, task) {
      const { path, from: first } = parts[partition];
      const database = await openDuckDb();
      try {
        const names = wanted ?? (await database.columnsOf(path)).map(({ name }) => name);
        let at = first;
        for await (const { rows, values } of database.read(parts[partition], names)) {
          for (let from = 0; from < rows; from += task.batchRows) {
            task.position = `${path}, row ${at + from}`;
            const out: unknown[] = [];
            for (let i = from; i < Math.min(rows, from + task.batchRows); i++) {
              const row: Record<string, unknown> = {};
              for (let c = 0; c < names.length; c++) row[names[c]] = values[c][i];
              out.push(row);
            }
            yield out;
            await task.breathe();
          }
          at += rows;
        }
      } finally {
        database.close();
      }
    },
  });
}

/** @param schema names and types, which the files must have: DATASET_SCHEMA otherwise. */
export function parquetColumnsNode(paths: string | readonly string[], schema: Schema): PlanNode {
  let parts: ParquetPart[] = [];
  const names = Object.keys(schema);
  return new PlanNode({
    name: 'parquet',
    words: `${String(paths)}: ${names.join(', ')}`,
    dependencies: [],
    partitions: async ({ defaultPartitions }) => {
      parts = await partsOf(paths, defaultPartitions);
      return parts.length;
    },
    async *compute(partition, task): AsyncIterable<Batch> {
      const { path } = parts[partition];
      const database = await openDuckDb();
      try {
        const found = new Map((await database.columnsOf(path)).map(({ name, type }) => [name, TYPES[type] ?? type]));
        const wrong = names.find((name) => found.get(name) !== schema[name]);
        if (wrong) {
          throw new DatasetError(
            'DATASET_SCHEMA',
            `column ${wrong} of ${path} is ${found.get(wrong) ?? 'not there'}, and ${schema[wrong]} is wanted`,
          );
        }
        let arrays = Object.values(schema).map((type) => arrayOf(type, ROWS));
        let filled = 0;
        const take = () => {
          const batch = new ColumnBatch(
            schema,
            arrays.map((array) => array.subarray(0, filled)),
            filled,
          );
          arrays = Object.values(schema).map((type) => arrayOf(type, ROWS));
          filled = 0;
          return batch;
        };
        for await (const { rows, values } of database.read(parts[partition], names)) {
          if (filled + rows > ROWS) yield take();
          for (const [c, list] of values.entries()) {
            for (let i = 0; i < rows; i++) {
              if (list[i] === null) throw new DatasetError('DATASET_SCHEMA', `column ${names[c]} of ${path} has empty values`);
              (arrays[c] as Float64Array)[filled + i] = list[i] as number;
            }
          }
          filled += rows;
          await task.breathe();
        }
        if (filled > 0) yield take();
      } finally {
        database.close();
      }
    },
  });
}
