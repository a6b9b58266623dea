/**
 * A task: one partition of one stage, being computed here. Operators are given it: where they are, what they may hold, and where the records come from.
 */

import type { Budget } from '../memory/budget.js';
import type { SegmentPool } from '../memory/segment-pool.js';
import type { SpillDirectory } from '../memory/spill-directory.js';
import type { FetchedBlock } from '../shuffle/manager.js';
import type { PlanNode, ShuffleDependency } from './node.js';

/** Rows of a batch, where an operator makes its own. */
export const BATCH_ROWS = 2048;
/** A task gives the event loop its turn after so long, ms. */
const BREATH_MS = 8;

/** What a task stands on; the executor of the rank provides it. */
export interface TaskServices {
  readonly rank: number;
  readonly memory: Budget;
  readonly disk: SpillDirectory;
  readonly pool: SegmentPool;
  /** The blocks of a partition of a shuffle, in map order. */
  fetch(task: Task, shuffle: ShuffleDependency, partition: number, into?: Uint8Array): AsyncIterable<FetchedBlock>;
  /** Bytes of the task's partition of a shuffle, of all maps together. */
  sizeOf(shuffle: ShuffleDependency): number;
  /** Batches of a cached partition, or undefined where this rank has none. */
  cached(node: PlanNode, partition: number): readonly Batch[] | undefined;
  /** Keeps a partition. False where the bound of the memory does not allow it. */
  keep(node: PlanNode, partition: number, batches: readonly Batch[], bytes: number): boolean;
}

/** What flows between operators: an array of rows, or a batch of columns or of records. */
export type Batch = readonly unknown[] | { readonly length: number };

/** Counts of a task, for explain(). */
export interface TaskStats {
  rowsOut: number;
  bytesIn: number;
  bytesOut: number;
  spilledBytes: number;
  spills: number;
}

export class Task {
  readonly job: string;
  readonly stage: number;
  readonly partition: number;
  readonly attempt: number;
  /** Rows of a source's batch: 1 when the attempt before ended in an error of the user's function, so that the record can be named. */
  readonly batchRows: number;
  readonly services: TaskServices;
  readonly signal: AbortSignal;
  readonly stats: TaskStats = { rowsOut: 0, bytesIn: 0, bytesOut: 0, spilledBytes: 0, spills: 0 };
  /** What the functions of the user added to accumulators, by accumulator. */
  readonly additions = new Map<number, unknown>();
  /** Cached partitions that this task has made. */
  readonly kept: [node: number, partition: number][] = [];
  /** The record that is on its way: a file and where in it, or the number of the row. */
  position = '';
  #breath = performance.now();

  constructor(
    at: { job: string; stage: number; partition: number; attempt: number; batchRows: number },
    services: TaskServices,
    signal: AbortSignal,
  ) {
    this.job = at.job;
    this.stage = at.stage;
    this.partition = at.partition;
    this.attempt = at.attempt;
    this.batchRows = at.batchRows;
    this.services = services;
    this.signal = signal;
  }

  /** Lets the event loop run when it is time. Long loops await it. @throws the signal's reason when the task is not wanted any more. */
  breathe(): Promise<void> | undefined {
    this.signal.throwIfAborted();
    if (performance.now() - this.#breath < BREATH_MS) return undefined;
    return new Promise((resolve, reject) =>
      setImmediate(() => {
        this.#breath = performance.now();
        if (this.signal.aborted) reject(this.signal.reason);
        else resolve();
      }),
    );
  }
}
