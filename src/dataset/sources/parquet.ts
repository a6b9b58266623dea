/** Parquet files as columns or rows, by DuckDB. A partition is a file. */

import { ColumnBatch } from '../columns/batch.js';
import { arrayOf, type Schema, type Type } from '../columns/schema.js';
import { DatasetError } from '../errors.js';
import { PlanNode } from '../plan/node.js';
import type { Batch } from '../plan/task.js';
import { openDuckDb } from './duckdb.js';
import { type InputFile, inputFiles } from './files.js';

const TYPES: Readonly<Record<string, Type>> = {
  INTEGER: 'i32',
  UINTEGER: 'u32',
  FLOAT: 'f32',
  DOUBLE: 'f64',
  BIGINT: 'i64',
  UTINYINT: 'u8',
};

/** Batches of columns hold about so many rows. */
const ROWS = 1 << 20;

export function parquetRowsNode(paths: string | readonly string[], wanted: readonly string[] | undefined): PlanNode {
  let files: InputFile[] = [];
  return new PlanNode({
    name: 'parquet',
    words: String(paths),
    dependencies: [],
    partitions: () => {
      files = inputFiles(paths);
      return files.length;
    },
    async *compute(partition, task) {
      const { path } = files[partition];
      const database = await openDuckDb();
      try {
        const names = wanted ?? (await database.columnsOf(path)).map(({ name }) => name);
        let at = 0;
        for await (const { rows, values } of database.read(path, names)) {
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
  let files: InputFile[] = [];
  const names = Object.keys(schema);
  return new PlanNode({
    name: 'parquet',
    words: `${String(paths)}: ${names.join(', ')}`,
    dependencies: [],
    partitions: () => {
      files = inputFiles(paths);
      return files.length;
    },
    async *compute(partition, task): AsyncIterable<Batch> {
      const { path } = files[partition];
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
        for await (const { rows, values } of database.read(path, names)) {
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
