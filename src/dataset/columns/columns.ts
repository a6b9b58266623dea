/**
 * A dataset of columns: numbers in typed arrays, batch by batch. No object is made of a row; filtering, grouping, joining and sorting run natively.
 *
 * ```ts
 * const totals = await data.arrow('sales/').groupBy('shop', { total: sum('amount'), sales: count() }).collect();
 * totals.shop[0], totals.total[0]
 * ```
 */

import type { Dataset } from '../dataset.js';
import type { Engine } from '../engine.js';
import { DatasetError } from '../errors.js';
import { drawPlan } from '../explain/draw.js';
import { explainPlan, type PlanExplanation } from '../explain/explain.js';
import type { ActionOptions } from '../options.js';
import { oneToOne, PlanNode } from '../plan/node.js';
import type { Batch, Task } from '../plan/task.js';
import { UserFailure } from '../scheduler/failure.js';
import { saveArrowColumns, saveParquetColumns } from '../sinks/columnar.js';
import { ColumnBatch, concatBatches } from './batch.js';
import { type Aggregate, groupNode } from './group.js';
import { gather, joinColumnsNode, joinedSchema } from './join.js';
import { orderNode } from './order.js';
import { arrayOf, type ColumnArray, type ColumnsOf, columnType, type RowOf, type Schema, type Type, typeOf } from './schema.js';

type Joined<S extends Schema, T extends Schema, K extends string> = S & Omit<T, K>;

export class Columns<S extends Schema = Schema> {
  readonly #engine: Engine;
  readonly #node: PlanNode;
  /** Names and types. */
  readonly schema: S;

  /** @internal Made by a session. */
  constructor(engine: Engine, node: PlanNode, schema: S) {
    this.#engine = engine;
    this.#node = node;
    this.schema = schema;
  }

  /** @internal */
  get node(): PlanNode {
    return this.#node;
  }

