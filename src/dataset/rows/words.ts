/**
 * Counting the words of text files natively: map tasks count in a table of bytes, the tables travel by parts of the hash, and are added up. A word is what stands
 * between bytes up to 0x20 (spaces, tabs, line breaks).
 */

import { DatasetError } from '../errors.js';
import { addressOf, KERNEL, now, run } from '../kernels.js';
import { PlanNode, type ShuffleDependency } from '../plan/node.js';
import { BATCH_ROWS, type Batch, type Task } from '../plan/task.js';
import { readInto } from '../records/source.js';
import type { ShuffleWriter } from '../shuffle/manager.js';
import { inputFiles, type Split, splitFiles } from '../sources/files.js';
import type { TextOptions } from '../sources/text.js';
import { wordRange } from './word-range.js';

const LARGEST_SPLIT = 32 << 20;
/** Read behind the end of a split, to find the end of its last word. */
const BEHIND = 64 << 10;

/** A table of words, freed by `close`. */
class WordTable {
  #handle = now(KERNEL.wordsOpen)[1];

  async addText(bytes: Uint8Array): Promise<void> {
    if (bytes.length > 0) await run(KERNEL.wordsAddText, this.#handle, addressOf(bytes), bytes.length, bytes);
  }

  /** Adds the words of one of so many parts of the hash. */
  async addEntries(bytes: Uint8Array, parts: number, part: number): Promise<void> {
    try {
      if (bytes.length > 0) await run(KERNEL.wordsAddEntries, this.#handle, addressOf(bytes), bytes.length, parts, part, bytes);
    } catch (error) {
      throw new DatasetError('DATASET_CORRUPT', `a block of words is none: ${(error as Error).message}`);
    }
  }

  sizes(parts: number): Float64Array {
    const sizes = new Float64Array(parts);
    now(KERNEL.wordsSizes, this.#handle, parts, sizes);
    return sizes;
  }

  async write(parts: number, into: Uint8Array): Promise<void> {
    if (into.length > 0) await run(KERNEL.wordsWrite, this.#handle, parts, into);
  }

  get count(): number {
    return now(KERNEL.wordsCount, this.#handle)[1];
  }

  close(): void {
    if (this.#handle !== 0) now(KERNEL.wordsClose, this.#handle);
    this.#handle = 0;
  }
}

/** The words of a split, counted into a table. */
async function countSplit({ path, from, to, fileBytes }: Split, table: WordTable, task: Task): Promise<void> {
  task.position = `${path}, byte ${from}`;
  const begin = Math.max(0, from - 1);
  for (let behind = BEHIND; ; behind *= 2) {
    const end = Math.min(fileBytes, to + behind);
    const segment = task.services.pool.take(Math.max(1, end - begin), true);
    try {
      const bytes = segment.bytes.subarray(0, end - begin);
      if (bytes.length > 0) await readInto(path, begin, bytes);
      const range = wordRange(bytes, from - begin, to - begin, end === fileBytes);
      if (!range) continue; // a word longer than what was read behind
      task.stats.bytesIn += to - from;
      await table.addText(bytes.subarray(range[0], range[1]));
      return;
    } finally {
      segment.release();
    }
  }
}

class WordShuffle implements ShuffleDependency {
  readonly kind = 'shuffle';
  readonly words = 'hash by word, counted before, native';
  readonly parent: PlanNode;
  partitions: number;

  constructor(parent: PlanNode, partitions: number | undefined) {
    this.parent = parent;
    this.partitions = partitions ?? 0;
  }

  async write(writer: ShuffleWriter, task: Task): Promise<void> {
    const table = new WordTable();
    try {
      for await (const batch of this.parent.compute(task.partition, task)) {
        for (const split of batch as readonly Split[]) await countSplit(split, table, task);
      }
      const sizes = table.sizes(this.partitions);
      const to = writer.run(sizes.reduce((sum, bytes) => sum + bytes, 0));
      await table.write(this.partitions, to.bytes);
      to.seal(sizes);
      task.stats.rowsOut += table.count;
    } finally {
      table.close();
    }
  }
}

/** [word, count] pairs of files. */
export function countWordsNode(
  paths: string | readonly string[],
  options: TextOptions,
  partitions: number | undefined,
): PlanNode {
  let splits: Split[] = [];
  const source = new PlanNode({
    name: 'textFile',
    words: String(paths),
    dependencies: [],
    partitions: ({ defaultPartitions, memoryBytes }) => {
      const largest = options.splitBytes ?? Math.min(LARGEST_SPLIT, memoryBytes / 16);
      splits = splitFiles(inputFiles(paths), options.partitions ?? defaultPartitions, largest);
      return splits.length;
    },
    async *compute(partition) {
      yield [splits[partition]];
    },
  });
  const dependency = new WordShuffle(source, partitions);
  return new PlanNode({
    name: 'countWords',
    dependencies: [dependency],
    partitions: ({ defaultPartitions }) => {
      dependency.partitions ||= defaultPartitions;
      return dependency.partitions;
    },
    async *compute(partition, task): AsyncIterable<Batch> {
      // What is too much for memory is counted in passes, each for a part of the words.
      const passes = Math.max(1, Math.ceil((2 * task.services.sizeOf(dependency)) / task.services.memory.share));
      const parts = passes > 1 ? dependency.partitions * passes : 1;
      for (let pass = 0; pass < passes; pass++) {
        const table = new WordTable();
        try {
          for await (const block of task.services.fetch(task, dependency, partition)) {
            try {
              await table.addEntries(block.bytes, parts, partition * passes + pass);
            } finally {
              block.release();
            }
          }
          const out = new Uint8Array(table.sizes(1)[0]);
          await table.write(1, out);
          yield* entries(out);
        } finally {
          table.close();
        }
      }
    },
  });
}

/** Entries {u32 length, u32 0, u64 count, bytes padded to 8} as rows. */
function* entries(bytes: Uint8Array): Generator<[string, number][]> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  let batch: [string, number][] = [];
  for (let at = 0; at < buffer.length; ) {
    const length = buffer.readUInt32LE(at);
    batch.push([buffer.toString('utf8', at + 16, at + 16 + length), Number(buffer.readBigUInt64LE(at + 8))]);
    at += 16 + ((length + 7) & ~7);
    if (batch.length < BATCH_ROWS) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
