/**
 * The executor: what every rank runs, the driver's too. It takes tasks one at a time, computes them by the plan that this rank has built, and reports.
 *
 * A task may come before this rank's program has reached the action it belongs to; it waits until then.
 */

import { serialize } from 'node:v8';
import { unlessAborted } from '../../launch/abortable.js';
import { DatasetError, FetchFailed } from '../errors.js';
import type { PlanNode, ShuffleDependency } from '../plan/node.js';
import type { Stage, StagePlan } from '../plan/stages.js';
import { BATCH_ROWS, type Batch, Task, type TaskServices } from '../plan/task.js';
import type { FetchedBlock, MapPlace, ShuffleManager } from '../shuffle/manager.js';
import { wordsOf } from './failure.js';
import type { Message, Post, TaskAt } from './protocol.js';

type TaskMessage = Extract<Message, { type: 'task' }>;

/** Makes the last stage's part of the result. */
export type Finish = (batches: AsyncIterable<Batch>, task: Task) => Promise<unknown>;

interface KnownJob {
  readonly plan: StagePlan;
  readonly finish: Finish;
}

export interface ExecutorInit {
  readonly post: Post;
  readonly driver: number;
  readonly manager: ShuffleManager;
  readonly services: Omit<TaskServices, 'fetch' | 'sizeOf'>;
}

/** How long a task that was aborted may take to notice, ms. */
const ENDING_MS = 1000;

/** The task whose functions run now: accumulators ask. One at a time, so a variable is enough. */
let current: Task | undefined;

export function currentTask(): Task | undefined {
  return current;
}

export class Executor {
  readonly #init: ExecutorInit;
  readonly #jobs = new Map<string, KnownJob>();
  readonly #over = new Set<string>();
  readonly #queue: TaskMessage[] = [];
  /** Tasks of jobs that this rank has not reached. */
  readonly #early: TaskMessage[] = [];
  readonly #services: TaskServices;
  #running: { message: TaskMessage; abort: AbortController } | undefined;

