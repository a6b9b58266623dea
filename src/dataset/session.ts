/**
 * A session: one rank's hold on the datasets of its world. Sources, broadcast values and accumulators come from it.
 *
 * ```ts
 * import { openDatasets } from 'verbena/dataset';
 *
 * const data = await openDatasets();                                  // every rank of `verbena run -n 4 job.ts` does this
 * const counts = await data.textFile('notes/')
 *   .flatMap((line) => line.split(' '))
 *   .map((word): [string, number] => [word, 1])
 *   .reduceByKey((a, b) => a + b)
 *   .collect();                                                       // the same on every rank
 * if (data.isDriver) console.log(counts.length);
 * await data.close();
 * ```
 */

import type { World } from '../launch/index.js';
import { init } from '../launch/world.js';
import { Accumulator } from './accumulator.js';
import { Broadcast } from './broadcast.js';
import { Columns, memoryColumnsNode } from './columns/columns.js';
import { type ArrayOf, type ColumnArray, type Schema, type Type, typeOf } from './columns/schema.js';
import { Dataset } from './dataset.js';
import { Engine } from './engine.js';
import { DatasetError } from './errors.js';
import { type SessionOptions, settingsOf } from './options.js';
import { type RecordOptions, Records } from './records/records.js';
import type { Progress } from './scheduler/driver.js';
import type { JobReport } from './scheduler/protocol.js';
import type { ShuffleCounters } from './shuffle/manager.js';
import { type ArrowOptions, arrowColumnsNode, arrowRowsNode } from './sources/arrow.js';
import { type CsvOptions, csvNode } from './sources/csv.js';
import { ndjsonNode } from './sources/ndjson.js';
import { parquetColumnsNode, parquetRowsNode } from './sources/parquet.js';
import type { TextOptions } from './sources/text.js';
import { rangeNode, valuesNode } from './sources/values.js';
import { TextDataset } from './text-dataset.js';

/** The type of a column that is such an array. */
type TypeOf<A> = { [T in Type]: A extends ArrayOf[T] ? T : never }[Type];

/** What this rank has used and moved so far. */
export interface SessionUsage {
  readonly shuffle: Readonly<ShuffleCounters>;
  /** The most that was held at once, of what is bounded, bytes. */
  readonly peakMemory: number;
  readonly peakDisk: number;
  readonly memoryLimit: number;
}

export class Session {
  readonly #engine: Engine;
  readonly #ownsWorld: boolean;

  /** @internal Made by openDatasets and cluster. */
  constructor(engine: Engine, ownsWorld: boolean) {
    this.#engine = engine;
    this.#ownsWorld = ownsWorld;
  }

  get world(): World {
    return this.#engine.world;
  }

  get rank(): number {
    return this.#engine.world.rank;
  }

  get size(): number {
    return this.#engine.world.size;
  }

  /** True on the rank that hands out tasks: where to print. */
  get isDriver(): boolean {
    return this.#engine.isDriver;
  }

  /** @internal */
  get engine(): Engine {
    return this.#engine;
  }

  // ---- sources ----

