/**
 * The driver: rank 0 hands out tasks and learns what became of them.
 *
 * A stage runs when the map outputs it reads are all there. A task goes to an idle rank that has its data, if there is one, else to any idle rank. What is lost is
 * computed again: the running tasks of a dead rank, its map outputs that are still wanted, and its cached partitions, which only makes them be computed where they
 * are needed. A task that runs much longer than its siblings is started a second time elsewhere; the first result counts, the other attempt is told to stop.
 *
 * ```
 *   pending ──rank idle, inputs there──> running ──done──> done ──its rank dies, output still wanted──> pending
 *      ^────── failed (k times: the job fails), blocks missing, rank lost ───┘
 * ```
 */

import { DatasetError } from '../errors.js';
import type { ShuffleDependency } from '../plan/node.js';
import type { Stage, StagePlan } from '../plan/stages.js';
import type { MapPlace, MapStatus } from '../shuffle/manager.js';
import { wordsOf } from './failure.js';
import { type Job, medianOf, newStage, reportOf, type StageState, type TaskState } from './job-state.js';
import type { ErrorWords, JobReport, Message, Post, TaskAt } from './protocol.js';

export interface DriverOptions {
  /** Failures of one task before the job fails. */
  readonly maxFailures: number;
  /** Start slow tasks a second time. */
  readonly speculation: boolean;
  /** A task is slow when it takes so many times the median of its stage, and at least so long, ms. */
  readonly speculationFactor: number;
  readonly speculationMs: number;
}

export interface DriverInit extends DriverOptions {
  readonly post: Post;
  readonly size: number;
  readonly rank: number;
  readonly broadcastsBlocks: boolean;
  isAlive(rank: number): boolean;
  /** A task is done. */
  progress(progress: Progress): void;
  /** Adds up what tasks added to an accumulator. */
  merge(accumulator: number, a: unknown, b: unknown): unknown;
}

/** How far a stage is. */
export interface Progress {
  readonly job: string;
  readonly stage: number;
  readonly stages: number;
  readonly done: number;
  readonly tasks: number;
  /** Bytes that its tasks have put out so far. */
  readonly bytes: number;
  /** Since it began. */
  readonly ms: number;
}

type Done = Extract<Message, { type: 'done' }>;
type Failed = Extract<Message, { type: 'failed' }>;

const MOST_LOST_BLOCKS = 20;
const LOOK_MS = 100;
/** A task whose partition is cached waits so long for that rank, ms. */
const CACHE_WAIT_MS = 1000;

/** The action that a job belongs to: 7 of 7, and of 7.1, which helps it. */
const actionOf = (job: string): string => job.split('.', 1)[0];

export class Driver {
  readonly #init: DriverInit;
  readonly #jobs = new Map<string, Job>();
  /** What each busy rank works on. */
  readonly #busy = new Map<number, TaskAt>();
  /** Where cached partitions are: node:partition to rank. */
  readonly #cached = new Map<string, number>();
  /** Ranks that will not come back. */
  readonly #gone = new Set<number>();
  /** Actions that a rank has ended, and why: a job of theirs may still be to come. */
  readonly #aborted = new Map<string, ErrorWords>();
  #timer: NodeJS.Timeout | undefined;

  constructor(init: DriverInit) {
    this.#init = init;
  }

