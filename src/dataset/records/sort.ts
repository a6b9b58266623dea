/**
 * Records sorted over all partitions: splitters from a sample of the keys, a native partitioning in each map task straight into memory that peers read, a native
 * sort of each partition behind the shuffle.
 *
 * ```
 *   file ──read──> buffer ──partition──> run (registered) ──READ──> partition, whole ──sort──> file            four copies of every byte, and the write
 * ```
 * A partition that is too large for the memory bound is sorted in pieces, which go to a file and are merged from there.
 */

import { closeSync, writeSync } from 'node:fs';
import { loadAddon } from '../../native/load.js';
import { DatasetError, systemError } from '../errors.js';
import { addressOf, KERNEL, run } from '../kernels.js';
import type { Segment } from '../memory/segment-pool.js';
import { PlanNode, type Preparation, type ShuffleDependency } from '../plan/node.js';
import type { Batch, Task } from '../plan/task.js';
import type { ShuffleWriter } from '../shuffle/manager.js';
import type { InputFile } from '../sources/files.js';
import { RecordBatch, type RecordShape, readInto } from './source.js';

/** A partition of about this size sorts in the caches. */
const IDEAL_PARTITION = 32 << 20;
const SAMPLES = 4096;
const OUT_CHUNK = 8 << 20;
/** Runs of one merge; native/dataset-table.c takes no more. */
const MOST_RUNS = 256;

/** Keys of records at even distances over all files. */
async function sampleFiles(files: readonly InputFile[], { width, key }: RecordShape): Promise<Uint8Array[]> {
  const records = files.reduce((sum, { bytes }) => sum + bytes / width, 0);
  const every = Math.max(1, Math.floor(records / SAMPLES));
  const keys: Uint8Array[] = [];
  let first = 0;
  for (const { path, bytes } of files) {
    const count = bytes / width;
    for (let at = (every - (first % every)) % every; at < count; at += every) {
      const one = new Uint8Array(key);
      await readInto(path, at * width, one);
      keys.push(one);
    }
    first += count;
  }
  return keys;
}

async function sampleBatches(batches: AsyncIterable<Batch>, { width, key }: RecordShape): Promise<Uint8Array[]> {
  const keys: Uint8Array[] = [];
  for await (const batch of batches) {
    const { bytes, length } = batch as RecordBatch;
    const every = Math.max(1, Math.floor(length / 256));
    for (let i = 0; i < length; i += every) keys.push(bytes.slice(i * width, i * width + key));
  }
  return keys;
}

/** parts - 1 keys at even distances of a sample. */
function splittersOf(keys: Uint8Array[], parts: number, key: number): Uint8Array {
  keys.sort(Buffer.compare);
  const out = new Uint8Array((parts - 1) * key);
  for (let i = 1; i < parts; i++)
    out.set(keys[Math.floor((i * keys.length) / parts)] ?? new Uint8Array(key).fill(255), (i - 1) * key);
  return out;
}

class RecordShuffle implements ShuffleDependency {
  readonly kind = 'shuffle';
  readonly parent: PlanNode;
  readonly words = 'range by sampled splitters, native';
  readonly #shape: RecordShape;
  partitions = 1;
  splitters: Uint8Array = new Uint8Array(0);

  constructor(parent: PlanNode, shape: RecordShape) {
    this.parent = parent;
    this.#shape = shape;
  }

  async write(writer: ShuffleWriter, task: Task): Promise<void> {
    const { width, key } = this.#shape;
    let any = false;
    for await (const batch of this.parent.compute(task.partition, task)) {
      const { bytes, length } = batch as RecordBatch;
      const to = writer.run(bytes.length);
      const counts = new Float64Array(this.partitions);
      const ids = new Uint16Array(length);
      await run(KERNEL.recordsPartition, bytes, length, width, key, this.splitters, this.partitions, ids, counts, to.bytes);
      to.seal(counts.map((count) => count * width));
      task.stats.rowsOut += length;
      any = true;
    }
    if (!any) writer.run(0).seal(new Float64Array(this.partitions));
  }
}

