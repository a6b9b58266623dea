/**
 * Group-by with native aggregates: each map task aggregates its rows, the partial results are spread by key, and are aggregated once more. Aggregates are f64;
 * an average is made of a sum and a count at the end. A partition that is too large for memory is aggregated in several passes, each for a part of its keys.
 */

import { DatasetError } from '../errors.js';
import { addressOf, KERNEL, run } from '../kernels.js';
import { PlanNode } from '../plan/node.js';
import type { Batch, Task } from '../plan/task.js';
import { ColumnBatch, concatBatches } from './batch.js';
import { ColumnShuffle, fetchColumns, hashOf, piecesOf, powerOfTwo } from './exchange.js';
import { gather } from './join.js';
import { arrayOf, COLUMN_TYPES, columnType, type Schema, type Type } from './schema.js';

export type AggregateKind = 'sum' | 'count' | 'min' | 'max' | 'mean';

/** What to make of a group. Made by sum(), count(), min(), max() and mean(). */
export interface Aggregate {
  readonly kind: AggregateKind;
  readonly column: string | undefined;
}

/** The sum of a column in a group. */
export const sum = (column: string): Aggregate => ({ kind: 'sum', column });
/** Rows of a group. */
export const count = (): Aggregate => ({ kind: 'count', column: undefined });
/** The smallest value of a column in a group. */
export const min = (column: string): Aggregate => ({ kind: 'min', column });
/** The largest value of a column in a group. */
export const max = (column: string): Aggregate => ({ kind: 'max', column });
/** The mean of a column in a group. */
export const mean = (column: string): Aggregate => ({ kind: 'mean', column });

const OPS = { sum: 0, count: 1, min: 2, max: 3 } as const;
const MOST = 16;
/** Parts that the kernels tell apart. */
const MOST_PARTS = 65_536;

/** One column of partial results. */
interface Partial {
  readonly op: keyof typeof OPS;
  readonly column: string | undefined;
}

export function groupNode(
  parent: PlanNode,
  schema: Schema,
  key: string,
  aggregates: Readonly<Record<string, Aggregate>>,
  partitions: number | undefined,
): { node: PlanNode; schema: Schema } {
  const keyType = columnType(schema, key);
  const partials: Partial[] = [];
  const partialOf = (op: keyof typeof OPS, column: string | undefined): number => {
    const at = partials.findIndex((one) => one.op === op && one.column === column);
    return at >= 0 ? at : partials.push({ op, column }) - 1;
  };
  const results = Object.entries(aggregates).map(([name, { kind, column }]) => {
    if (column !== undefined) columnType(schema, column);
    if (kind === 'mean') return { name, from: [partialOf('sum', column), partialOf('count', undefined)] };
    return { name, from: [partialOf(kind, column)] };
  });
  if (partials.length === 0 || partials.length > MOST) {
    throw new DatasetError('DATASET_INVALID', `a group-by has 1 to ${MOST} aggregates: got ${partials.length}`);
  }
  const partial: Schema = Object.fromEntries([[key, keyType], ...partials.map((_, i): [string, Type] => [`#${i}`, 'f64'])]);
  const spread = hashOf(partial, key);
  const dependency = new ColumnShuffle(parent, 'hash by key, aggregated before, native', partial, partitions, spread, (batch) =>
    aggregate(
      batch,
      key,
      keyType,
      partials.map(({ op, column }) => ({ op, column })),
      partial,
    ),
  );
  const outSchema: Schema = Object.fromEntries([[key, keyType], ...results.map(({ name }): [string, Type] => [name, 'f64'])]);
  const node = new PlanNode({
    name: 'groupBy',
    words: `${key}: ${Object.entries(aggregates)
      .map(([name, { kind, column }]) => `${name} = ${kind}(${column ?? ''})`)
      .join(', ')}`,
    dependencies: [dependency],
    partitions: (preparation) => dependency.decide(preparation),
    async *compute(partition, task): AsyncIterable<Batch> {
      const { share } = task.services.memory;
      const bytes = task.services.sizeOf(dependency);
      const passes = Math.min(MOST_PARTS / dependency.partitions, powerOfTwo(Math.ceil((2 * bytes) / share)));
      if (passes > 1) {
        for (let pass = 0; pass < passes; pass++) yield* finished(await mergeInPass(partition * passes + pass, passes, task));
        return;
      }
      const { batch, release } = await fetchColumns(task, dependency, partition);
      try {
        if (batch) yield* finished(await merge(batch));
      } finally {
        release();
      }
    },
  });

  const merge = (batch: ColumnBatch) =>
    aggregate(
      batch,
      key,
      keyType,
      partials.map(({ op }, i) => ({ op: op === 'count' ? 'sum' : op, column: `#${i}` })),
      partial,
    );

  /** Aggregates the keys of one part of a partition. */
  async function mergeInPass(part: number, passes: number, task: Task): Promise<ColumnBatch | undefined> {
    const parts = dependency.partitions * passes;
    let merged: ColumnBatch | undefined;
    for await (const piece of piecesOf(task, dependency, Math.floor(part / passes), task.services.memory.share / 4)) {
      const ids = new Uint16Array(piece.length);
      await spread(piece, ids, new Float64Array(parts), parts);
      const rows = Uint32Array.from(ids.keys()).filter((row) => ids[row] === part);
      if (rows.length === 0) continue;
      const arrays = [];
      for (const [c, type] of Object.values(partial).entries()) arrays.push(await gather(piece.arrays[c], type, rows));
      const own = new ColumnBatch(partial, arrays, rows.length);
      merged = await merge(merged ? concatBatches(partial, [merged, own]) : own);
    }
    return merged;
  }

  function* finished(merged: ColumnBatch | undefined): Generator<ColumnBatch> {
    if (!merged) return;
    const arrays = results.map(({ from: [a, b] }) => {
      const first = merged.arrays[1 + a] as Float64Array;
      return b === undefined ? first : first.map((value, i) => value / (merged.arrays[1 + b] as Float64Array)[i]);
    });
    yield new ColumnBatch(outSchema, [merged.arrays[0], ...arrays], merged.length);
  }

  return { node, schema: outSchema };
}

/** One aggregation of a batch. */
async function aggregate(
  batch: ColumnBatch,
  key: string,
  keyType: Type,
  partials: readonly Partial[],
  schema: Schema,
): Promise<ColumnBatch> {
  const n = batch.length;
  const keys = arrayOf(keyType, n);
  const outs = partials.map(() => new Float64Array(n));
  const groups = new Float64Array(1);
  const columns = partials.map(({ column }) => (column === undefined ? undefined : batch.column(column)));
  const more = partials.flatMap(({ op, column }, i) => [
    OPS[op],
    column === undefined ? COLUMN_TYPES.f64 : COLUMN_TYPES[columnType(batch.schema, column)],
    columns[i] ? addressOf(columns[i]) : 0,
    addressOf(outs[i]),
  ]);
  const block = await run(
    KERNEL.aggregate,
    batch.column(key),
    COLUMN_TYPES[keyType],
    n,
    1,
    keys,
    groups,
    partials.length,
    ...more,
    ...columns.filter((one) => one !== undefined),
    ...outs,
  );
  const found = block[1];
  return new ColumnBatch(schema, [keys.subarray(0, found), ...outs.map((out) => out.subarray(0, found))], found);
}
