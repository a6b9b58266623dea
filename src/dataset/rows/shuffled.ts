/** Operators on rows that need rows of other partitions: each is a shuffle and what happens behind it. */

import { PlanNode, type ShuffleDependency } from '../plan/node.js';
import type { Batch, Task } from '../plan/task.js';
import type { ShuffleWriter } from '../shuffle/manager.js';
import { Aggregation, type Combiner } from './aggregation.js';
import { decodeRows } from './codec.js';
import { ExternalSort } from './external-sort.js';
import { compareKeys, hashIdentity, identityOf } from './hash.js';
import { PartitionBuffers } from './partition-buffers.js';
import { eachRow, eachRowOf } from './pipeline.js';

export type Pair = readonly [key: unknown, value: unknown];

/** Partitions, or undefined for as many as the session thinks right. */
export type Count = number | undefined;

/** Writes the rows of the task's partition of the parent to `out`. */
export type WriteRows = (parent: PlanNode, out: PartitionBuffers, task: Task, partitions: number) => Promise<void>;

/** A shuffle whose number of partitions may be known only when a job is prepared. */
export class RowShuffle implements ShuffleDependency {
  readonly kind = 'shuffle';
  readonly parent: PlanNode;
  readonly words: string;
  readonly #write: WriteRows;
  #partitions: Count;

  constructor(parent: PlanNode, words: string, partitions: Count, write: WriteRows) {
    this.parent = parent;
    this.words = words;
    this.#partitions = partitions;
    this.#write = write;
  }

  get partitions(): number {
    return this.#partitions ?? 1;
  }

  decide(partitions: number): number {
    this.#partitions ??= partitions;
    return this.#partitions;
  }

  async write(writer: ShuffleWriter, task: Task): Promise<void> {
    const out = new PartitionBuffers(writer, this.partitions, task);
    await this.#write(this.parent, out, task, this.partitions);
    out.finish();
  }
}

/** The rows of a partition, as the maps wrote them, map by map. */
export async function* shuffledRows(task: Task, dependency: ShuffleDependency, partition: number): AsyncGenerator<unknown[]> {
  for await (const block of task.services.fetch(task, dependency, partition)) {
    try {
      for (const rows of decodeRows(block.bytes)) {
        yield rows;
        await task.breathe();
      }
    } finally {
      block.release();
    }
  }
}

/** The partition of a key. */
export function hashTo(key: unknown, partitions: number): number {
  return (hashIdentity(identityOf(key)) >>> 0) % partitions;
}

/** Pairs by the hash of their key. `taker`: who wants them. */
export function hashShuffle(parent: PlanNode, partitions: Count, taker: () => PlanNode): RowShuffle {
  return new RowShuffle(parent, 'hash by key', partitions, (from, out, task, count) =>
    eachRow(from, task.partition, task, taker(), (row) => out.add(hashTo((row as Pair)[0], count), row)),
  );
}

export interface AggregateInit<V, A> {
  readonly name: string;
  readonly combiner: Combiner<V, A>;
  /** Combine in the map tasks, so that less is shuffled. */
  readonly mapSide: boolean;
  readonly partitions: Count;
}

/** Pairs aggregated by key: [key, accumulated]. */
export function aggregateNode<V, A>(parent: PlanNode, { name, combiner, mapSide, partitions }: AggregateInit<V, A>): PlanNode {
  const combineBefore: WriteRows = async (from, out, task, count) => {
    const aggregation = new Aggregation(combiner, task);
    try {
      await eachRow(from, task.partition, task, node, (row) => aggregation.add((row as Pair)[0], (row as Pair)[1] as V));
      for await (const entries of aggregation.results()) for (const entry of entries) out.add(hashTo(entry[0], count), entry);
    } finally {
      aggregation.close();
    }
  };
  const dependency = mapSide
    ? new RowShuffle(parent, 'hash by key, combined before', partitions, combineBefore)
    : hashShuffle(parent, partitions, () => node);
  const node: PlanNode = new PlanNode({
    name,
    dependencies: [dependency],
    partitions: ({ defaultPartitions }) => dependency.decide(defaultPartitions),
    async *compute(partition, task): AsyncIterable<Batch> {
      const aggregation = new Aggregation(combiner, task);
      try {
        await eachRowOf(shuffledRows(task, dependency, partition), task, node, (row) => {
          if (mapSide) aggregation.merge((row as Pair)[0], (row as Pair)[1] as A);
          else aggregation.add((row as Pair)[0], (row as Pair)[1] as V);
        });
        yield* aggregation.results();
      } finally {
        aggregation.close();
      }
    },
  });
  return node;
}