export function sortRecordsNode(
  parent: PlanNode,
  shape: RecordShape,
  files: (() => readonly InputFile[]) | undefined,
  partitions: number | undefined,
): PlanNode {
  const { width, key } = shape;
  const dependency = new RecordShuffle(parent, shape);
  const decide = async (preparation: Preparation): Promise<number> => {
    let keys: Uint8Array[];
    let count = partitions;
    if (files) {
      const bytes = files().reduce((sum, one) => sum + one.bytes, 0);
      count ??= Math.max(
        preparation.size,
        Math.min(4096, Math.ceil(bytes / Math.min(IDEAL_PARTITION, preparation.memoryBytes / 8))),
      );
      keys = await sampleFiles(files(), shape);
    } else {
      count ??= preparation.defaultPartitions;
      keys = (await preparation.run(parent, (batches) => sampleBatches(batches, shape))).flat();
    }
    dependency.partitions = count;
    dependency.splitters = splittersOf(keys, count, key);
    return count;
  };
  return new PlanNode({
    name: 'sortByKey',
    words: `records of ${width} bytes, keys of ${key}`,
    dependencies: [dependency],
    partitions: decide,
    async *compute(partition, task): AsyncIterable<Batch> {
      const sorter = new PartitionSort(dependency, shape, partition, task);
      try {
        yield* sorter.batches();
      } finally {
        sorter.close();
      }
    },
    async writeTo(partition, task, fd) {
      const sorter = new PartitionSort(dependency, shape, partition, task);
      try {
        return await sorter.writeTo(fd);
      } finally {
        sorter.close();
      }
    },
  });
}

interface Spill {
  readonly fd: number;
  /** Where each piece ends. */
  readonly ends: number[];
  mapping: number;
  address: number;
}

/** One partition behind the shuffle. */
class PartitionSort {
  readonly #dependency: RecordShuffle;
  readonly #shape: RecordShape;
  readonly #partition: number;
  readonly #task: Task;
  readonly #bytes: number;
  /** Sorted pieces in a file, where they did not fit. */
  #spill: Spill | undefined;

  constructor(dependency: RecordShuffle, shape: RecordShape, partition: number, task: Task) {
    this.#dependency = dependency;
    this.#shape = shape;
    this.#partition = partition;
    this.#task = task;
    this.#bytes = task.services.sizeOf(dependency);
  }

  /** The sort holds the records and 32 bytes for each beside them. */
  #footprint(bytes: number): number {
    return bytes + (bytes / this.#shape.width) * 32;
  }