  /** Lines of text files, without their line breaks. A path is a file, a folder, or ends in a pattern (`logs/*.txt`). @throws DATASET_INPUT in the action. */
  textFile(paths: string | readonly string[], options: TextOptions = {}): TextDataset {
    return new TextDataset(this.#engine, paths, options);
  }

  /** One JSON value per line. A line that is none is an error that names file and byte. */
  ndjson<T = unknown>(paths: string | readonly string[], options: TextOptions = {}): Dataset<T> {
    return new Dataset(this.#engine, ndjsonNode(paths, options));
  }

  /** Rows of CSV files, one a line: objects by the names in the first line. */
  csv<T = Record<string, string>>(paths: string | readonly string[], options: CsvOptions = {}): Dataset<T> {
    return new Dataset(this.#engine, csvNode(paths, options));
  }

  /** Whole numbers from `start` (default 0) up to but not `end`. */
  range(end: number): Dataset<number>;
  range(start: number, end: number, step?: number, partitions?: number): Dataset<number>;
  range(a: number, b?: number, step = 1, partitions = this.#engine.settings.partitions): Dataset<number> {
    if (!(step > 0)) throw new DatasetError('DATASET_INVALID', `step is above 0: got ${step}`);
    const [start, end] = b === undefined ? [0, a] : [a, b];
    return new Dataset(this.#engine, rangeNode(start, end, step, partitions));
  }

  /** Values of the program. Every rank gives the same ones. */
  parallelize<T>(values: readonly T[], partitions: number = this.#engine.settings.partitions): Dataset<T> {
    return new Dataset(this.#engine, valuesNode(values, partitions));
  }

  /** Arrow IPC files as columns; all must be numbers without empty values, or be left out by `columns`. */
  arrow<S extends Schema = Schema>(paths: string | readonly string[], options: ArrowOptions = {}): Columns<S> {
    const { node, schema } = arrowColumnsNode(paths, options);
    return new Columns(this.#engine, node, schema as S);
  }

  /** Arrow IPC files as rows: objects, whatever their columns hold. */
  arrowRows<T = Record<string, unknown>>(paths: string | readonly string[], options: ArrowOptions = {}): Dataset<T> {
    return new Dataset(this.#engine, arrowRowsNode(paths, options));
  }

  /** Parquet files as rows, by DuckDB. @throws DATASET_MISSING in the action where @duckdb/node-api is not installed. */
  parquet<T = Record<string, unknown>>(
    paths: string | readonly string[],
    options: { readonly columns?: readonly string[] } = {},
  ): Dataset<T> {
    return new Dataset(this.#engine, parquetRowsNode(paths, options.columns));
  }

  /** Columns of Parquet files, by DuckDB. @throws DATASET_SCHEMA in the action where a file has others. */
  parquetColumns<const S extends Schema>(paths: string | readonly string[], schema: S): Columns<S> {
    return new Columns(this.#engine, parquetColumnsNode(paths, schema), schema);
  }

  /** Typed arrays of the program as columns; all of one length. Every rank gives the same ones. */
  columns<A extends Readonly<Record<string, ColumnArray>>>(
    arrays: A,
    partitions: number = this.size,
  ): Columns<{ readonly [N in keyof A]: TypeOf<A[N]> }> {
    const lists = Object.values(arrays);
    if (lists.length === 0 || lists.some(({ length }) => length !== lists[0].length)) {
      throw new DatasetError('DATASET_SCHEMA', 'columns are one or more typed arrays of one length');
    }
    const schema = Object.fromEntries(Object.entries(arrays).map(([name, array]): [string, Type] => [name, typeOf(array)]));
    const node = memoryColumnsNode(schema, lists, partitions);
    return new Columns(this.#engine, node, schema as { readonly [N in keyof A]: TypeOf<A[N]> });
  }

  /** Records of fixed width, as bytes. */
  binaryRecords(paths: string | readonly string[], options: RecordOptions): Records {
    return Records.read(this.#engine, paths, options);
  }

  // ---- beside datasets ----

  /** A number that tasks add to, or any value with a way to merge two. All ranks make the same ones in the same order. */
  accumulator(name: string): Accumulator<number>;
  accumulator<T>(name: string, zero: T, merge: (a: T, b: T) => T): Accumulator<T>;
  accumulator<T>(name: string, zero?: T, merge?: (a: T, b: T) => T): Accumulator<T> {
    const { accumulators } = this.#engine;
    const add = (a: unknown, b: unknown) => (a as number) + (b as number);
    const made = new Accumulator<T>(accumulators.length, name, zero ?? (0 as T), merge ?? (add as (a: T, b: T) => T));
    accumulators.push(made as unknown as Accumulator<unknown>);
    return made;
  }

  /** A value that the driver makes once and every rank gets: the result of a query, a file that only it can read. All ranks call it. */
  async broadcast<T>(make: () => T | Promise<T>): Promise<Broadcast<T>> {
    return Broadcast.make(this.#engine, make);
  }

  /** Calls back on the driver whenever a task is done. Returns the function that ends it. */
  onProgress(listener: (progress: Progress) => void): () => void {
    this.#engine.listeners.add(listener);
    return () => this.#engine.listeners.delete(listener);
  }

  /** What the last action did, stage by stage. */
  get lastReport(): JobReport | undefined {
    return this.#engine.lastJob?.report;
  }

  get usage(): SessionUsage {
    const { counters, memory, disk } = this.#engine;
    return {
      shuffle: { ...counters },
      peakMemory: memory.peak,
      peakDisk: disk.budget.peak,
      memoryLimit: memory.limit,
    };
  }

  /** Ends the session, and the world where the session joined it. All ranks call it. Idempotent. */
  async close(): Promise<void> {
    await this.#engine.close();
    if (this.#ownsWorld) await this.world.finalize();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/**
 * Opens a session. All ranks call it with the same options.
 * @param options `world`: one that init() returned; default: joins the world, and leaves it at close.
 * @throws DATASET_INVALID for a bad option; what init() throws.
 */
export async function openDatasets(options: SessionOptions & { readonly world?: World } = {}): Promise<Session> {
  const { world: given, ...rest } = options;
  const world = given ?? (await init());
  try {
    const settings = settingsOf(rest, world.size, world.localSize);
    const engine = await Engine.open(world, settings, (made, node) => new Dataset(made, node));
    return new Session(engine, given === undefined);
  } catch (error) {
    if (!given) await world.finalize();
    throw error;
  }
}
