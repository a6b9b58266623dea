/**
 * Columns in the order of one of them, over all partitions: splitters from a sample, then a native radix sort of each partition. A partition that is too large for
 * memory is sorted in pieces, which go to disk where they must and are merged.
 */

import { KERNEL, run } from '../kernels.js';
import { PlanNode } from '../plan/node.js';
import type { Batch } from '../plan/task.js';
import { ColumnBatch } from './batch.js';
import { ColumnShuffle, fetchColumns, piecesOf, powerOfTwo } from './exchange.js';
import { gather } from './join.js';
import { PieceSort } from './piece-sort.js';
import { COLUMN_TYPES, type ColumnArray, columnType, type Schema } from './schema.js';

const SAMPLES = 1024;

async function sample(batches: AsyncIterable<Batch>, key: string): Promise<number[]> {
  const out: number[] = [];
  for await (const batch of batches) {
    const values = (batch as ColumnBatch).column(key);
    const every = Math.max(1, Math.floor(values.length / SAMPLES));
    for (let i = 0; i < values.length; i += every) out.push(Number(values[i]));
  }
  return out;
}

/** Values that are no number come last, whatever the direction. */
function partOf(value: number, splitters: Float64Array, descending: boolean): number {
  if (Number.isNaN(value)) return splitters.length;
  let low = 0;
  let high = splitters.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (descending ? splitters[middle] >= value : splitters[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function orderNode(
  parent: PlanNode,
  schema: Schema,
  key: string,
  descending: boolean,
  partitions: number | undefined,
): PlanNode {
  const type = columnType(schema, key);
  let splitters = new Float64Array(0);
  const dependency = new ColumnShuffle(parent, 'range by sampled splitters', schema, partitions, async (batch, ids, counts) => {
    const values = batch.column(key);
    for (let i = 0; i < batch.length; i++) {
      const part = partOf(Number(values[i]), splitters, descending);
      ids[i] = part;
      counts[part]++;
    }
  });
  return new PlanNode({
    name: 'sortBy',
    words: `${key}${descending ? ', largest first' : ''}`,
    dependencies: [dependency],
    partitions: async (preparation) => {
      const count = powerOfTwo(dependency.decide(preparation));
      const samples = (await preparation.run(parent, (batches) => sample(batches, key)))
        .flat()
        .filter((one) => !Number.isNaN(one));
      samples.sort((a, b) => (descending ? b - a : a - b));
      const cuts = Array.from(
        { length: count - 1 },
        (_, i) => samples[Math.floor(((i + 1) * samples.length) / count)] ?? Number.POSITIVE_INFINITY,
      );
      splitters = Float64Array.from([...new Set(cuts)]);
      return count;
    },
    async *compute(partition, task): AsyncIterable<Batch> {
      const { memory } = task.services;
      const order = async (batch: ColumnBatch) => {
        const rows = new Uint32Array(batch.length);
        await run(KERNEL.order, batch.column(key), COLUMN_TYPES[type], batch.length, descending ? 1 : 0, rows);
        return rows;
      };
      if (2 * task.services.sizeOf(dependency) > memory.share) {
        const sort = new PieceSort(schema, key, descending, task);
        try {
          for await (const piece of piecesOf(task, dependency, partition, memory.share / 2))
            await sort.add(piece, await order(piece));
          yield* sort.results();
        } finally {
          sort.close();
        }
        return;
      }
      const { batch, release } = await fetchColumns(task, dependency, partition);
      try {
        if (!batch) return;
        const rows = await order(batch);
        const arrays: ColumnArray[] = [];
        for (const [c, one] of Object.values(schema).entries()) arrays.push(await gather(batch.arrays[c], one, rows));
        yield new ColumnBatch(schema, arrays, batch.length);
      } finally {
        release();
      }
    },
  });
}
