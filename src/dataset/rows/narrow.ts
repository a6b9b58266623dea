/** Operators that need one partition of their parent only: they run inside the task that computes it, batch by batch. */

import { type NarrowDependency, oneToOne, PlanNode, type RowOperator } from '../plan/node.js';
import type { Batch, Task } from '../plan/task.js';
import { failureOf } from '../scheduler/failure.js';
import { fused } from './pipeline.js';

type Rows = readonly unknown[];

function rowNode(name: string, parent: PlanNode, operator: RowOperator): PlanNode {
  const node: PlanNode = new PlanNode({
    name,
    operator,
    dependencies: [oneToOne(parent)],
    partitions: () => parent.partitions,
    compute: (partition, task) => fused(node, partition, task),
  });
  return node;
}

export function mapNode(parent: PlanNode, f: (row: unknown) => unknown, name = 'map'): PlanNode {
  return rowNode(name, parent, { kind: 'map', functionFor: () => f });
}

export function filterNode(parent: PlanNode, f: (row: unknown) => unknown): PlanNode {
  return rowNode('filter', parent, { kind: 'filter', functionFor: () => f });
}

export function flatMapNode(parent: PlanNode, f: (row: unknown) => Iterable<unknown>): PlanNode {
  return rowNode('flatMap', parent, { kind: 'flatMap', functionFor: () => f });
}

/** Each row with the chance of `fraction`, decided by seed, partition and place alone. */
export function sampleNode(parent: PlanNode, fraction: number, seed: number): PlanNode {
  const functionFor = (partition: number) => {
    let state = (Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(partition + 1, 0xc2b2ae35)) >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), state | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296 < fraction;
    };
  };
  return rowNode('sample', parent, { kind: 'filter', functionFor });
}

export type PartitionFunction = (rows: AsyncIterable<unknown>, partition: number) => Iterable<unknown> | AsyncIterable<unknown>;

export function mapPartitionsNode(parent: PlanNode, f: PartitionFunction): PlanNode {
  const node: PlanNode = new PlanNode({
    name: 'mapPartitions',
    dependencies: [oneToOne(parent)],
    partitions: () => parent.partitions,
    async *compute(partition, task) {
      const reading = new Reading();
      yield* batchesOf(() => f(reading.rows(parent, partition, task), partition), node, task, reading);
    },
  });
  return node;
}

/** Rows on their way into a function of the user: which was last, for the error that names it. */
export class Reading {
  #seen = 0;
  #last: unknown;

  async *rows(parent: PlanNode, partition: number, task: Task): AsyncGenerator<unknown> {
    for await (const batch of parent.compute(partition, task)) {
      for (const row of batch as Rows) {
        this.#last = row;
        this.#seen++;
        yield row;
      }
    }
  }

  /** What became of it: an error of the user's function with the record, any other as it is. */
  failure(error: unknown, node: PlanNode, task: Task): unknown {
    return failureOf(error, node, task, this.#last, this.#seen - 1);
  }
}

/** What the user's iterator yields, in batches. */
export async function* batchesOf<T>(
  make: () => Iterable<T> | AsyncIterable<T>,
  node: PlanNode,
  task: Task,
  reading: Reading,
): AsyncGenerator<T[]> {
  let out: T[] = [];
  try {
    for await (const row of make()) {
      if (out.push(row) < task.batchRows) continue;
      yield out;
      out = [];
      await task.breathe();
    }
  } catch (error) {
    throw reading.failure(error, node, task);
  }
  if (out.length > 0) yield out;
}

export function unionNode(parents: readonly PlanNode[]): PlanNode {
  /** The parent of a partition, and which of its partitions it is. */
  const locate = (partition: number): [PlanNode, number] => {
    let at = partition;
    for (const parent of parents) {
      if (at < parent.partitions) return [parent, at];
      at -= parent.partitions;
    }
    throw new RangeError(`union has no partition ${partition}`);
  };
  const dependencies = parents.map(
    (parent): NarrowDependency => ({
      kind: 'narrow',
      parent,
      of: (partition) => {
        const [owner, at] = locate(partition);
        return owner === parent ? [at] : [];
      },
    }),
  );
  return new PlanNode({
    name: 'union',
    dependencies,
    partitions: () => parents.reduce((sum, { partitions }) => sum + partitions, 0),
    compute: (partition, task) => {
      const [parent, at] = locate(partition);
      return parent.compute(at, task);
    },
  });
}

/** Fewer partitions without a shuffle: neighbours become one. */
export function coalesceNode(parent: PlanNode, count: number): PlanNode {
  const range = (partition: number): number[] => {
    const parts = Math.min(count, parent.partitions);
    const from = Math.floor((partition * parent.partitions) / parts);
    const to = Math.floor(((partition + 1) * parent.partitions) / parts);
    return Array.from({ length: to - from }, (_, i) => from + i);
  };
  return new PlanNode({
    name: 'coalesce',
    dependencies: [{ kind: 'narrow', parent, of: range }],
    partitions: () => Math.min(count, parent.partitions),
    async *compute(partition, task): AsyncIterable<Batch> {
      for (const one of range(partition)) yield* parent.compute(one, task);
    },
  });
}
