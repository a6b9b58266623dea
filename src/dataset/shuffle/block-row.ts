/**
 * The row of a map output: where each block of each run lies, as numbers. It is what a map task WRITEs into the table of every rank, and what travels in the status.
 *
 *   f64   0 attempt + 1 | 1 rank | 2 runs | 3 its own checksum | then for each run:  bytes of the key, key, 19  |  offsets, P + 1  |  checksums, P
 *
 * In the table there is room for one run; a row with more says so, and is asked for.
 */

import { checksum } from '../kernels.js';

const HEAD = 4;
/** Room for a packed key of messaging, with its length in front. */
const KEY = 20;

/** Numbers of a row. */
export function rowLength(partitions: number, runs: number): number {
  return HEAD + runs * (KEY + partitions + 1 + partitions);
}

export interface RowRun {
  /** Packed key of the memory. */
  readonly key: Uint8Array;
  /** P + 1 offsets. */
  readonly offsets: Float64Array;
  readonly checksums: Float64Array;
}

export interface BlockRow {
  readonly rank: number;
  readonly attempt: number;
  readonly runs: readonly RowRun[];
}

export function encodeRow(row: BlockRow, partitions: number): Float64Array {
  const out = new Float64Array(rowLength(partitions, row.runs.length));
  out[0] = row.attempt + 1;
  out[1] = row.rank;
  out[2] = row.runs.length;
  let at = HEAD;
  for (const { key, offsets, checksums } of row.runs) {
    if (key.length > (KEY - 1) * 8) throw new RangeError(`a key of ${key.length} bytes does not fit in the row of a map output`);
    out[at] = key.length;
    new Uint8Array(out.buffer, (at + 1) * 8, key.length).set(key);
    out.set(offsets, at + KEY);
    out.set(checksums, at + KEY + partitions + 1);
    at += KEY + 2 * partitions + 1;
  }
  out[3] = sealOf(out);
  return out;
}

function sealOf(row: Float64Array): number {
  const copy = Float64Array.from(row);
  copy[3] = 0;
  return checksum(new Uint8Array(copy.buffer));
}

/** The row, or undefined where the bytes are none, or not of this attempt at this rank. */
export function decodeRow(numbers: Float64Array, partitions: number, rank: number, attempt: number): BlockRow | undefined {
  if (numbers[0] !== attempt + 1 || numbers[1] !== rank) return undefined;
  const count = numbers[2];
  const length = rowLength(partitions, count);
  if (!(count >= 1) || numbers.length < length || numbers[3] !== sealOf(numbers.slice(0, length))) return undefined;
  const runs: RowRun[] = [];
  let at = HEAD;
  for (let r = 0; r < count; r++) {
    runs.push({
      key: new Uint8Array(numbers.slice(at + 1, at + KEY).buffer, 0, numbers[at]),
      offsets: numbers.slice(at + KEY, at + KEY + partitions + 1),
      checksums: numbers.slice(at + KEY + partitions + 1, at + KEY + 2 * partitions + 1),
    });
    at += KEY + 2 * partitions + 1;
  }
  return { rank, attempt, runs };
}
