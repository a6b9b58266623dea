/** DuckDB, which reads and writes Parquet. An optional dependency: loaded when somebody asks for Parquet. */

import type { Table } from 'apache-arrow';
import { DatasetError } from '../errors.js';

/** A name or text in SQL. */
function quoted(text: string, mark: '"' | "'"): string {
  return `${mark}${text.replaceAll(mark, mark + mark)}${mark}`;
}

export interface ParquetColumn {
  readonly name: string;
  /** As SQL names it: DOUBLE, INTEGER, VARCHAR ... */
  readonly type: string;
}

/** Rows of a file from one number to another. */
export interface ParquetPart {
  readonly path: string;
  readonly from: number;
  readonly to: number;
}

export interface DuckDb {
  columnsOf(path: string): Promise<ParquetColumn[]>;
  rowsOf(path: string): Promise<number>;
  /** Rows of a part of a file in chunks: the values of each wanted column. Times are Dates, BIGINTs are bigints. */
  read(part: ParquetPart, columns: readonly string[]): AsyncGenerator<{ rows: number; values: readonly (readonly unknown[])[] }>;
  /** Into a file that is there. */
  writeTable(table: Table, path: string): Promise<void>;
  close(): void;
}

const SQL_TYPES: Readonly<Record<string, string>> = {
  Int32: 'INTEGER',
  Uint32: 'UINTEGER',
  Float32: 'FLOAT',
  Float64: 'DOUBLE',
  Int64: 'BIGINT',
  Uint8: 'UTINYINT',
  Bool: 'BOOLEAN',
};

/** @throws DATASET_MISSING where it is not installed. */
export async function openDuckDb(): Promise<DuckDb> {
  let module: typeof import('@duckdb/node-api');
  try {
    module = await import('@duckdb/node-api');
  } catch (error) {
    throw new DatasetError('DATASET_MISSING', 'Parquet needs DuckDB: npm install @duckdb/node-api', { cause: error });
  }
  const instance = await module.DuckDBInstance.create(':memory:', { threads: '1' });
  const connection = await instance.connect();
  return {
    async columnsOf(path) {
      try {
        const result = await connection.run(`SELECT * FROM read_parquet(${quoted(path, "'")}) LIMIT 0`);
        const types = result.columnTypes();
        return result.columnNames().map((name, i) => ({ name, type: String(types[i]) }));
      } catch (error) {
        throw new DatasetError('DATASET_INPUT', `the Parquet file ${path} cannot be read: ${(error as Error).message}`, {
          cause: error,
        });
      }
    },
    async rowsOf(path) {
      try {
        const result = await connection.runAndReadAll(`SELECT count(*) FROM read_parquet(${quoted(path, "'")})`);
        return Number(result.getRows()[0][0]);
      } catch (error) {
        throw new DatasetError('DATASET_INPUT', `the Parquet file ${path} cannot be read: ${(error as Error).message}`, {
          cause: error,
        });
      }
    },
    async *read({ path, from, to }, columns) {
      try {
        const names = columns.map((name) => quoted(name, '"')).join(', ');
        const result = await connection.stream(
          `SELECT ${names} FROM read_parquet(${quoted(path, "'")}) LIMIT ${to - from} OFFSET ${from}`,
        );
        for (;;) {
          const chunk = await result.fetchChunk();
          if (!chunk || chunk.rowCount === 0) return;
          yield {
            rows: chunk.rowCount,
            values: columns.map((_, i) => chunk.convertColumnValues(i, module.JSDuckDBValueConverter) as unknown[]),
          };
        }
      } catch (error) {
        throw new DatasetError('DATASET_INPUT', `reading the Parquet file ${path}: ${(error as Error).message}`, {
          cause: error,
        });
      }
    },
    async writeTable(table, path) {
      const fields = table.schema.fields.map(({ name, type }) => ({
        name: String(name),
        type: SQL_TYPES[String(type)] ?? 'VARCHAR',
      }));
      const columns = fields.map(({ name, type }) => `${quoted(name, '"')} ${type}`).join(', ');
      await connection.run(`CREATE OR REPLACE TABLE part (${columns})`);
      const appender = await connection.createAppender('part');
      const vectors = fields.map(({ name }) => table.getChild(name));
      for (let row = 0; row < table.numRows; row++) {
        for (const [c, { type }] of fields.entries()) {
          const value: unknown = vectors[c]?.get(row);
          if (value === null || value === undefined) appender.appendNull();
          else if (type === 'DOUBLE') appender.appendDouble(value as number);
          else if (type === 'FLOAT') appender.appendFloat(value as number);
          else if (type === 'INTEGER') appender.appendInteger(value as number);
          else if (type === 'UINTEGER') appender.appendUInteger(value as number);
          else if (type === 'UTINYINT') appender.appendUTinyInt(value as number);
          else if (type === 'BIGINT') appender.appendBigInt(value as bigint);
          else if (type === 'BOOLEAN') appender.appendBoolean(value as boolean);
          else appender.appendVarchar(typeof value === 'object' ? JSON.stringify(value) : String(value));
        }
        appender.endRow();
      }
      appender.closeSync();
      await connection.run(`COPY part TO ${quoted(path, "'")} (FORMAT parquet, USE_TMP_FILE false)`);
      await connection.run('DROP TABLE part');
    },
    close() {
      connection.closeSync();
      instance.closeSync();
    },
  };
}
