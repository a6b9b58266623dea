/**
 * Arrow IPC files (and streams) as columns or rows. A partition is a file; the batches of large files are spread over several partitions. Columns of numbers without
 * nulls are used as they lie in the file's bytes; nothing is copied.
 */

import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { type RecordBatch, type Table, tableFromIPC } from 'apache-arrow';
import { ColumnBatch, concatBatches } from '../columns/batch.js';
import { type ColumnArray, type Schema, type Type, typeOf } from '../columns/schema.js';
import { DatasetError } from '../errors.js';
import { PlanNode } from '../plan/node.js';
import type { Batch } from '../plan/task.js';
import { inputFiles } from './files.js';

/** A file that was parsed last: partitions of one file follow one another. */
let last: { path: string; stamp: string; table: Table } | undefined;

function readArrow(path: string): Table {
  try {
    const fd = openSync(path, 'r');
    try {
      const { size, mtimeMs } = fstatSync(fd);
      const stamp = `${size}:${mtimeMs}`;
      if (last?.path === path && last.stamp === stamp) return last.table;
      const bytes = new Uint8Array(size);
      for (let done = 0; done < size; ) {
        const n = readSync(fd, bytes, done, Math.min(1 << 30, size - done), done);
        if (n === 0) break;
        done += n;
      }
      const table = tableFromIPC(bytes);
      last = { path, stamp, table };
      return table;
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    throw new DatasetError('DATASET_INPUT', `the Arrow file ${path} cannot be read: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/** The schema of the numeric columns of a table. @throws DATASET_SCHEMA with the columns that are not. */
function schemaOf(table: Table, path: string, wanted: readonly string[] | undefined): Schema {
  const out: [string, Type][] = [];
  for (const { name, type } of table.schema.fields) {
    if (wanted && !wanted.includes(name)) continue;
    const found = ARROW_TYPES[String(type)];
    if (!found) {
      throw new DatasetError(
        'DATASET_SCHEMA',
        `column ${name} of ${path} is ${String(type)}, which no typed array holds: name the columns you want, or read the file with arrowRows()`,
      );
    }
    out.push([name, found]);
  }
  const missing = wanted?.find((name) => !out.some(([one]) => one === name));
  if (missing)
    throw new DatasetError('DATASET_SCHEMA', `${path} has no column ${missing}: it has ${table.schema.names.join(', ')}`);
  return Object.fromEntries(out);
}

const ARROW_TYPES: Readonly<Record<string, Type>> = {
  Int32: 'i32',
  Uint32: 'u32',
  Float32: 'f32',
  Float64: 'f64',
  Int64: 'i64',
  Uint8: 'u8',
};

function columnsOf(batch: RecordBatch, schema: Schema, path: string): ColumnBatch {
  const arrays = Object.entries(schema).map(([name, type]) => {
    const vector = batch.getChild(name);
    if (!vector || vector.nullCount > 0) {
      throw new DatasetError(
        'DATASET_SCHEMA',
        `column ${name} of ${path} has empty values, which columns cannot hold: fill them, or read rows`,
      );
    }
    const array = vector.toArray() as ColumnArray;
    if (typeOf(array) !== type)
      throw new DatasetError('DATASET_SCHEMA', `column ${name} of ${path} is ${typeOf(array)}, not ${type}`);
    return array;
  });
  return new ColumnBatch(schema, arrays, batch.numRows);
}

export interface ArrowOptions {
  /** Only these. Default: all. */
  readonly columns?: readonly string[];
  /** Default: one per file, or per rank where there are more ranks than files. */
  readonly partitions?: number;
}

/** A part of a file: its batches from one number to another. */
interface Part {
  readonly path: string;
  readonly from: number;
  readonly to: number;
}

function partsOf(paths: string | readonly string[], wanted: number): Part[] {
  const files = inputFiles(paths);
  const each = Math.max(1, Math.ceil(wanted / files.length));
  return files.flatMap(({ path }) => {
    const { length } = readArrow(path).batches;
    const parts = Math.max(1, Math.min(each, length));
    return Array.from({ length: parts }, (_, i) => ({
      path,
      from: Math.floor((i * length) / parts),
      to: Math.floor(((i + 1) * length) / parts),
    }));
  });
}

export function arrowColumnsNode(paths: string | readonly string[], options: ArrowOptions): { node: PlanNode; schema: Schema } {
  const [first] = inputFiles(paths);
  const schema = schemaOf(readArrow(first.path), first.path, options.columns);
  let parts: Part[] = [];
  const node = new PlanNode({
    name: 'arrow',
    words: String(paths),
    dependencies: [],
    partitions: ({ size }) => {
      parts = partsOf(paths, options.partitions ?? size);
      return parts.length;
    },
    async *compute(partition, task): AsyncIterable<Batch> {
      const { path, from, to } = parts[partition];
      task.position = path;
      const table = readArrow(path);
      const found = schemaOf(table, path, Object.keys(schema));
      const other = Object.keys(schema).find((name) => found[name] !== schema[name]);
      if (other)
        throw new DatasetError(
          'DATASET_SCHEMA',
          `column ${other} is ${found[other]} in ${path} and ${schema[other]} in ${first.path}`,
        );
      // One batch for the whole part: grouping and joining have less to merge.
      const batches = table.batches.slice(from, to).map((batch) => columnsOf(batch, schema, path));
      if (batches.length > 0) yield concatBatches(schema, batches);
    },
  });
  return { node, schema };
}

export function arrowRowsNode(paths: string | readonly string[], options: ArrowOptions): PlanNode {
  let parts: Part[] = [];
  return new PlanNode({
    name: 'arrowRows',
    words: String(paths),
    dependencies: [],
    partitions: ({ defaultPartitions }) => {
      parts = partsOf(paths, options.partitions ?? defaultPartitions);
      return parts.length;
    },
    async *compute(partition, task) {
      const { path, from, to } = parts[partition];
      const { batches } = readArrow(path);
      for (let b = from; b < to; b++) {
        const batch = batches[b];
        const names = options.columns ?? batch.schema.names.map(String);
        const vectors = names.map((name) => batch.getChild(name));
        const missing = vectors.indexOf(null);
        if (missing >= 0) throw new DatasetError('DATASET_SCHEMA', `${path} has no column ${names[missing]}`);
        for (let at = 0; at < batch.numRows; at += task.batchRows) {
          task.position = `${path}, batch ${b}, row ${at}`;
          const rows: unknown[] = [];
          for (let i = at; i < Math.min(batch.numRows, at + task.batchRows); i++) {
            const row: Record<string, unknown> = {};
            for (let c = 0; c < names.length; c++) row[names[c]] = vectors[c]?.get(i);
            rows.push(row);
          }
          yield rows;
          await task.breathe();
        }
      }
    },
  });
}
