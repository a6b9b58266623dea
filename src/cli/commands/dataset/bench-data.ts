/** Inputs of the dataset benches: the same rows for everybody, in the form that each reads best. */

import { closeSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { arrow } from '../../../dataset/sources/arrow-library.js';

/** The key of a row: spread over all keys, the same formula in SQL (keySql). */
function keyOf(row: number, keys: number): number {
  return (Math.imul(row, 0x9e3779b1) >>> 0) % keys;
}

/** The same in SQL of DuckDB and Spark. */
export function keySql(row: string, keys: number): string {
  return `CAST(((${row} * 2654435761) % 4294967296) % ${keys} AS INTEGER)`;
}

function writeTable(path: string, columns: Record<string, Int32Array | Float64Array>): void {
  const { tableFromArrays, tableToIPC } = arrow();
  writeFileSync(path, tableToIPC(tableFromArrays(columns), 'file'));
}

/** Rows {key: i32, value: f64} as Arrow files, one per rank. */
export function writeRows(folder: string, rows: number, keys: number, files: number): void {
  mkdirSync(folder, { recursive: true });
  for (let file = 0; file < files; file++) {
    const from = Math.floor((file * rows) / files);
    const to = Math.floor(((file + 1) * rows) / files);
    const key = new Int32Array(to - from);
    const value = new Float64Array(to - from);
    for (let i = from; i < to; i++) {
      key[i - from] = keyOf(i, keys);
      value[i - from] = i % 1000;
    }
    writeTable(join(folder, `rows-${file}.arrow`), { key, value });
  }
}

/** Rows {key, weight} with every key once. */
export function writeSmall(folder: string, keys: number, files: number): void {
  mkdirSync(folder, { recursive: true });
  for (let file = 0; file < files; file++) {
    const from = Math.floor((file * keys) / files);
    const to = Math.floor(((file + 1) * keys) / files);
    const key = Int32Array.from({ length: to - from }, (_, i) => from + i);
    const weight = Float64Array.from(key, (k) => k / 2);
    writeTable(join(folder, `small-${file}.arrow`), { key, weight });
  }
}

/** Text of about so many bytes: words of a vocabulary of 50,000, frequent ones far more often than rare ones. */
export function writeText(folder: string, bytes: number): void {
  mkdirSync(folder, { recursive: true });
  const vocabulary = Array.from({ length: 50_000 }, (_, i) => i.toString(36).padStart(2 + (i % 7), 'abcdefg'));
  const fd = openSync(join(folder, 'text.txt'), 'w');
  let state = 1;
  const random = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  try {
    for (let written = 0; written < bytes; ) {
      const lines: string[] = [];
      for (let l = 0; l < 5000; l++) {
        const words: string[] = [];
        for (let w = 0; w < 12; w++) words.push(vocabulary[Math.floor(50_000 * random() ** 4)]);
        lines.push(words.join(' '));
      }
      const chunk = Buffer.from(`${lines.join('\n')}\n`);
      writeFileSync(fd, chunk);
      written += chunk.length;
    }
  } finally {
    closeSync(fd);
  }
}
