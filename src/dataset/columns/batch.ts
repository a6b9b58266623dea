/**
 * A batch of columns, and its form in a block of a shuffle:
 *
 *   f64 rows | column after column, each padded to 8 bytes                                        several of them may follow one another
 */

import { DatasetError } from '../errors.js';
import { arrayOf, type ColumnArray, type Schema, widthOf } from './schema.js';

export class ColumnBatch {
  readonly schema: Schema;
  readonly length: number;
  readonly arrays: readonly ColumnArray[];

  constructor(schema: Schema, arrays: readonly ColumnArray[], length = arrays[0]?.length ?? 0) {
    this.schema = schema;
    this.arrays = arrays;
    this.length = length;
  }

  get byteLength(): number {
    return this.arrays.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** Some of its rows, as views. */
  slice(from: number, to: number): ColumnBatch {
    return new ColumnBatch(
      this.schema,
      this.arrays.map((array) => array.subarray(from, to)),
      to - from,
    );
  }

  /** A column by its name. @throws DATASET_SCHEMA. */
  column(name: string): ColumnArray {
    const at = Object.keys(this.schema).indexOf(name);
    if (at < 0)
      throw new DatasetError('DATASET_SCHEMA', `there is no column ${name}: there are ${Object.keys(this.schema).join(', ')}`);
    return this.arrays[at];
  }
}

const HEAD = 8;

function padded(bytes: number): number {
  return (bytes + 7) & ~7;
}

/** Bytes of a row. */
export function rowBytes(schema: Schema): number {
  return Object.values(schema).reduce((sum, type) => sum + widthOf(type), 0);
}

/** Bytes of so many rows in a block; none for no rows. */
export function encodedBytes(schema: Schema, rows: number): number {
  if (rows === 0) return 0;
  return Object.values(schema).reduce((sum, type) => sum + padded(rows * widthOf(type)), HEAD);
}

/** Where the columns of a block with so many rows begin, bytes from its start. */
export function columnOffsets(schema: Schema, rows: number): number[] {
  let at = HEAD;
  return Object.values(schema).map((type) => {
    const from = at;
    at += padded(rows * widthOf(type));
    return from;
  });
}

export function writeHead(bytes: Uint8Array, at: number, rows: number): void {
  new Float64Array(bytes.buffer, bytes.byteOffset + at, 1)[0] = rows;
}

/** The batches of a block, as views of it. @throws DATASET_CORRUPT where the lengths do not fit. */
export function* decodeColumns(schema: Schema, block: Uint8Array): Generator<ColumnBatch> {
  const types = Object.values(schema);
  for (let at = 0; at < block.length; ) {
    const rows = new Float64Array(block.buffer, block.byteOffset + at, 1)[0];
    const length = encodedBytes(schema, rows);
    if (!(rows > 0) || at + length > block.length)
      throw new DatasetError('DATASET_CORRUPT', `a block of columns ends early, at byte ${at}`);
    const offsets = columnOffsets(schema, rows);
    const arrays = types.map((type, c) => arrayOf(type, block.buffer, block.byteOffset + at + offsets[c], rows));
    yield new ColumnBatch(schema, arrays, rows);
    at += length;
  }
}

/** Several batches as one, in new memory; one alone is itself. */
export function concatBatches(schema: Schema, batches: readonly ColumnBatch[]): ColumnBatch {
  if (batches.length === 1) return batches[0];
  const rows = batches.reduce((sum, { length }) => sum + length, 0);
  const arrays = Object.values(schema).map((type, c) => {
    const out = arrayOf(type, rows);
    let at = 0;
    for (const batch of batches) {
      (out as Float64Array).set(batch.arrays[c] as Float64Array, at);
      at += batch.length;
    }
    return out;
  });
  return new ColumnBatch(schema, arrays, rows);
}
