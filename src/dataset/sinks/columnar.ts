/** Arrow and Parquet as output: one file per partition. */

import type { Table } from 'apache-arrow';
import type { ColumnBatch } from '../columns/batch.js';
import type { Engine } from '../engine.js';
import { systemError } from '../errors.js';
import type { ActionOptions } from '../options.js';
import type { PlanNode } from '../plan/node.js';
import type { Batch } from '../plan/task.js';
import { arrow } from '../sources/arrow-library.js';
import { openDuckDb } from '../sources/duckdb.js';
import { OutputFile, saveParts } from './parts.js';
import { checkFields } from './text.js';

/** Batches of columns as an Arrow table. */
function tableOfColumns(batches: readonly ColumnBatch[]): Table | undefined {
  if (batches.length === 0) return undefined;
  const { makeVector, Table } = arrow();
  const tables = batches.map(({ schema, arrays }) => {
    const vectors = Object.fromEntries(Object.keys(schema).map((name, c) => [name, makeVector(arrays[c] as Float64Array)]));
    return new Table(vectors);
  });
  return tables.length === 1 ? tables[0] : tables[0].concat(...tables.slice(1));
}

/** Rows as an Arrow table: fields of the first row; numbers are Float64, what else there is becomes what Arrow infers. */
function tableOfRows(rows: readonly unknown[]): Table | undefined {
  if (rows.length === 0) return undefined;
  const { makeVector, Table, vectorFromArray } = arrow();
  const names = Object.keys(rows[0] as object);
  for (const row of rows) checkFields(row as Record<string, unknown>, names);
  const columns = Object.fromEntries(
    names.map((name) => {
      const values = rows.map((row) => (row as Record<string, unknown>)[name] ?? null);
      const isNumeric = values.every((value) => typeof value === 'number');
      return [name, isNumeric ? makeVector(Float64Array.from(values as number[])) : vectorFromArray(values as string[])];
    }),
  );
  return new Table(columns as Record<string, ReturnType<typeof makeVector>>);
}

async function gatherColumns(batches: AsyncIterable<Batch>): Promise<Table | undefined> {
  const list: ColumnBatch[] = [];
  for await (const batch of batches) list.push(batch as ColumnBatch);
  return tableOfColumns(list);
}

async function gatherRows(batches: AsyncIterable<Batch>): Promise<Table | undefined> {
  const rows: unknown[] = [];
  for await (const batch of batches) for (const row of batch as readonly unknown[]) rows.push(row);
  return tableOfRows(rows);
}

type Gather = (batches: AsyncIterable<Batch>) => Promise<Table | undefined>;

/** Saves each partition as one table; a partition without rows has no file, because a file has a schema and there is none. */
function saveTables(
  engine: Engine,
  node: PlanNode,
  folder: string,
  suffix: string,
  options: ActionOptions,
  gather: Gather,
  write: (table: Table, file: OutputFile) => void | Promise<void>,
): Promise<void> {
  return saveParts(engine, node, folder, suffix, options, async (batches, path, task) => {
    const table = await gather(batches);
    if (!table) return;
    const file = new OutputFile(path);
    try {
      await write(table, file);
      file.commit(task);
    } finally {
      file.close();
    }
  });
}

export function saveArrowRows(engine: Engine, node: PlanNode, folder: string, options: ActionOptions): Promise<void> {
  return saveTables(engine, node, folder, '.arrow', options, gatherRows, (table, file) =>
    file.write(arrow().tableToIPC(table, 'file')),
  );
}

function saveParquet(engine: Engine, node: PlanNode, folder: string, options: ActionOptions, gather: Gather): Promise<void> {
  return saveTables(engine, node, folder, '.parquet', options, gather, async (table, file) => {
    const database = await openDuckDb();
    try {
      await database.writeTable(table, `/proc/self/fd/${file.fd}`);
    } catch (error) {
      throw systemError(`writing ${file.path}`, error);
    } finally {
      database.close();
    }
  });
}

/** Batch by batch: a partition may be larger than memory. */
export function saveArrowColumns(engine: Engine, node: PlanNode, folder: string, options: ActionOptions): Promise<void> {
  return saveParts(engine, node, folder, '.arrow', options, async (batches, path, task) => {
    const file = new OutputFile(path);
    const writer = new (arrow().RecordBatchFileWriter)();
    const written = (async () => {
      for await (const bytes of writer) file.write(bytes);
    })();
    let failure: unknown;
    written.catch((error) => {
      failure = error;
    });
    try {
      let rows = 0;
      for await (const batch of batches) {
        if (failure) throw failure;
        if (batch.length === 0) continue;
        for (const one of tableOfColumns([batch as ColumnBatch])?.batches ?? []) writer.write(one);
        rows += batch.length;
        await task.breathe();
      }
      writer.finish();
      await written;
      if (rows > 0) file.commit(task);
    } catch (error) {
      writer.abort(error);
      await written.catch(() => {});
      throw error;
    } finally {
      file.close();
    }
  });
}

export const saveParquetColumns = (engine: Engine, node: PlanNode, folder: string, options: ActionOptions) =>
  saveParquet(engine, node, folder, options, gatherColumns);
export const saveParquetRows = (engine: Engine, node: PlanNode, folder: string, options: ActionOptions) =>
  saveParquet(engine, node, folder, options, gatherRows);