  /** Runs a job; the values of its last stage, by partition. */
  run(plan: StagePlan): Promise<{
    values: Uint8Array[] | undefined;
    error: ErrorWords | undefined;
    report: JobReport;
    additions: ReadonlyMap<number, unknown>;
  }> {
    const additions = new Map<number, unknown>();
    return new Promise((resolve) => {
      const job: Job = {
        plan,
        stages: plan.stages.map((stage) => newStage(stage, this.#init.size)),
        additions,
        begun: performance.now(),
        lost: [],
        resolve: (end) => resolve({ ...end, additions }),
        isOver: false,
      };
      this.#jobs.set(plan.job, job);
      this.#timer ??= setInterval(() => this.#look(), LOOK_MS);
      const aborted = this.#aborted.get(actionOf(plan.job));
      if (aborted || job.stages.at(-1)?.tasks.length === 0) this.#finish(job, aborted);
      else this.#pump();
    });
  }

  // ---- what happens ----

  done(rank: number, message: Done): void {
    this.#free(rank, message.at);
    const job = this.#jobs.get(message.at.job);
    const state = job?.stages[message.at.stage];
    const task = state?.tasks[message.at.partition];
    if (!job || !state || !task) return;
    for (const [node, partition] of message.kept) this.#cached.set(`${node}:${partition}`, rank);
    const isOurs = task.running.delete(message.at.attempt);
    const shuffle = state.stage.output && job.plan.shuffles.get(state.stage.output);
    if (!isOurs || task.isDone) {
      if (shuffle && task.status?.attempt !== message.at.attempt)
        void this.#init.post.send(rank, { type: 'cancel', at: message.at, shuffle: shuffle.id });
      this.#pump();
      return;
    }
    task.isDone = true;
    task.status = message.status;
    task.value = message.value;
    state.done++;
    state.times.push(message.ms);
    state.byRank[rank]++;
    state.rowsOut += message.stats.rowsOut;
    state.bytesOut += message.stats.bytesOut;
    state.spilledBytes += message.stats.spilledBytes;
    if (!task.wasCounted) {
      task.wasCounted = true;
      for (const [id, value] of message.additions) {
        job.additions.set(id, job.additions.has(id) ? this.#init.merge(id, job.additions.get(id), value) : value);
      }
    }
    this.#init.progress({
      job: job.plan.job,
      stage: state.stage.id,
      stages: job.stages.length,
      done: state.done,
      tasks: state.tasks.length,
      bytes: state.bytesOut,
      ms: performance.now() - state.begun,
    });
    for (const [attempt, { rank: other }] of task.running) {
      void this.#init.post.send(other, { type: 'cancel', at: { ...message.at, attempt }, shuffle: undefined });
    }
    if (state.done === state.tasks.length) {
      state.ended = performance.now();
      if (state === job.stages.at(-1)) {
        this.#finish(job, undefined);
        return;
      }
      this.#tellBlocks(job, state);
    }
    this.#pump();
  }

  failed(rank: number, { at, error, fetch }: Failed): void {
    this.#free(rank, at);
    const job = this.#jobs.get(at.job);
    const state = job?.stages[at.stage];
    const task = state?.tasks[at.partition];
    if (!job || !task?.running.delete(at.attempt) || task.isDone) {
      this.#pump();
      return;
    }
    if (fetch) {
      this.#blocksMissing(job, fetch.shuffle, fetch.maps);
      if (++task.lostBlocks > MOST_LOST_BLOCKS) this.#finish(job, error);
    } else {
      task.failures++;
      task.lastWasUsers = error.isUsers;
      if (error.isFatal || task.failures >= this.#init.maxFailures) {
        const tried = task.failures > 1 ? `a task failed ${task.failures} times, last on rank ${rank}: ` : '';
        this.#finish(job, { ...error, message: `${tried}${error.message}` });
      }
    }
    this.#pump();
  }

  /** A rank died, or has left. */
  lost(rank: number): void {
    if (this.#gone.has(rank)) return;
    this.#gone.add(rank);
    this.#busy.delete(rank);
    for (const [key, at] of this.#cached) if (at === rank) this.#cached.delete(key);
    for (const job of this.#jobs.values()) {
      job.lost.push(rank);
      for (const state of job.stages) {
        for (const task of state.tasks) {
          for (const [attempt, { rank: on }] of task.running) if (on === rank) task.running.delete(attempt);
          if (task.status?.rank === rank) this.#forget(job, state, task);
        }
      }
    }
    this.#pump();
  }

  /** A rank ends an action: what helps it and what it is. */
  abort(rank: number, action: string, reason: string): void {
    const error = wordsOf(new DatasetError('DATASET_ABORTED', `rank ${rank} ended the action: ${reason}`));
    this.#aborted.set(action, error);
    for (const job of [...this.#jobs.values()]) if (actionOf(job.plan.job) === action) this.#finish(job, error);
    this.#pump();
  }

  /** The status that a reader asks for. */
  status(shuffle: string, { map, rank, attempt }: MapPlace): MapStatus | undefined {
    for (const job of this.#jobs.values()) {
      for (const [dependency, { id }] of job.plan.shuffles) {
        if (id !== shuffle) continue;
        const status = this.#stateOf(job, dependency).tasks[map]?.status;
        return status?.rank === rank && status.attempt === attempt ? status : undefined;
      }
    }
    return undefined;
  }

  close(): void {
    clearInterval(this.#timer);
    for (const job of this.#jobs.values()) this.#finish(job, undefined);
  }

  // ---- what follows ----

  #stateOf(job: Job, dependency: ShuffleDependency): StageState {
    return job.stages[(job.plan.producers.get(dependency) as Stage).id];
  }

  #free(rank: number, at: TaskAt): void {
    const busy = this.#busy.get(rank);
    if (
      busy &&
      busy.job === at.job &&
      busy.stage === at.stage &&
      busy.partition === at.partition &&
      busy.attempt === at.attempt
    ) {
      this.#busy.delete(rank);
    }
  }

  /** A map output is gone. */
  #forget(job: Job, state: StageState, task: TaskState): void {
    if (!task.isDone || !this.#isWanted(job, state)) return;
    task.isDone = false;
    task.status = undefined;
    state.done--;
    state.recomputed++;
    state.told = false;
  }

  /** Whether somebody will still read the output of a stage. */
  #isWanted(job: Job, { stage }: StageState): boolean {
    return job.stages.some(
      (other) =>
        stage.output &&
        other.stage.inputs.includes(stage.output) &&
        (other.done < other.tasks.length || this.#isWanted(job, other)),
    );
  }

  #blocksMissing(job: Job, shuffle: string, maps: readonly number[]): void {
    for (const [dependency, { id }] of job.plan.shuffles) {
      if (id !== shuffle) continue;
      const state = this.#stateOf(job, dependency);
      for (const map of maps) this.#forget(job, state, state.tasks[map]);
    }
  }

  #tellBlocks(job: Job, state: StageState): void {
    const { output } = state.stage;
    if (!this.#init.broadcastsBlocks || !output || state.told) return;
    state.told = true;
    const shuffle = job.plan.shuffles.get(output)?.id ?? '';
    const statuses = state.tasks.map(({ status }) => status as MapStatus);
    for (let rank = 0; rank < this.#init.size; rank++) {
      if (this.#isUsable(rank)) void this.#init.post.send(rank, { type: 'blocks', shuffle, statuses });
    }
  }

  #finish(job: Job, error: ErrorWords | undefined): void {
    if (job.isOver) return;
    job.isOver = true;
    const last = job.stages.at(-1) as StageState;
    const values = error ? undefined : last.tasks.map(({ value }) => value ?? new Uint8Array(0));
    this.#jobs.delete(job.plan.job);
    for (const [rank, at] of this.#busy) if (at.job === job.plan.job) this.#busy.delete(rank);
    if (this.#jobs.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    job.resolve({ values, error, report: reportOf(job) });
  }

  /** Hands tasks to idle ranks. */
  #pump(): void {
    for (const job of [...this.#jobs.values()]) {
      const idle = this.#idle();
      if (idle.length === 0) {
        if (this.#living().length === 0) {
          this.#finish(job, {
            name: 'DatasetError',
            code: 'DATASET_LOST',
            message: 'no rank is left to run tasks',
            stack: '',
            isUsers: false,
            isFatal: true,
          });
        }
        return;
      }
      const ready = job.stages.filter((state) => this.#canRun(job, state));
      for (const rank of idle) this.#give(job, ready, rank);
    }
  }

  #living(): number[] {
    return Array.from({ length: this.#init.size }, (_, rank) => rank).filter((rank) => this.#isUsable(rank));
  }

  #idle(): number[] {
    return this.#living().filter((rank) => !this.#busy.has(rank));
  }

  #canRun(job: Job, { stage, done, tasks }: StageState): boolean {
    if (done === tasks.length) return false;
    return stage.inputs.every((input) => {
      const from = this.#stateOf(job, input);
      return from.done === from.tasks.length;
    });
  }

  /** Gives a rank the task that suits it best. */
  #give(job: Job, ready: readonly StageState[], rank: number): void {
    let fallback: [StageState, number] | undefined;
    for (const state of ready) {
      for (let partition = 0; partition < state.tasks.length; partition++) {
        const task = state.tasks[partition];
        if (task.isDone || task.running.size > 0) continue;
        const preferred = this.#preferred(job, state, partition);
        if (preferred.includes(rank)) {
          state.local++;
          this.#start(job, state, partition, rank);
          return;
        }
        if (preferred.length > 0 && this.#waitsForCache(state, partition)) continue;
        // A task that nobody has the data of comes before one that another rank waits to run.
        if (!fallback || (preferred.length === 0 && this.#preferred(job, fallback[0], fallback[1]).length > 0)) {
          fallback = [state, partition];
        }
      }
      if (fallback) break;
    }
    if (fallback) this.#start(job, fallback[0], fallback[1], rank);
  }

  /** The rank that has a partition of the stage in its cache. */
  #cachedAt({ stage }: StageState, partition: number): number | undefined {
    for (const node of stage.nodes) {
      const at = node.isCached ? this.#cached.get(`${node.id}:${partition}`) : undefined;
      if (at !== undefined && this.#isUsable(at)) return at;
    }
    return undefined;
  }

  #waitsForCache(state: StageState, partition: number): boolean {
    return (
      this.#cachedAt(state, partition) !== undefined && performance.now() - (state.begun || performance.now()) < CACHE_WAIT_MS
    );
  }

  #isUsable(rank: number): boolean {
    return !this.#gone.has(rank) && this.#init.isAlive(rank);
  }

  #preferred(job: Job, state: StageState, partition: number): readonly number[] {
    const cached = this.#cachedAt(state, partition);
    if (cached !== undefined) return [cached];
    const { stage } = state;
    const bytes = new Float64Array(this.#init.size);
    for (const input of stage.inputs) {
      for (const { status } of this.#stateOf(job, input).tasks) if (status) bytes[status.rank] += status.lengths[partition] ?? 0;
    }
    const most = Math.max(...bytes);
    const total = bytes.reduce((sum, one) => sum + one, 0);
    // Where the blocks lie about evenly it does not matter who reads them.
    if (most > (total / this.#init.size) * 1.5 && this.#init.size > 1) return [bytes.indexOf(most)];
    return stage.nodes[0].preferred(partition, this.#init.size).filter((rank) => this.#isUsable(rank));
  }

  #start(job: Job, state: StageState, partition: number, rank: number): void {
    const task = state.tasks[partition];
    const { stage } = state;
    const at: TaskAt = { job: job.plan.job, stage: stage.id, partition, attempt: task.attempts++ };
    state.begun ||= performance.now();
    task.running.set(at.attempt, { rank, since: performance.now() });
    this.#busy.set(rank, at);
    const places = stage.inputs.map((input) => {
      const { tasks } = this.#stateOf(job, input);
      const list = new Int32Array(tasks.length * 2);
      let bytes = 0;
      for (const [map, { status }] of tasks.entries()) {
        list[2 * map] = status?.rank ?? -1;
        list[2 * map + 1] = status?.attempt ?? -1;
        bytes += status?.lengths[partition] ?? 0;
      }
      return [job.plan.shuffles.get(input)?.id ?? '', list, bytes] as const;
    });
    const batchRows = task.lastWasUsers ? 1 : 0;
    void this.#init.post.send(rank, { type: 'task', at, fingerprint: job.plan.fingerprint, batchRows, places }).then((sent) => {
      if (!sent && task.running.delete(at.attempt)) {
        this.#free(rank, at);
        setTimeout(() => this.#pump(), LOOK_MS);
      }
    });
  }

  /** What no message tells: ranks that left, tasks that have waited long enough for a cache, slow tasks. */
  #look(): void {
    for (let rank = 0; rank < this.#init.size; rank++) if (!this.#init.isAlive(rank)) this.lost(rank);
    this.#pump();
    this.#speculate();
  }

  /** Starts slow tasks a second time. */
  #speculate(): void {
    const { speculation, speculationFactor, speculationMs } = this.#init;
    if (!speculation) return;
    for (const job of this.#jobs.values()) {
      for (const state of job.stages) {
        if (state.done * 2 < state.tasks.length || state.done === 0 || state.done === state.tasks.length) continue;
        if (state.tasks.some((task) => !task.isDone && task.running.size === 0)) continue;
        const limit = Math.max(speculationMs, speculationFactor * medianOf(state.times));
        for (const [partition, task] of state.tasks.entries()) {
          if (task.isDone || task.running.size !== 1) continue;
          const [{ rank, since }] = task.running.values();
          if (performance.now() - since < limit) continue;
          const elsewhere = this.#idle().find((one) => one !== rank);
          if (elsewhere === undefined) return;
          state.speculative++;
          this.#start(job, state, partition, elsewhere);
        }
      }
    }
  }
}
