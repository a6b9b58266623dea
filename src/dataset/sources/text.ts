/**
 * Text, line by line. A split begins with the line after the first line break at or behind its start (the first split with the first line) and ends with the line
 * that begins before its end, so every line is read once, whoever reads it.
 */

import { closeSync, openSync, readSync } from 'node:fs';
import { DatasetError } from '../errors.js';
import { PlanNode } from '../plan/node.js';
import type { Task } from '../plan/task.js';
import { inputFiles, type Split, splitFiles } from './files.js';

/** Small enough for lines, and what functions make of them, to stay in the processor's cache. */
const CHUNK = 32 << 10;
const LF = 10;
const LARGEST_SPLIT = 64 << 20;

export interface TextOptions {
  /** At least so many, where there is enough text. Default: what the session thinks right. */
  readonly partitions?: number;
  /** Largest piece of a file that is one partition, bytes. Default 64 MiB. */
  readonly splitBytes?: number;
}

/** Lines of a part of a file, in batches; without line breaks. `task.position` names the file and the byte where the batch begins. */
export async function* linesOf({ path, from, to }: Split, task: Task): AsyncGenerator<string[]> {
  let fd: number;
  try {
    fd = openSync(path, 'r');
  } catch (error) {
    throw new DatasetError('DATASET_INPUT', `the input ${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
  try {
    // One byte earlier, so that a split that begins with a line does not lose it.
    let offset = from === 0 ? 0 : from - 1;
    let skipping = from > 0;
    let chunk = Buffer.allocUnsafeSlow(CHUNK);
    /** Bytes at the beginning of the chunk: a line whose end has not been read. */
    let kept = 0;
    for (let isLast = false; !isLast; ) {
      const n = readChunk(fd, chunk, kept, offset, path);
      offset += n;
      let bytes = chunk.subarray(0, kept + n);
      let base = offset - bytes.length;
      if (skipping) {
        const first = bytes.indexOf(LF);
        if (first < 0 && n > 0) continue;
        bytes = bytes.subarray(first + 1);
        base += first + 1;
        skipping = false;
        if (n === 0 && first < 0) break;
      }
      let end: number;
      if (n === 0) {
        end = bytes.length;
        isLast = true;
      } else if (offset > to) {
        // The line that begins before `to` is the last one.
        const stop = bytes.indexOf(LF, Math.max(0, to - 1 - base));
        if (base >= to) break;
        if (stop < 0) end = bytes.lastIndexOf(LF) + 1;
        else {
          end = stop + 1;
          isLast = true;
        }
      } else {
        end = bytes.lastIndexOf(LF) + 1;
      }
      const textBytes = bytes[end - 1] === LF ? end - 1 : end;
      const text = bytes.toString('utf8', 0, textBytes);
      const isAscii = text.length === textBytes;
      kept = bytes.length - end;
      if (kept * 2 > chunk.length) chunk = Buffer.concat([bytes.subarray(end)], 4 * kept);
      else bytes.copy(chunk, 0, end);
      if (end === 0) continue;
      const lines = text.split('\n');
      if (text.includes('\r'))
        for (let i = 0; i < lines.length; i++) if (lines[i].endsWith('\r')) lines[i] = lines[i].slice(0, -1);
      let before = base;
      for (let at = 0; at < lines.length; at += task.batchRows) {
        const batch = lines.length <= task.batchRows ? lines : lines.slice(at, at + task.batchRows);
        task.position = `${path}, byte ${before}`;
        yield batch;
        before += lengthOf(batch, isAscii);
        await task.breathe();
      }
    }
  } finally {
    closeSync(fd);
  }
}

/** Bytes of lines in the file; carriage returns that were cut off are not counted. */
function lengthOf(lines: readonly string[], isAscii: boolean): number {
  let bytes = 0;
  for (const line of lines) bytes += (isAscii ? line.length : Buffer.byteLength(line)) + 1;
  return bytes;
}

function readChunk(fd: number, into: Buffer, at: number, offset: number, path: string): number {
  try {
    return readSync(fd, into, at, into.length - at, offset);
  } catch (error) {
    throw new DatasetError('DATASET_INPUT', `reading ${path} at byte ${offset}: ${(error as Error).message}`, { cause: error });
  }
}

/** Lines of files, as one node; `parse` makes a batch of rows of a batch of lines. */
export function textNode(
  name: string,
  paths: string | readonly string[],
  options: TextOptions,
  parse?: (lines: string[], split: Split, isFirst: boolean, task: Task) => unknown[],
): PlanNode {
  let splits: Split[] = [];
  return new PlanNode({
    name,
    words: String(paths),
    dependencies: [],
    partitions: ({ defaultPartitions }) => {
      splits = splitFiles(inputFiles(paths), options.partitions ?? defaultPartitions, options.splitBytes ?? LARGEST_SPLIT);
      return splits.length;
    },
    async *compute(partition, task) {
      let isFirst = splits[partition].from === 0;
      for await (const lines of linesOf(splits[partition], task)) {
        const rows = parse ? parse(lines, splits[partition], isFirst, task) : lines;
        isFirst = false;
        if (rows.length > 0) yield rows;
      }
    },
  });
}
