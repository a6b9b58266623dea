/**
 * Arrow IPC files as columns or rows, batch by batch. The batches of a file are spread over several partitions; a stream without a footer is one. Columns of numbers
 * without nulls are used as they lie in the file's bytes.
 */

import { closeSync, fstatSync, openSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { getSystemErrorName } from 'node:util';
import type { Schema as ArrowSchema, RecordBatch } from 'apache-arrow';
import { loadAddon } from '../../native/load.js';
import { ColumnBatch, concatBatches } from '../columns/batch.js';
import { type ColumnArray, type Schema, type Type, typeOf } from '../columns/schema.js';
import { DatasetError } from '../errors.js';
import { PlanNode } from '../plan/node.js';
import type { Batch } from '../plan/task.js';
import { arrow } from './arrow-library.js';
import { inputFiles } from './files.js';

function unreadable(path: string, cause: unknown): DatasetError {
  if (DatasetError.is(cause)) return cause;
  return new DatasetError('DATASET_INPUT', `the Arrow file ${path} cannot be read: ${(cause as Error).message}`, { cause });
}

/** The schema, of which nothing else of the file is read. */
function readSchema(path: string): ArrowSchema {
  try {
    const fd = openSync(path, 'r');
    try {
      const { map, view, stop } = loadAddon();
      const { size } = fstatSync(fd);
      const mapped = size === 0 ? 0 : map(fd, 0, size, 0, 0);
      if (typeof mapped === 'number') throw new Error(size === 0 ? 'it is empty' : getSystemErrorName(-mapped));
      const bytes = new Uint8Array(view(mapped[0], 0, size));
      stop(mapped[0]); // unmapped when the view goes
      const { schema } = arrow().RecordBatchReader.from(bytes).open();
      if (!schema) throw new Error('it has no schema');
      return schema;
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    throw unreadable(path, error);
  }
}

/** How many batches a file has; undefined for a stream, which does not say. */
async function countBatches(path: string): Promise<number | undefined> {
  try {
    const file = await open(path);
    try {
      const reader = await arrow().RecordBatchReader.from(file);
      await reader.open();
      return reader.isFile() ? reader.numRecordBatches : undefined;
    } finally {
      await file.close().catch(() => {}); // the reader may have closed it
    }
  } catch (error) {
    throw unreadable(path, error);
  }
}

/** A part of a file: its batches from one number to another; all of a stream. */
interface Part {
  readonly path: string;
  readonly from: number;
  readonly to: number | undefined;
}

async function partsOf(paths: string | readonly string[], wanted: number): Promise<Part[]> {
  const files = inputFiles(paths);
  const each = Math.max(1, Math.ceil(wanted / files.length));
  const parts: Part[] = [];
  for (const { path } of files) {
    const batches = await countBatches(path);
    const count = Math.max(1, Math.min(each, batches ?? 1));
    for (let i = 0; i < count; i++) {
      const [from, to] = [i, i + 1].map((k) => Math.floor((k * (batches ?? 0)) / count));
      parts.push({ path, from, to: batches === undefined ? undefined : to });
    }
  }
  return parts;
}

async function* batchesOf({ path, from, to }: Part): AsyncGenerator<RecordBatch> {
  try {
    const file = await open(path);
    try {
      const reader = await arrow().RecordBatchReader.from(file);
      await reader.open();
      if (to === undefined || !reader.isFile()) {
        for await (const batch of reader) yield batch;
        return;
      }
      for (let b = from; b < to; b++) {
        const batch = await reader.readRecordBatch(b);
        if (!batch) throw new Error(`batch ${b} is not there`);
        yield batch;
      }
    } finally {
      await file.close().catch(() => {}); // the reader may have closed it
    }
  } catch (error) {
    throw unreadable(path, error);
  }
}

/** The schema of the numeric columns of a file. @throws DATASET_SCHEMA with the columns that are not. */
function schemaOf({ fields, names }: ArrowSchema, path: string, wanted: readonly string[] | undefined): Schema {
  const out: [string, Type][] = [];
  for (const { name, type } of fields) {
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
  if (missing) throw new DatasetError('DATASET_SCHEMA', `${path} has no column ${missing}: it has ${names.join(', ')}`);
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

export function arrowColumnsNode(paths: string | readonly string[], options: ArrowOptions): { node: PlanNode; schema: Schema } {
  const [first] = inputFiles(paths);
  const schema = schemaOf(readSchema(first.path), first.path, options.columns);
  let parts: Part[] = [];
  const node = new PlanNode({
    name: 'arrow',
    words: String(paths),
    dependencies: [],
    partitions: async ({ size }) => {
      parts = await partsOf(paths, options.partitions ?? size);
      return parts.length;
    },
    async *compute(partition, task): AsyncIterable<Batch> {
      const { path } = parts[partition];
      task.position = path;
      const found = schemaOf(readSchema(path), path, Object.keys(schema));
      const other = Object.keys(schema).find((name) => found[name] !== schema[name]);
      if (other)
        throw new DatasetError(
          'DATASET_SCHEMA',
          `column ${other} is ${found[other]} in ${path} and ${schema[other]} in ${first.path}`,
        );
      // Large batches: grouping and joining have less to merge.
      const most = task.services.memory.limit / 8;
      let together: ColumnBatch[] = [];
      let bytes = 0;
      for await (const one of batchesOf(parts[partition])) {
        const batch = columnsOf(one, schema, path);
        if (together.length > 0 && bytes + batch.byteLength > most) {
          yield concatBatches(schema, together);
          together = [];
          bytes = 0;
        }
        together.push(batch);
        bytes += batch.byteLength;
        await task.breathe();
      }
      if (together.length > 0) yield concatBatches(schema, together);
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
    partitions: async ({ defaultPartitions }) => {
      parts = await partsOf(paths, options.partitions ?? defaultPartitions);
      return parts.length;
    },
    async *compute(partition, task) {
      const { path } = parts[partition];
      let b = parts[partition].from;
      for await (const batch of batchesOf(parts[partition])) {
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
        b++;
      }
    },
  });
}
