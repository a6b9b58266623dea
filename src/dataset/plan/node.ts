/**
 * The plan: a graph of nodes that every rank builds alike, so functions need not travel. A node says how many partitions it has, what it depends on, and how a
 * partition is computed from those. Narrow dependencies are computed inside the same task; a shuffle ends a stage.
 *
 * ```
 *   textFile ──narrow──> flatMap ──narrow──> map ══shuffle══> reduceByKey ──narrow──> filter
 *   └──────────────── stage 0 ─────────────────┘              └───────── stage 1 ─────────┘
 * ```
 */

import { DatasetError } from '../errors.js';
import type { ShuffleWriter } from '../shuffle/manager.js';
import type { Batch, Task } from './task.js';

/** Partitions of the parent that a partition is made of. */
export interface NarrowDependency {
  readonly kind: 'narrow';
  readonly parent: PlanNode;
  of(partition: number): readonly number[];
}

export interface ShuffleDependency {
  readonly kind: 'shuffle';
  readonly parent: PlanNode;
  /** How many partitions come out. */
  readonly partitions: number;
  /** 'hash by key, combined', 'range by key, 8 splitters': for explain(). */
  readonly words: string;
  /** Writes the output of one map task: the task's partition of the parent. */
  write(writer: ShuffleWriter, task: Task): Promise<void>;
  /** Set when a job is made of the plan: the number of the shuffle within it. */
  number?: number;
}

export type Dependency = NarrowDependency | ShuffleDependency;

/** What a node can run before its partitions are known: jobs of its own, such as a sample. */
export interface Preparation {
  /** Runs a job over a node on all ranks; `finish` makes a partition's part of the result. */
  run<R>(node: PlanNode, finish: (batches: AsyncIterable<Batch>, task: Task) => Promise<R>): Promise<R[]>;
  /** Partitions that a shuffle gets where nobody says how many. */
  readonly defaultPartitions: number;
  /** Ranks. */
  readonly size: number;
  /** What a rank may hold. */
  readonly memoryBytes: number;
}

/** What a node does to one row of its parent; a chain of such nodes runs as one loop. */
export interface RowOperator {
  readonly kind: 'map' | 'filter' | 'flatMap';
  functionFor(partition: number): (row: unknown) => unknown;
}

export interface NodeInit {
  readonly name: string;
  readonly operator?: RowOperator;
  /** Details for explain(). */
  readonly words?: string;
  readonly dependencies: readonly Dependency[];
  /** Partitions, or how to find out; called once, after those of the dependencies. */
  readonly partitions: number | ((preparation: Preparation) => number | Promise<number>);
  compute(partition: number, task: Task): AsyncIterable<Batch>;
  /** Writes a partition to a file by itself, where that saves a copy; returns its bytes. */
  writeTo?(partition: number, task: Task, fd: number): Promise<number>;
  /** Ranks that have the partition's data at hand. */
  preferred?(partition: number, size: number): readonly number[];
}

let nodes = 0;

export class PlanNode {
  readonly id: number;
  readonly name: string;
  readonly words: string;
  readonly dependencies: readonly Dependency[];
  readonly operator: RowOperator | undefined;
  /** Where the user called for it. */
  readonly site: string;
  /** Keep computed partitions in memory. */
  isCached = false;
  readonly #init: NodeInit;
  #partitions: number | undefined;
  #preparing: Promise<void> | undefined;

  constructor(init: NodeInit) {
    this.id = nodes++;
    this.#init = init;
    this.name = init.name;
    this.words = init.words ?? '';
    this.dependencies = init.dependencies;
    this.operator = init.operator;
    this.site = callSite();
    if (typeof init.partitions === 'number') this.#partitions = init.partitions;
  }

