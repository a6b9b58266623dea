/**
 * A dataset of rows: any JavaScript values, in partitions, computed when an action asks for it.
 *
 * Transformations return a new dataset at once and do nothing else; actions run a job on all ranks and return the same value on every rank. Functions run where a
 * partition is computed, perhaps more than once (a rank died, a task was slow), so they should not have effects; accumulators count them once all the same.
 */

import { Columns } from './columns/columns.js';
import { columnsOfRowsNode } from './columns/from-rows.js';
import type { Type } from './columns/schema.js';
import type { Engine } from './engine.js';
import { DatasetError } from './errors.js';
import { drawPlan } from './explain/draw.js';
import { explainPlan, type PlanExplanation } from './explain/explain.js';
import type { ActionOptions } from './options.js';
import { callSite, type PlanNode } from './plan/node.js';
import type { Batch, Task } from './plan/task.js';
import { decodeRows, encodeRows } from './rows/codec.js';
import { compareKeys } from './rows/hash.js';
import { joinNode } from './rows/join.js';
import { coalesceNode, filterNode, flatMapNode, mapNode, mapPartitionsNode, sampleNode, unionNode } from './rows/narrow.js';
import { aggregateNode, cogroupNode, repartitionNode, sortNode } from './rows/shuffled.js';
import { UserFailure } from './scheduler/failure.js';
import { saveArrowRows, saveParquetRows } from './sinks/columnar.js';
import { type CsvSaveOptions, csvFormat, saveText } from './sinks/text.js';

type Rows<T> = AsyncIterable<readonly T[]>;

export interface SortOptions<K> {
  /** Largest first. Default false. */
  readonly descending?: boolean;
  /** Default: numbers by value, text by code unit, arrays element by element. */
  readonly compare?: (a: K, b: K) => number;
  /** Default: as the session. */
  readonly partitions?: number;
}

function whole(name: string, value: number, low = 1): number {
  if (!Number.isInteger(value) || value < low) {
    throw new DatasetError('DATASET_INVALID', `${name} is a whole number from ${low}: got ${value}`);
  }
  return value;
}

function count(partitions: number | undefined): number | undefined {
  return partitions === undefined ? undefined : whole('partitions', partitions);
}

export class Dataset<T> {
  readonly #engine: Engine;
  readonly #node: PlanNode;

  /** @internal Made by a session. */
  constructor(engine: Engine, node: PlanNode) {
    this.#engine = engine;
    this.#node = node;
  }

  #of<U>(node: PlanNode): Dataset<U> {
    return new Dataset<U>(this.#engine, node);
  }

  /** @internal */
  get node(): PlanNode {
    return this.#node;
  }

  /** @internal */
  get engine(): Engine {
    return this.#engine;
  }

  // ---- transformations ----

  map<U>(f: (row: T) => U): Dataset<U> {
    return this.#of(mapNode(this.#node, f as (row: unknown) => unknown));
  }

  filter<S extends T>(f: (row: T) => row is S): Dataset<S>;
  filter(f: (row: T) => unknown): Dataset<T>;
  filter(f: (row: T) => unknown): Dataset<T> {
    return this.#of(filterNode(this.#node, f as (row: unknown) => unknown));
  }

  flatMap<U>(f: (row: T) => Iterable<U>): Dataset<U> {
    return this.#of(flatMapNode(this.#node, f as (row: unknown) => Iterable<unknown>));
  }

  /** The function sees a whole partition, row by row, and yields the rows of the result. */
  mapPartitions<U>(f: (rows: AsyncIterable<T>, partition: number) => Iterable<U> | AsyncIterable<U>): Dataset<U> {
    return this.#of(mapPartitionsNode(this.#node, f as Parameters<typeof mapPartitionsNode>[1]));
  }

  keyBy<K>(f: (row: T) => K): Dataset<[K, T]> {
    return this.#of(mapNode(this.#node, (row) => [f(row as T), row], 'keyBy'));
  }

  /** Values of pairs, keys kept. */
  mapValues<K, V, U>(this: Dataset<readonly [K, V]>, f: (value: V) => U): Dataset<[K, U]> {
    return this.#of(mapNode(this.#node, (row) => [(row as [K, V])[0], f((row as [K, V])[1])], 'mapValues'));
  }

