/** Operators that need one partition of their parent only: they run inside the task that computes it, batch by batch. */

import { DatasetError, FetchFailed } from '../errors.js';
import { type NarrowDependency, oneToOne, PlanNode } from '../plan/node.js';
import type { Batch, Task } from '../plan/task.js';
import { UserFailure } from '../scheduler/failure.js';

type Rows = readonly unknown[];

/** Runs a function of the user over a batch. `before`: records that the operator has seen in this partition. */
type Step = (batch: Rows, at: { index: number }) => Rows;

function perBatch(name: string, parent: PlanNode, makeStep: (partition: number) => Step): PlanNode {
  const node: PlanNode = new PlanNode({
    name,
    dependencies: [oneToOne(parent)],
    partitions: () => parent.partitions,
    async *compute(partition, task) {
      const step = makeStep(partition);
      let before = 0;
      for await (const batch of parent.compute(partition, task)) {
        const rows = batch as Rows;
        const at = { index: 0 };
        let out: Rows;
        try {
          out = step(rows, at);
        } catch (error) {
          throw new UserFailure(error, node, task, rows[at.index], before + at.index);
        }
        before += rows.length;
        if (out.length > 0) yield out;
        await task.breathe();
      }
    },
  });
  return node;
}

export function mapNode(parent: PlanNode, f: (row: unknown) => unknown, name = 'map'): PlanNode {
  return perBatch(name, parent, () => (batch, at) => {
    const out = new Array<unknown>(batch.length);
    for (let i = 0; i < batch.length; i++) {
      at.index = i;
      out[i] = f(batch[i]);
    }
    return out;
  });
}

export function filterNode(parent: PlanNode, f: (row: unknown) => unknown): PlanNode {
  return perBatch('filter', parent, () => (batch, at) => {
    const out: unknown[] = [];
    for (let i = 0; i < batch.length; i++) {
      at.index = i;
      if (f(batch[i])) out.push(batch[i]);
    }
    return out;
  });
}

export function flatMapNode(parent: PlanNode, f: (row: unknown) => Iterable<unknown>): PlanNode {
  return perBatch('flatMap', parent, () => (batch, at) => {
    const out: unknown[] = [];
    for (let i = 0; i < batch.length; i++) {
      at.index = i;
      const made = f(batch[i]);
      if (Array.isArray(made)) for (let k = 0; k < made.length; k++) out.push(made[k]);
      else for (const one of made) out.push(one);
    }
    return out;
  });
}

/** Each row with the chance of `fraction`, decided by seed, partition and place alone. */
export function sampleNode(parent: PlanNode, fraction: number, seed: number): PlanNode {
  return perBatch('sample', parent, (partition) => {
    let state = (Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(partition + 1, 0xc2b2ae35)) >>> 0;
    const next = () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), state | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
    return (batch) => batch.filter(() => next() < fraction);
  });
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
    const isOurs = error instanceof UserFailure || error instanceof FetchFailed || DatasetError.is(error) || task.signal.aborted;
    return isOurs ? error : new UserFailure(error, node, task, this.#last, this.#seen - 1);
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