  constructor(init: ExecutorInit) {
    this.#init = init;
    this.#services = {
      ...init.services,
      fetch: (task, shuffle, partition, into) => this.#fetch(task, shuffle, partition, into),
      sizeOf: (shuffle) => this.#sizeOf(shuffle),
    };
  }

  /** This rank has reached an action. */
  begin(plan: StagePlan, finish: Finish): void {
    for (const info of plan.shuffles.values()) this.#init.manager.register(info);
    this.#jobs.set(plan.job, { plan, finish });
    for (let i = 0; i < this.#early.length; ) {
      if (this.#early[i].at.job === plan.job) this.#queue.push(...this.#early.splice(i, 1));
      else i++;
    }
    this.#next();
  }

  /** The action is over: its tasks stop, its shuffles go. */
  end(job: string): void {
    this.#over.add(job);
    const known = this.#jobs.get(job);
    this.#jobs.delete(job);
    for (const list of [this.#queue, this.#early]) {
      for (let i = list.length - 1; i >= 0; i--) if (list[i].at.job === job) list.splice(i, 1);
    }
    if (this.#running?.message.at.job === job) this.#running.abort.abort(new Error('the job is over'));
    for (const { id } of known?.plan.shuffles.values() ?? []) this.#init.manager.unregister(id);
  }

  task(message: TaskMessage): void {
    if (this.#over.has(message.at.job)) return;
    if (!this.#jobs.has(message.at.job)) {
      this.#early.push(message);
      return;
    }
    this.#queue.push(message);
    this.#next();
  }

  /** The attempt is not wanted any more: another one was first. */
  cancel(at: TaskAt, shuffle: string | undefined): void {
    const same = ({ at: one }: TaskMessage) =>
      one.job === at.job && one.stage === at.stage && one.partition === at.partition && one.attempt === at.attempt;
    const queued = this.#queue.findIndex(same);
    if (queued >= 0) this.#queue.splice(queued, 1);
    if (this.#running && same(this.#running.message)) this.#running.abort.abort(new Error('another attempt was first'));
    if (shuffle !== undefined) this.#init.manager.discard(shuffle, at.partition, at.attempt);
  }

  #next(): void {
    if (this.#running) return;
    const message = this.#queue.shift();
    if (!message) return;
    this.#running = { message, abort: new AbortController() };
    void this.#run(message, this.#running.abort.signal).then((report) => {
      this.#running = undefined;
      if (report) void this.#init.post.send(this.#init.driver, report);
      this.#next();
    });
  }

  async #run(message: TaskMessage, signal: AbortSignal): Promise<Message | undefined> {
    const { at } = message;
    const started = performance.now();
    const job = this.#jobs.get(at.job);
    if (!job) return undefined;
    const { plan } = job;
    const task = new Task({ ...at, batchRows: message.batchRows || BATCH_ROWS }, this.#services, signal);
    current = task;
    try {
      if (plan.fingerprint !== message.fingerprint) {
        throw new DatasetError(
          'DATASET_PLAN',
          `rank ${this.#services.rank} built another plan than the driver: every rank must run the same program on the same inputs.\n` +
            `  here: ${plan.fingerprint}\n  driver: ${message.fingerprint}`,
        );
      }
      const computing = this.#compute(job, plan.stages[at.stage], task);
      const done = await unlessAborted(computing, signal).catch(async (error) => {
        // What is not wanted any more ends soon. A function of the user that hangs keeps its promise, but not this rank.
        await Promise.race([computing.catch(() => {}), new Promise((resolve) => setTimeout(resolve, ENDING_MS).unref())]);
        throw error;
      });
      return {
        type: 'done',
        at,
        ...done,
        additions: task.additions,
        kept: task.kept,
        stats: task.stats,
        ms: performance.now() - started,
      };
    } catch (error) {
      if (signal.aborted) return { type: 'failed', at, error: wordsOf(signal.reason), fetch: undefined };
      const fetch = error instanceof FetchFailed ? { shuffle: error.shuffle, maps: error.maps } : undefined;
      return { type: 'failed', at, error: wordsOf(error), fetch };
    } finally {
      current = undefined;
    }
  }

  async #compute({ plan, finish }: KnownJob, stage: Stage, task: Task) {
    if (!stage.output) {
      const value = await finish(stage.node.compute(task.partition, task), task);
      return { status: undefined, value: new Uint8Array(serialize(value)) };
    }
    const info = plan.shuffles.get(stage.output);
    if (!info) throw new DatasetError('DATASET_PLAN', 'a stage without its shuffle');
    const writer = this.#init.manager.writer(info, task.partition, task.attempt);
    try {
      await stage.output.write(writer, task);
      task.signal.throwIfAborted();
    } catch (error) {
      writer.abort();
      throw error;
    }
    const status = await writer.commit();
    if (this.#over.has(task.job)) this.#init.manager.discard(info.id, task.partition, task.attempt);
    for (const length of status.lengths) task.stats.bytesOut += length;
    return { status, value: undefined };
  }

  #sizeOf(dependency: ShuffleDependency): number {
    const message = this.#running?.message;
    const id = message && this.#jobs.get(message.at.job)?.plan.shuffles.get(dependency)?.id;
    return message?.places.find(([shuffle]) => shuffle === id)?.[2] ?? 0;
  }

  async *#fetch(
    task: Task,
    dependency: ShuffleDependency,
    partition: number,
    into: Uint8Array | undefined,
  ): AsyncIterable<FetchedBlock> {
    const info = this.#jobs.get(task.job)?.plan.shuffles.get(dependency);
    const given = this.#running?.message.places.find(([shuffle]) => shuffle === info?.id)?.[1];
    if (!info || !given) throw new DatasetError('DATASET_PLAN', 'a shuffle is read that the task was not given');
    const places: MapPlace[] = [];
    for (let map = 0; map < info.maps; map++) places.push({ map, rank: given[2 * map], attempt: given[2 * map + 1] });
    const request = { shuffle: info, partition, places, signal: task.signal, ...(into ? { into } : {}) };
    for await (const block of this.#init.manager.reader(request)) {
      task.stats.bytesIn += block.bytes.length;
      yield block;
    }
  }
}

/** Partitions that this rank keeps. */
export class PartitionCache {
  readonly #kept = new Map<string, { batches: readonly Batch[]; bytes: number }>();
  readonly #tryTake: (bytes: number) => boolean;
  readonly #give: (bytes: number) => void;

  constructor(tryTake: (bytes: number) => boolean, give: (bytes: number) => void) {
    this.#tryTake = tryTake;
    this.#give = give;
  }

  get(node: PlanNode, partition: number): readonly Batch[] | undefined {
    return this.#kept.get(`${node.id}:${partition}`)?.batches;
  }

  keep(node: PlanNode, partition: number, batches: readonly Batch[], bytes: number): boolean {
    const key = `${node.id}:${partition}`;
    if (this.#kept.has(key)) return true;
    if (!this.#tryTake(bytes)) return false;
    this.#kept.set(key, { batches, bytes });
    return true;
  }

  drop(node: PlanNode): void {
    for (const [key, { bytes }] of this.#kept) {
      if (!key.startsWith(`${node.id}:`)) continue;
      this.#kept.delete(key);
      this.#give(bytes);
    }
  }
}