  #narrow<T extends Schema>(
    name: string,
    words: string,
    schema: T,
    step: (batch: ColumnBatch, task: Task) => Promise<ColumnBatch>,
  ): Columns<T> {
    const parent = this.#node;
    const node: PlanNode = new PlanNode({
      name,
      words,
      dependencies: [oneToOne(parent)],
      partitions: () => parent.partitions,
      async *compute(partition, task) {
        let before = 0;
        for await (const batch of parent.compute(partition, task)) {
          let out: ColumnBatch;
          try {
            out = await step(batch as ColumnBatch, task);
          } catch (error) {
            if (DatasetError.is(error)) throw error;
            throw new UserFailure(error, node, task, `a batch of ${batch.length} rows`, before);
          }
          before += batch.length;
          if (out.length > 0) yield out;
          await task.breathe();
        }
      },
    });
    return new Columns(this.#engine, node, schema);
  }

  /** Only these columns, perhaps under other names: select('a', 'b') or select({ a: 'x' }). */
  select<N extends keyof S & string>(...names: N[]): Columns<Pick<S, N>>;
  select<R extends Readonly<Record<string, keyof S & string>>>(renamed: R): Columns<{ readonly [N in keyof R]: S[R[N]] }>;
  select(first: string | Readonly<Record<string, string>>, ...rest: string[]): Columns<Schema> {
    const pairs = typeof first === 'string' ? [first, ...rest].map((name) => [name, name]) : Object.entries(first);
    const schema = Object.fromEntries(pairs.map(([to, from]): [string, Type] => [to, columnType(this.schema, from)]));
    return this.#narrow('select', Object.keys(schema).join(', '), schema, async (batch) => {
      return new ColumnBatch(
        schema,
        pairs.map(([, from]) => batch.column(from)),
        batch.length,
      );
    });
  }

  /** Rows for which the function, given the columns of a batch and a row number, is true. */
  filter(f: (columns: ColumnsOf<S>, row: number) => boolean): Columns<S> {
    const { schema } = this;
    return this.#narrow('filter', '', schema, async (batch) => {
      const columns = columnsOf<S>(batch);
      const rows = new Uint32Array(batch.length);
      let n = 0;
      for (let i = 0; i < batch.length; i++) if (f(columns, i)) rows[n++] = i;
      return gatherAll(batch, rows.subarray(0, n));
    });
  }

  /** One column more, made of a batch at a time. @throws DATASET_SCHEMA in the action where its array is too short or of another type. */
  withColumn<N extends string, T extends Type>(
    name: N,
    type: T,
    make: (columns: ColumnsOf<S>, rows: number) => ColumnArray,
  ): Columns<S & Readonly<Record<N, T>>> {
    const schema = { ...this.schema, [name]: type } as S & Readonly<Record<N, T>>;
    const names = Object.keys(schema);
    return this.#narrow('withColumn', name, schema, async (batch) => {
      const made = make(columnsOf<S>(batch), batch.length);
      if (made.length !== batch.length || typeOf(made) !== type) {
        throw new DatasetError(
          'DATASET_SCHEMA',
          `column ${name}: ${batch.length} values of ${type} are needed, got ${made.length} of ${typeOf(made)}`,
        );
      }
      return new ColumnBatch(
        schema,
        names.map((one) => (one === name ? made : batch.column(one))),
        batch.length,
      );
    });
  }

  /** One row per value of a column. Aggregates are f64: sums of i64 beyond 2^53 are rounded. */
  groupBy<K extends keyof S & string, A extends Readonly<Record<string, Aggregate>>>(
    key: K,
    aggregates: A,
    options: { readonly partitions?: number } = {},
  ): Columns<Pick<S, K> & { readonly [N in keyof A]: 'f64' }> {
    const { node, schema } = groupNode(this.#node, this.schema, key, aggregates, options.partitions);
    return new Columns(this.#engine, node, schema as Pick<S, K> & { readonly [N in keyof A]: 'f64' });
  }

  /** Rows of both with the same key. @throws DATASET_SCHEMA where key types differ or another name is on both sides. */
  join<T extends Schema, K extends keyof S & keyof T & string>(
    other: Columns<T>,
    key: K,
    options: { readonly partitions?: number } = {},
  ): Columns<Joined<S, T, K>> {
    joinedSchema(this.schema, other.schema, key);
    const { node, schema } = joinColumnsNode(this.#node, this.schema, other.#node, other.schema, key, options.partitions);
    return new Columns(this.#engine, node, schema as Joined<S, T, K>);
  }

  /** In the order of a column, over all partitions. Stable. What is no number comes last. */
  sortBy<K extends keyof S & string>(
    key: K,
    options: { readonly descending?: boolean; readonly partitions?: number } = {},
  ): Columns<S> {
    const node = orderNode(this.#node, this.schema, key, options.descending ?? false, options.partitions);
    return new Columns(this.#engine, node, this.schema);
  }

  /** Keeps partitions in memory, as Dataset.cache. Returns this. */
  cache(): this {
    this.#node.isCached = true;
    return this;
  }

  /** Each row as an object. */
  rows(): Dataset<RowOf<S>> {
    const parent = this.#node;
    const names = Object.keys(this.schema);
    const node = new PlanNode({
      name: 'rows',
      dependencies: [oneToOne(parent)],
      partitions: () => parent.partitions,
      async *compute(partition, task) {
        for await (const batch of parent.compute(partition, task)) {
          const { arrays, length } = batch as ColumnBatch;
          for (let at = 0; at < length; at += task.batchRows) {
            const out: unknown[] = [];
            for (let i = at; i < Math.min(length, at + task.batchRows); i++) {
              const row: Record<string, unknown> = {};
              for (let c = 0; c < names.length; c++) row[names[c]] = arrays[c][i];
              out.push(row);
            }
            yield out;
            await task.breathe();
          }
        }
      },
    });
    return this.#engine.rows(node);
  }

  // ---- actions ----

  count(options: ActionOptions = {}): Promise<number> {
    return this.#engine.count(this.#node, options);
  }

  /** All rows, one typed array a column. */
  async collect(options: ActionOptions = {}): Promise<ColumnsOf<S>> {
    const { schema } = this;
    const gatherBatches = async (batches: AsyncIterable<Batch>) => {
      const list: ColumnBatch[] = [];
      for await (const batch of batches) list.push(batch as ColumnBatch);
      return concatBatches(schema, list).arrays ?? [];
    };
    const parts = await this.#engine.run(this.#node, gatherBatches, options);
    const batches = parts
      .filter((arrays) => arrays.length > 0 && arrays[0].length > 0)
      .map((arrays) => new ColumnBatch(schema, arrays));
    const all =
      batches.length > 0
        ? concatBatches(schema, batches)
        : new ColumnBatch(
            schema,
            Object.values(schema).map((type) => arrayOf(type, 0)),
          );
    return columnsOf<S>(all);
  }

  /** A sum over all rows, without bringing them together. */
  async sum(column: keyof S & string, options: ActionOptions = {}): Promise<number> {
    columnType(this.schema, column);
    const add = async (batches: AsyncIterable<Batch>) => {
      let total = 0;
      for await (const batch of batches) for (const value of (batch as ColumnBatch).column(column)) total += Number(value);
      return total;
    };
    const parts = await this.#engine.run(this.#node, add, options);
    return parts.reduce((a, b) => a + b, 0);
  }

  /** One Arrow IPC file per partition. */
  saveAsArrow(folder: string, options: ActionOptions = {}): Promise<void> {
    return saveArrowColumns(this.#engine, this.#node, folder, options);
  }

  /** One Parquet file per partition, by DuckDB. @throws DATASET_MISSING. */
  saveAsParquet(folder: string, options: ActionOptions = {}): Promise<void> {
    return saveParquetColumns(this.#engine, this.#node, folder, options);
  }

  /** As Dataset.explain. */
  explain(): Promise<PlanExplanation> {
    return explainPlan(this.#engine, this.#node);
  }

  async draw(): Promise<string> {
    return drawPlan(await this.explain());
  }
}

function columnsOf<S extends Schema>(batch: ColumnBatch): ColumnsOf<S> {
  return Object.fromEntries(Object.keys(batch.schema).map((name, c) => [name, batch.arrays[c]])) as unknown as ColumnsOf<S>;
}

async function gatherAll(batch: ColumnBatch, rows: Uint32Array): Promise<ColumnBatch> {
  if (rows.length === batch.length) return batch;
  const arrays: ColumnArray[] = [];
  for (const [c, type] of Object.values(batch.schema).entries()) arrays.push(await gather(batch.arrays[c], type, rows));
  return new ColumnBatch(batch.schema, arrays, rows.length);
}

/** Columns that are in the program: every rank has them. */
export function memoryColumnsNode(schema: Schema, arrays: readonly ColumnArray[], partitions: number): PlanNode {
  const rows = arrays[0]?.length ?? 0;
  return new PlanNode({
    name: 'columns',
    words: `${rows} rows`,
    dependencies: [],
    partitions,
    async *compute(partition): AsyncIterable<Batch> {
      const from = Math.floor((partition * rows) / partitions);
      const to = Math.floor(((partition + 1) * rows) / partitions);
      if (to > from)
        yield new ColumnBatch(
          schema,
          arrays.map((array) => array.subarray(from, to)),
          to - from,
        );
    },
  });
}
