/** Records of fixed width in files, as bytes: no object is made of them. */

import { closeSync, openSync } from 'node:fs';
import { DatasetError } from '../errors.js';
import { KERNEL, run } from '../kernels.js';
import type { Segment } from '../memory/segment-pool.js';
import { PlanNode } from '../plan/node.js';
import { type InputFile, inputFiles, type Split, splitFiles } from '../sources/files.js';

/** Bytes of records, one behind the other. */
export class RecordBatch {
  readonly bytes: Uint8Array;
  readonly width: number;
  readonly length: number;

  constructor(bytes: Uint8Array, width: number) {
    this.bytes = bytes;
    this.width = width;
    this.length = bytes.length / width;
  }

  get byteLength(): number {
    return this.bytes.length;
  }
}

export interface RecordShape {
  /** Bytes of a record. */
  readonly width: number;
  /** Its first bytes, by which records are ordered. */
  readonly key: number;
}

const LARGEST_SPLIT = 64 << 20;

function openInput(path: string): number {
  try {
    return openSync(path, 'r');
  } catch (error) {
    throw new DatasetError('DATASET_INPUT', `the input ${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

/** Reads a part of a file into memory. @throws DATASET_INPUT. */
export async function readInto(path: string, from: number, into: Uint8Array): Promise<void> {
  const fd = openInput(path);
  try {
    const got = (await run(KERNEL.read, fd, into, into.length, from))[1];
    if (got !== into.length) {
      throw new DatasetError('DATASET_INPUT', `${path} ends at byte ${from + got}: it has become shorter while it was read`);
    }
  } catch (error) {
    if (DatasetError.is(error)) throw error;
    throw new DatasetError('DATASET_INPUT', `reading ${path} at byte ${from}: ${(error as Error).message}`, { cause: error });
  } finally {
    closeSync(fd);
  }
}

export function recordsNode(
  paths: string | readonly string[],
  { width }: RecordShape,
  options: { readonly partitions?: number; readonly splitBytes?: number },
): { node: PlanNode; files: () => readonly InputFile[] } {
  let splits: Split[] = [];
  let files: InputFile[] = [];
  const node = new PlanNode({
    name: 'binaryRecords',
    words: `${String(paths)}, ${width} bytes each`,
    dependencies: [],
    partitions: ({ defaultPartitions }) => {
      files = inputFiles(paths).filter(({ bytes }) => bytes > 0);
      for (const { path, bytes } of files) {
        if (bytes % width !== 0) {
          throw new DatasetError(
            'DATASET_INPUT',
            `${path} has ${bytes} bytes, which is no multiple of the ${width} bytes of a record: ${bytes % width} are left over`,
          );
        }
      }
      splits = splitFiles(files, options.partitions ?? defaultPartitions, options.splitBytes ?? LARGEST_SPLIT, width);
      return splits.length;
    },
    async *compute(partition, task) {
      const { path, from, to } = splits[partition];
      task.position = `${path}, byte ${from}`;
      const most = Math.max(width, Math.floor(Math.min(LARGEST_SPLIT, task.services.memory.limit / 8) / width) * width);
      let segment: Segment | undefined;
      try {
        for (let at = from; at < to; at += most) {
          const bytes = Math.min(most, to - at);
          if (!segment || segment.bytes.length !== bytes) {
            segment?.release();
            segment = task.services.pool.take(bytes, true);
          }
          await readInto(path, at, segment.bytes);
          task.stats.bytesIn += bytes;
          yield new RecordBatch(segment.bytes, width);
          task.signal.throwIfAborted();
        }
      } finally {
        segment?.release();
      }
    },
  });
  return { node, files: () => files };
}