  keys<K, V>(this: Dataset<readonly [K, V]>): Dataset<K> {
    return this.#of(mapNode(this.#node, (row) => (row as [K, V])[0], 'keys'));
  }

  values<K, V>(this: Dataset<readonly [K, V]>): Dataset<V> {
    return this.#of(mapNode(this.#node, (row) => (row as [K, V])[1], 'values'));
  }

  /** One pair per key: its values combined by `f`, which must be associative. Combined before the shuffle, too. */
  reduceByKey<K, V>(this: Dataset<readonly [K, V]>, f: (a: V, b: V) => V, partitions?: number): Dataset<[K, V]> {
    return this.#of(
      aggregateNode<V, V>(this.#node, {
        name: 'reduceByKey',
        combiner: { create: (value) => value, add: f, merge: f, grows: false },
        mapSide: true,
        partitions: count(partitions),
      }),
    );
  }

  /** One pair per key: `add` folds values into an accumulated one that begins with `zero()`, `merge` joins accumulated ones. */
  aggregateByKey<K, V, A>(
    this: Dataset<readonly [K, V]>,
    zero: () => A,
    add: (accumulated: A, value: V) => A,
    merge: (a: A, b: A) => A,
    partitions?: number,
  ): Dataset<[K, A]> {
    return this.#of(
      aggregateNode<V, A>(this.#node, {
        name: 'aggregateByKey',
        combiner: { create: (value) => add(zero(), value), add, merge, grows: true },
        mapSide: true,
        partitions: count(partitions),
      }),
    );
  }

  /** All values of a key together. One key's values must fit in memory; reduceByKey moves less where it will do. */
  groupByKey<K, V>(this: Dataset<readonly [K, V]>, partitions?: number): Dataset<[K, V[]]> {
    return this.#of(
      aggregateNode<V, V[]>(this.#node, {
        name: 'groupByKey',
        combiner: {
          create: (value) => [value],
          add: (values, value) => {
            values.push(value);
            return values;
          },
          merge: (a, b) => {
            for (const value of b) a.push(value);
            return a;
          },
          grows: true,
        },
        mapSide: false,
        partitions: count(partitions),
      }),
    );
  }

  /** For every key of either: its values here, and its values there. */
  cogroup<K, V, W>(
    this: Dataset<readonly [K, V]>,
    other: Dataset<readonly [K, W]>,
    partitions?: number,
  ): Dataset<[K, [V[], W[]]]> {
    return this.#of(cogroupNode([this.#node, other.#node], count(partitions)));
  }

  /** Pairs of values with the same key. */
  join<K, V, W>(this: Dataset<readonly [K, V]>, other: Dataset<readonly [K, W]>, partitions?: number): Dataset<[K, [V, W]]> {
    return this.#of(joinNode(this.#node, other.#node, count(partitions), { left: false, right: false }, 'join'));
  }

  /** As join; what has no partner there comes with undefined. */
  leftJoin<K, V, W>(
    this: Dataset<readonly [K, V]>,
    other: Dataset<readonly [K, W]>,
    partitions?: number,
  ): Dataset<[K, [V, W | undefined]]> {
    return this.#of(joinNode(this.#node, other.#node, count(partitions), { left: true, right: false }, 'leftJoin'));
  }

  /** As join; what has no partner here comes with undefined. */
  rightJoin<K, V, W>(
    this: Dataset<readonly [K, V]>,
    other: Dataset<readonly [K, W]>,
    partitions?: number,
  ): Dataset<[K, [V | undefined, W]]> {
    return this.#of(joinNode(this.#node, other.#node, count(partitions), { left: false, right: true }, 'rightJoin'));
  }

  fullJoin<K, V, W>(
    this: Dataset<readonly [K, V]>,
    other: Dataset<readonly [K, W]>,
    partitions?: number,
  ): Dataset<[K, [V | undefined, W | undefined]]> {
    return this.#of(joinNode(this.#node, other.#node, count(partitions), { left: true, right: true }, 'fullJoin'));
  }

  /** In order over all partitions. Reads its input once more before, for a sample of the keys. */
  sortBy<K>(key: (row: T) => K, options: SortOptions<K> = {}): Dataset<T> {
    return this.#of(
      sortNode(this.#node, {
        key: key as (row: unknown) => unknown,
        compare: options.compare as ((a: unknown, b: unknown) => number) | undefined,
        descending: options.descending ?? false,
        partitions: count(options.partitions),
      }),
    );
  }

  sortByKey<K, V>(this: Dataset<readonly [K, V]>, options: SortOptions<K> = {}): Dataset<[K, V]> {
    return this.sortBy((row) => row[0], options) as unknown as Dataset<[K, V]>;
  }

  /** Every value once; objects are equal when their contents are. */
  distinct(partitions?: number): Dataset<T> {
    const pairs = mapNode(this.#node, (row) => [row, 0], 'distinct');
    const first = (a: number) => a;
    const reduced = aggregateNode<number, number>(pairs, {
      name: 'distinct',
      combiner: { create: first, add: first, merge: first, grows: false },
      mapSide: true,
      partitions: count(partitions),
    });
    return this.#of(mapNode(reduced, (row) => (row as [T, number])[0], 'distinct'));
  }

  /** All rows of this, then all rows of the others. */
  union(...others: Dataset<T>[]): Dataset<T> {
    return this.#of(unionNode([this.#node, ...others.map((other) => other.#node)]));
  }

  /** Rows spread evenly over so many partitions, by a shuffle. */
  repartition(partitions: number): Dataset<T> {
    return this.#of(repartitionNode(this.#node, whole('partitions', partitions)));
  }

  /** Fewer partitions, without a shuffle. */
  coalesce(partitions: number): Dataset<T> {
    return this.#of(coalesceNode(this.#node, whole('partitions', partitions)));
  }

  /** Each row with this chance, 0 to 1; the same rows for the same seed and partitions. */
  sample(fraction: number, seed = 0): Dataset<T> {
    if (!(fraction >= 0 && fraction <= 1)) throw new DatasetError('DATASET_INVALID', `a fraction is 0 to 1: got ${fraction}`);
    return this.#of(sampleNode(this.#node, fraction, seed));
  }

  /** Keeps partitions in memory where they were computed first, as far as the bound allows; later actions run there. Returns this. */
  cache(): this {
    this.#node.isCached = true;
    return this;
  }

  /** Lets go of what cache() kept. Returns this. */
  uncache(): this {
    this.#node.isCached = false;
    this.#engine.uncache(this.#node);
    return this;
  }

  /** The rows as columns: objects with numeric fields become typed arrays. @throws DATASET_SCHEMA in the action for a field of another kind. */
  columns<S extends Readonly<Record<string, Type>>>(
    this: Dataset<Readonly<Record<keyof S, number | bigint>>>,
    schema: S,
  ): Columns<S> {
    return new Columns(this.#engine, columnsOfRowsNode(this.#node, schema), schema);
  }

  // ---- actions ----

  async collect(options: ActionOptions = {}): Promise<T[]> {
    const parts = await this.#run(options, async (batches) => {
      const frames: Uint8Array[] = [];
      for await (const batch of batches) frames.push(encodeRows(batch));
      return Buffer.concat(frames);
    });
    const out: T[] = [];
    for (const part of parts) for (const rows of decodeRows(part)) for (const row of rows) out.push(row as T);
    return out;
  }

  count(options: ActionOptions = {}): Promise<number> {
    return this.#engine.count(this.#node, options);
  }

  /** The first rows, in the order of partitions. */
  async take(n: number, options: ActionOptions = {}): Promise<T[]> {
    whole('n', n, 0);
    const parts = await this.#run(options, async (batches) => {
      const rows: T[] = [];
      if (n === 0) return rows;
      for await (const batch of batches) {
        for (let i = 0; i < batch.length && rows.length < n; i++) rows.push(batch[i]);
        if (rows.length >= n) break;
      }
      return rows;
    });
    return parts.flat().slice(0, n) as T[];
  }

  /** The first row. @throws DATASET_INVALID where there is none. */
  async first(options: ActionOptions = {}): Promise<T> {
    const rows = await this.take(1, options);
    if (rows.length === 0) throw new DatasetError('DATASET_INVALID', 'the dataset is empty: it has no first row');
    return rows[0];
  }

  /** The n largest rows, largest first. */
  async top(n: number, compare: (a: T, b: T) => number = compareKeys, options: ActionOptions = {}): Promise<T[]> {
    whole('n', n, 0);
    const select = (rows: T[]) => rows.sort((a, b) => compare(b, a)).slice(0, n);
    const act = actingOn<T>('top');
    const parts = await this.#run(options, async (batches, task) => {
      let best: T[] = [];
      await act(batches, task, (row) => {
        if (best.push(row) > 2 * n + 4096) best = select(best);
      });
      return select(best);
    });
    return select(parts.flat() as T[]);
  }

  /** All rows combined by `f`, which must be associative. @throws DATASET_INVALID where there are none. */
  async reduce(f: (a: T, b: T) => T, options: ActionOptions = {}): Promise<T> {
    const act = actingOn<T>('reduce');
    const parts = await this.#run(options, async (batches, task) => {
      let value: T | undefined;
      let isEmpty = true;
      await act(batches, task, (row) => {
        value = isEmpty ? row : f(value as T, row);
        isEmpty = false;
      });
      return { isEmpty, value };
    });
    const filled = parts.filter(({ isEmpty }) => !isEmpty);
    if (filled.length === 0) throw new DatasetError('DATASET_INVALID', 'the dataset is empty: there is nothing to reduce');
    return filled.map(({ value }) => value as T).reduce(f);
  }

  /** Runs a function for its effects, where each row is. It may run more than once for a row when a task is repeated. */
  async forEach(f: (row: T) => void | Promise<void>, options: ActionOptions = {}): Promise<void> {
    const act = actingOn<T>('forEach');
    await this.#run(options, (batches, task) => act(batches, task, f));
  }

  /** How often each value occurs. */
  async countByValue(options: ActionOptions = {}): Promise<Map<T, number>> {
    const pairs = await this.map((row): [T, number] => [row, 1])
      .reduceByKey((a, b) => a + b)
      .collect(options);
    return new Map(pairs);
  }

  /** One file per partition, `part-00000`, a line per row. @throws DATASET_OUTPUT where the folder is not new or empty. */
  saveAsText(folder: string, options: ActionOptions = {}): Promise<void> {
    return saveText(this.#engine, this.#node, folder, '', options, () => (rows) => `${rows.map(String).join('\n')}\n`);
  }

  saveAsNdjson(folder: string, options: ActionOptions = {}): Promise<void> {
    return saveText(
      this.#engine,
      this.#node,
      folder,
      '.ndjson',
      options,
      () => (rows) => `${rows.map((row) => JSON.stringify(row)).join('\n')}\n`,
    );
  }

  /** @throws DATASET_SCHEMA for a row with a field that is no column, where `columns` does not say which are wanted. */
  saveAsCsv(folder: string, options: CsvSaveOptions = {}): Promise<void> {
    return saveText(this.#engine, this.#node, folder, '.csv', options, () => csvFormat(options));
  }

  /** One Arrow IPC file per partition, which must fit in memory. */
  saveAsArrow(folder: string, options: ActionOptions = {}): Promise<void> {
    return saveArrowRows(this.#engine, this.#node, folder, options);
  }

  /** One Parquet file per partition, which must fit in memory, by DuckDB. @throws DATASET_MISSING where @duckdb/node-api is not installed. */
  saveAsParquet(folder: string, options: ActionOptions = {}): Promise<void> {
    return saveParquetRows(this.#engine, this.#node, folder, options);
  }

  #run<R>(options: ActionOptions, finish: (batches: Rows<T>, task: Task) => Promise<R>): Promise<R[]> {
    return this.#engine.run(this.#node, (batches: AsyncIterable<Batch>, task) => finish(batches as Rows<T>, task), options);
  }

  // ---- the plan as data ----

  /** Stages, partitions, shuffles and why; after an action over it also what happened. All ranks call it. */
  explain(): Promise<PlanExplanation> {
    return explainPlan(this.#engine, this.#node);
  }

  /** The graph of the plan as SVG. All ranks call it. */
  async draw(): Promise<string> {
    return drawPlan(await this.explain());
  }
}

/** How an action runs a function of the user over the rows of a partition: an error of it names the record. */
function actingOn<T>(name: string) {
  const site = callSite();
  return async (batches: Rows<T>, task: Task, f: (row: T) => void | Promise<void>): Promise<void> => {
    let index = 0;
    for await (const batch of batches) {
      for (const row of batch) {
        try {
          const under = f(row);
          if (under) await under;
        } catch (error) {
          throw new UserFailure(error, { name, site }, task, row, index);
        }
        index++;
      }
      await task.breathe();
    }
  };
}