  get #fits(): boolean {
    const { memory } = this.#task.services;
    return this.#footprint(this.#bytes) <= Math.max(memory.free, memory.limit / 4);
  }

  async #fetchWhole(): Promise<Segment> {
    const segment = this.#task.services.pool.take(this.#bytes, true);
    try {
      for await (const block of this.#task.services.fetch(this.#task, this.#dependency, this.#partition, segment.bytes))
        block.release();
    } catch (error) {
      segment.release();
      throw error;
    }
    return segment;
  }

  async writeTo(fd: number): Promise<number> {
    const { width, key } = this.#shape;
    if (this.#bytes === 0) return 0;
    if (this.#fits) {
      const segment = await this.#fetchWhole();
      try {
        await run(KERNEL.recordsSort, segment.bytes, this.#bytes / width, width, key, 0, fd, 0);
      } catch (error) {
        throw systemError('writing a sorted partition', error);
      } finally {
        segment.release();
      }
      return this.#bytes;
    }
    let at = 0;
    for await (const { bytes } of this.#merge()) {
      try {
        for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done, bytes.length - done, at + done);
      } catch (error) {
        throw systemError('writing a sorted partition', error);
      }
      at += bytes.length;
    }
    return at;
  }

  async *batches(): AsyncGenerator<RecordBatch> {
    const { width, key } = this.#shape;
    if (this.#bytes === 0) return;
    if (!this.#fits) {
      yield* this.#merge();
      return;
    }
    const { pool } = this.#task.services;
    const segment = await this.#fetchWhole();
    let out: Segment | undefined;
    try {
      out = pool.take(this.#bytes, true);
      await run(KERNEL.recordsSort, segment.bytes, this.#bytes / width, width, key, out.bytes, -1, 0);
      segment.release();
      yield new RecordBatch(out.bytes, width);
    } finally {
      segment.release();
      out?.release();
    }
  }

  /** Sorts in pieces of what the bound allows, to a file. */
  async #spillPieces(): Promise<void> {
    const { width, key } = this.#shape;
    const { services, stats } = this.#task;
    const { disk, memory, pool } = services;
    disk.take(this.#bytes);
    const fd = disk.open();
    this.#spill = { fd, ends: [], mapping: 0, address: 0 };
    disk.reserve(fd, 0, this.#bytes);
    const share = Math.max(memory.limit / 4, this.#bytes / (MOST_RUNS - 1));
    const most = Math.floor((share * (width / (width + 32))) / width) * width;
    const piece = pool.take(Math.min(most, this.#bytes), true);
    let filled = 0;
    let at = 0;
    const flush = async () => {
      try {
        await run(KERNEL.recordsSort, piece.bytes, filled / width, width, key, 0, fd, at);
      } catch (error) {
        throw systemError(`spilling to ${disk.path}`, error);
      }
      at += filled;
      this.#spill?.ends.push(at);
      stats.spills++;
      stats.spilledBytes += filled;
      filled = 0;
    };
    try {
      for await (const block of services.fetch(this.#task, this.#dependency, this.#partition)) {
        try {
          for (let from = 0; from < block.bytes.length; ) {
            const n = Math.min(block.bytes.length - from, piece.bytes.length - filled);
            piece.bytes.set(block.bytes.subarray(from, from + n), filled);
            filled += n;
            from += n;
            if (filled === piece.bytes.length) await flush();
          }
        } finally {
          block.release();
        }
      }
      if (filled > 0) await flush();
    } finally {
      piece.release();
    }
    const mapped = loadAddon().map(fd, 0, this.#bytes, 0, 0);
    if (typeof mapped === 'number') throw new DatasetError('DATASET_MEMORY', 'sorted pieces cannot be mapped');
    [this.#spill.mapping, this.#spill.address] = mapped;
  }

  async *#merge(): AsyncGenerator<RecordBatch> {
    const { width, key } = this.#shape;
    await this.#spillPieces();
    const { ends, address } = this.#spill as Spill;
    const runs = new Float64Array(ends.length * 2);
    for (const [i, end] of ends.entries()) {
      runs[2 * i] = address + (ends[i - 1] ?? 0);
      runs[2 * i + 1] = address + end;
    }
    const rows = Math.max(1, Math.floor(OUT_CHUNK / width));
    const out = this.#task.services.pool.take(rows * width, true);
    try {
      for (let left = this.#bytes / width; left > 0; ) {
        const done = (
          await run(KERNEL.recordsMerge, addressOf(runs), ends.length, width, key, out.bytes, Math.min(rows, left), runs)
        )[1];
        if (done === 0) throw new DatasetError('DATASET_CORRUPT', 'sorted pieces ended early');
        left -= done;
        yield new RecordBatch(out.bytes.subarray(0, done * width), width);
        this.#task.signal.throwIfAborted();
      }
    } finally {
      out.release();
    }
  }

  close(): void {
    if (!this.#spill) return;
    if (this.#spill.mapping !== 0) loadAddon().stop(this.#spill.mapping);
    closeSync(this.#spill.fd);
    this.#task.services.disk.budget.give(this.#bytes);
    this.#spill = undefined;
  }
}