/** Several datasets of pairs side by side: [key, [values of the first, values of the second, ...]]. */
export function cogroupNode(parents: readonly PlanNode[], partitions: Count): PlanNode {
  const dependencies = parents.map((parent) => hashShuffle(parent, partitions, () => node));
  const empty = () => parents.map((): unknown[] => []);
  const combiner: Combiner<[side: number, value: unknown], unknown[][]> = {
    create: ([side, value]) => {
      const groups = empty();
      groups[side].push(value);
      return groups;
    },
    add: (groups, [side, value]) => {
      groups[side].push(value);
      return groups;
    },
    merge: (a, b) => {
      for (const [side, values] of b.entries()) for (const value of values) a[side].push(value);
      return a;
    },
    grows: true,
  };
  const node: PlanNode = new PlanNode({
    name: 'cogroup',
    dependencies,
    partitions: ({ defaultPartitions }) => {
      for (const dependency of dependencies) dependency.decide(defaultPartitions);
      return dependencies[0].partitions;
    },
    async *compute(partition, task): AsyncIterable<Batch> {
      const aggregation = new Aggregation(combiner, task);
      try {
        for (const [side, dependency] of dependencies.entries()) {
          await eachRowOf(shuffledRows(task, dependency, partition), task, node, (row) =>
            aggregation.add((row as Pair)[0], [side, (row as Pair)[1]]),
          );
        }
        yield* aggregation.results();
      } finally {
        aggregation.close();
      }
    },
  });
  return node;
}

/** Rows spread evenly, in turn. */
export function repartitionNode(parent: PlanNode, count: number): PlanNode {
  const dependency = new RowShuffle(parent, 'in turn', count, (from, out, task, partitions) => {
    let next = task.partition;
    return eachRow(from, task.partition, task, node, (row) => out.add(next++ % partitions, row));
  });
  const node: PlanNode = new PlanNode({
    name: 'repartition',
    dependencies: [dependency],
    partitions: count,
    compute: (partition, task) => shuffledRows(task, dependency, partition),
  });
  return node;
}

export interface SortInit {
  readonly key: (row: unknown) => unknown;
  readonly compare?: ((a: unknown, b: unknown) => number) | undefined;
  readonly descending: boolean;
  readonly partitions: Count;
}

const SAMPLES_OF_A_PARTITION = 1024;

/** A sample of a partition's keys of bounded size: every k-th, with k doubling as there are more. The same at every attempt. */
async function sampleKeys(
  batches: AsyncIterable<Batch>,
  task: Task,
  taker: PlanNode,
  keyOf: (row: unknown) => unknown,
): Promise<{ rows: number; keys: unknown[] }> {
  let keys: unknown[] = [];
  let every = 1;
  let rows = 0;
  await eachRowOf(batches, task, taker, (row) => {
    if (rows++ % every !== 0) return;
    if (keys.push(keyOf(row)) < 2 * SAMPLES_OF_A_PARTITION) return;
    keys = keys.filter((_, i) => i % 2 === 0);
    every *= 2;
  });
  return { rows, keys };
}

/** Keys that cut a sample into parts of about equal weight; equal neighbours become one. */
function splittersOf(
  samples: readonly { rows: number; keys: readonly unknown[] }[],
  parts: number,
  compare: (a: unknown, b: unknown) => number,
): unknown[] {
  const weighed = samples.flatMap(({ rows, keys }) => keys.map((key) => ({ key, weight: rows / keys.length })));
  weighed.sort((a, b) => compare(a.key, b.key));
  const total = weighed.reduce((sum, { weight }) => sum + weight, 0);
  const splitters: unknown[] = [];
  let sum = 0;
  for (const { key, weight } of weighed) {
    sum += weight;
    if (sum < ((splitters.length + 1) * total) / parts || splitters.length === parts - 1) continue;
    const last = splitters.at(-1);
    if (splitters.length === 0 || compare(last, key) < 0) splitters.push(key);
  }
  return splitters;
}

/** Rows in order over all partitions: ranges by sampled splitters, then each range is sorted. */
export function sortNode(parent: PlanNode, { key, compare = compareKeys, descending, partitions }: SortInit): PlanNode {
  const order = descending ? (a: unknown, b: unknown) => compare(b, a) : compare;
  let splitters: unknown[] = [];
  const dependency = new RowShuffle(parent, 'range by sampled splitters', partitions, (from, out, task) =>
    eachRow(from, task.partition, task, node, (row) => {
      const k = key(row);
      let low = 0;
      let high = splitters.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (order(splitters[middle], k) <= 0) low = middle + 1;
        else high = middle;
      }
      out.add(low, row);
    }),
  );
  const node: PlanNode = new PlanNode({
    name: 'sortBy',
    dependencies: [dependency],
    partitions: async (preparation) => {
      const count = partitions ?? preparation.defaultPartitions;
      if (count > 1) {
        const samples = await preparation.run(parent, (batches, task) => sampleKeys(batches, task, node, key));
        splitters = splittersOf(samples, count, order);
      }
      return dependency.decide(count);
    },
    async *compute(partition, task): AsyncIterable<Batch> {
      const sort = new ExternalSort<unknown>((a, b) => order(key(a), key(b)), task);
      try {
        for await (const batch of shuffledRows(task, dependency, partition)) sort.add(batch);
        yield* sort.results();
      } finally {
        sort.close();
      }
    },
  });
  return node;
}