  /** Known after `prepare`. */
  get partitions(): number {
    if (this.#partitions === undefined) throw new DatasetError('DATASET_INVALID', `${this.name} has not been prepared yet`);
    return this.#partitions;
  }

  get isPrepared(): boolean {
    return this.#partitions !== undefined && this.dependencies.every(({ parent }) => parent.isPrepared);
  }

  /** Finds out how many partitions there are, here and above. All ranks do it in the same order. */
  async prepare(preparation: Preparation): Promise<void> {
    this.#preparing ??= this.#prepare(preparation);
    try {
      await this.#preparing;
    } catch (error) {
      this.#preparing = undefined;
      throw error;
    }
  }

  async #prepare(preparation: Preparation): Promise<void> {
    for (const { parent } of this.dependencies) await parent.prepare(preparation);
    const { partitions } = this.#init;
    this.#partitions ??= typeof partitions === 'number' ? partitions : await partitions(preparation);
  }

  get writesFiles(): boolean {
    return this.#init.writeTo !== undefined && !this.isCached;
  }

  async writeTo(partition: number, task: Task, fd: number): Promise<number> {
    return (await this.#init.writeTo?.(partition, task, fd)) ?? 0;
  }

  preferred(partition: number, size: number): readonly number[] {
    return this.#init.preferred?.(partition, size) ?? [];
  }

  /** The batches of a partition; out of the cache where it is there. */
  compute(partition: number, task: Task): AsyncIterable<Batch> {
    if (!this.isCached) return this.#init.compute(partition, task);
    const cached = task.services.cached(this, partition);
    return cached ? fromArray(cached) : this.#computeAndKeep(partition, task);
  }

  async *#computeAndKeep(partition: number, task: Task): AsyncIterable<Batch> {
    const batches: Batch[] = [];
    let bytes = 0;
    for await (const batch of this.#init.compute(partition, task)) {
      bytes += estimateBytes(batch);
      if (bytes <= task.services.memory.waiting) batches.push(batch);
      else batches.length = 0; // it will not be kept
      yield batch;
    }
    if (task.services.keep(this, partition, batches, bytes)) task.kept.push([this.id, partition]);
  }
}

async function* fromArray(batches: readonly Batch[]): AsyncIterable<Batch> {
  yield* batches;
}

/** A guess at what a batch holds, bytes: from its first rows, so that it costs nothing and is the same everywhere. */
export function estimateBytes(batch: Batch): number {
  if ('byteLength' in batch) return batch.byteLength as number;
  if (!Array.isArray(batch)) return 0;
  const count = Math.min(8, batch.length);
  let bytes = 0;
  for (let i = 0; i < count; i++) bytes += estimateValue(batch[Math.floor((i * batch.length) / count)], 3);
  return count === 0 ? 0 : Math.ceil((bytes / count) * batch.length);
}

export function estimateValue(value: unknown, depth = 3): number {
  switch (typeof value) {
    case 'string':
      return 24 + value.length;
    case 'number':
    case 'boolean':
    case 'undefined':
      return 16;
    case 'object': {
      if (value === null) return 8;
      if (ArrayBuffer.isView(value)) return 96 + value.byteLength;
      if (depth === 0) return 64;
      const fields = Array.isArray(value) ? value : Object.values(value);
      let bytes = 40;
      const count = Math.min(16, fields.length);
      for (let i = 0; i < count; i++) bytes += 8 + estimateValue(fields[i], depth - 1);
      return count < fields.length ? (bytes / count) * fields.length : bytes;
    }
    default:
      return 32;
  }
}

/** The line of the user's program: the first one that is not of this package. */
export function callSite(): string {
  const { stack = '' } = new Error('site');
  for (const line of stack.split('\n').slice(1)) {
    if (/[/\\](src|dist[/\\]src)[/\\]dataset[/\\]|node:internal/.test(line)) continue;
    return line.replace(/^\s*at (async )?/, '').replace(/file:\/\//, '');
  }
  return '';
}

/** A dependency on the same partition of one parent. */
export function oneToOne(parent: PlanNode): NarrowDependency {
  return { kind: 'narrow', parent, of: (partition) => [partition] };
}
