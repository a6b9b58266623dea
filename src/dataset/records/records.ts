/** A dataset of records of fixed width: bytes that are partitioned, sorted and saved natively. `rows()` makes ordinary rows of them. */

import { Dataset } from '../dataset.js';
import type { Engine } from '../engine.js';
import { DatasetError } from '../errors.js';
import type { ActionOptions } from '../options.js';
import { oneToOne, PlanNode } from '../plan/node.js';
import { OutputFile, saveParts } from '../sinks/parts.js';
import type { InputFile } from '../sources/files.js';
import { sortRecordsNode } from './sort.js';
import { type RecordBatch, type RecordShape, recordsNode } from './source.js';

export interface RecordOptions {
  /** Bytes of a record, from 1. */
  readonly width: number;
  /** Bytes of its key, which is in front, from 1. Default: the whole record. */
  readonly key?: number;
  /** At least so many partitions. Default: what the session thinks right. */
  readonly partitions?: number;
  /** Largest piece of a file that is one partition, bytes. Default 64 MiB. */
  readonly splitBytes?: number;
}

export class Records {
  readonly #engine: Engine;
  readonly #node: PlanNode;
  readonly #shape: RecordShape;
  readonly #files: (() => readonly InputFile[]) | undefined;

  private constructor(engine: Engine, node: PlanNode, shape: RecordShape, files?: () => readonly InputFile[]) {
    this.#engine = engine;
    this.#node = node;
    this.#shape = shape;
    this.#files = files;
  }

  /** @internal */
  static read(engine: Engine, paths: string | readonly string[], options: RecordOptions): Records {
    const { width, key = width } = options;
    if (!(Number.isInteger(width) && width >= 1 && Number.isInteger(key) && key >= 1 && key <= width)) {
      throw new DatasetError('DATASET_INVALID', `a record has a width from 1 and a key within it: got ${width} and ${key}`);
    }
    const shape = { width, key };
    const memory = engine.settings.memoryBytes / 8;
    const splitBytes = options.splitBytes ?? Math.min(64 << 20, Math.max(1 << 20, memory));
    const { node, files } = recordsNode(paths, shape, { ...options, splitBytes });
    return new Records(engine, node, shape, files);
  }

  /** @internal */
  get node(): PlanNode {
    return this.#node;
  }

  /** In the order of keys, as unsigned bytes, over all partitions. Stable. */
  sortByKey(options: { readonly partitions?: number } = {}): Records {
    return new Records(this.#engine, sortRecordsNode(this.#node, this.#shape, this.#files, options.partitions), this.#shape);
  }

  /** Each record as its own bytes. */
  rows(): Dataset<Uint8Array> {
    const { width } = this.#shape;
    const parent = this.#node;
    const node = new PlanNode({
      name: 'rows',
      dependencies: [oneToOne(parent)],
      partitions: () => parent.partitions,
      async *compute(partition, task) {
        for await (const batch of parent.compute(partition, task)) {
          const { bytes, length } = batch as RecordBatch;
          for (let at = 0; at < length; at += task.batchRows) {
            const rows: Uint8Array[] = [];
            for (let i = at; i < Math.min(length, at + task.batchRows); i++) rows.push(bytes.slice(i * width, (i + 1) * width));
            yield rows;
            await task.breathe();
          }
        }
      },
    });
    return new Dataset<Uint8Array>(this.#engine, node);
  }

  count(options: ActionOptions = {}): Promise<number> {
    return this.#engine.count(this.#node, options);
  }

  /** One file per partition, in order. @throws DATASET_OUTPUT where the folder is not new or empty. */
  saveAsBinary(folder: string, options: ActionOptions = {}): Promise<void> {
    const node = this.#node;
    return saveParts(this.#engine, node, folder, '', options, async (batches, path, task) => {
      const file = new OutputFile(path);
      try {
        if (node.writesFiles) file.grew(await node.writeTo(task.partition, task, file.fd));
        else for await (const batch of batches) file.write((batch as RecordBatch).bytes);
        task.stats.bytesOut += file.length;
        task.stats.rowsOut += file.length / this.#shape.width;
        file.commit(task);
      } finally {
        file.close();
      }
    });
  }
}
