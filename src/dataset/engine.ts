/**
 * The engine of one rank: what a session stands on. It joins messaging, memory, the shuffle manager, the executor and, on rank 0, the driver, and runs jobs.
 *
 * All ranks run the same jobs in the same order. A job has an outcome that every rank learns, so that programs that look at results stay in step.
 */

import { writeFileSync } from 'node:fs';
import { deserialize } from 'node:v8';
import type { World } from '../launch/index.js';
import type { Worker } from '../messaging/index.js';
import type { Accumulator } from './accumulator.js';
import type { Dataset } from './dataset.js';
import { DatasetError } from './errors.js';
import { drawPlan } from './explain/draw.js';
import { explainPlan } from './explain/explain.js';
import { Budget } from './memory/budget.js';
import { type Segment, SegmentPool } from './memory/segment-pool.js';
import { SpillDirectory } from './memory/spill-directory.js';
import type { ActionOptions, Settings } from './options.js';
import type { PlanNode, Preparation } from './plan/node.js';
import { planStages, type StagePlan } from './plan/stages.js';
import type { Batch, Task } from './plan/task.js';
import { Driver, type Progress } from './scheduler/driver.js';
import { Executor, PartitionCache } from './scheduler/executor.js';
import { errorOf } from './scheduler/failure.js';
import { type JobReport, type Message, Post } from './scheduler/protocol.js';
import { chooseShuffle, type ShuffleChoice } from './shuffle/choice.js';
import {
  type MapPlace,
  type MapStatus,
  newCounters,
  type ShuffleCounters,
  type ShuffleManager,
  type ShuffleServices,
} from './shuffle/manager.js';

type End = Extract<Message, { type: 'end' }>;

const DRIVER = 0;

/** What became of a job. */
export interface JobOutcome {
  readonly plan: StagePlan;
  readonly report: JobReport | undefined;
}

export class Engine {
  readonly world: World;
  readonly settings: Settings;
  readonly memory: Budget;
  readonly disk: SpillDirectory;
  readonly counters: ShuffleCounters;
  readonly accumulators: Accumulator<unknown>[] = [];
  /** Called on the driver when a task is done. */
  readonly listeners = new Set<(progress: Progress) => void>();
  readonly choice: ShuffleChoice;
  readonly pool: SegmentPool;
  readonly #rows: MakeRows;
  readonly #post: Post;
  readonly #manager: ShuffleManager;
  readonly #executor: Executor;
  readonly #driver: Driver | undefined;
  readonly #cache: PartitionCache;
  readonly #ends = new Map<string, (end: End) => void>();
  /** Who waits for something that ends with the driver. */
  readonly #waiting = new Set<(error: Error) => void>();
  /** Ends that came before this rank's program got there. */
  readonly #early = new Map<string, End>();
  readonly #blocks: Map<string, readonly MapStatus[]>;
  readonly #questions = new Map<number, (status: MapStatus | undefined) => void>();
  readonly #stopListening: () => void;
  #question = 0;
  #jobs = 0;
  #broadcasts = 0;
  readonly #kept: { segment: Segment; name: string }[] = [];
  #last: JobOutcome | undefined;
  readonly #outcomes = new WeakMap<PlanNode, JobOutcome>();
  #closed = false;

  private constructor(world: World, settings: Settings, worker: Worker, parts: EngineParts) {
    this.world = world;
    this.settings = settings;
    this.#rows = parts.rows;
    this.memory = parts.memory;
    this.disk = parts.disk;
    this.pool = parts.pool;
    this.choice = parts.choice;
    this.#blocks = parts.blocks;
    this.#cache = new PartitionCache(
      (bytes) => this.memory.tryTake(bytes, this.memory.waiting),
      (bytes) => this.memory.give(bytes),
    );
    this.#post = new Post(
      worker,
      world.rank,
      (rank) => world.endpoint(rank),
      (from, message) => this.#take(from, message),
    );
    this.#manager = parts.manager;
    this.counters = parts.counters;
    parts.questions.status = (shuffle, place) => this.#status(shuffle, place);
    this.#executor = new Executor({
      post: this.#post,
      driver: DRIVER,
      manager: this.#manager,
      services: {
        rank: world.rank,
        memory: this.memory,
        disk: this.disk,
        pool: this.pool,
        cached: (node, partition) => this.#cache.get(node, partition),
        keep: (node, partition, batches, bytes) => this.#cache.keep(node, partition, batches, bytes),
      },
    });
    if (world.rank === DRIVER) {
      this.#driver = new Driver({
        post: this.#post,
        size: world.size,
        rank: world.rank,
        broadcastsBlocks: this.#manager.blockList === 'broadcast',
        maxFailures: settings.maxFailures,
        speculation: settings.speculation,
        speculationFactor: settings.speculationFactor,
        speculationMs: settings.speculationMs,
        isAlive: (rank) => rank === world.rank || world.liveness.stateOf(rank) === 'running',
        progress: (progress) => {
          for (const listener of this.listeners) listener(progress);
        },
        merge: (id, a, b) => this.accumulators[id].merge(a, b),
      });
    }
    this.#stopListening = world.liveness.onLost(({ rank, reason }) => {
      this.#driver?.lost(rank);
      if (rank !== DRIVER || this.#driver) return;
      const error = new DatasetError('DATASET_LOST', `rank 0, which hands out the tasks, is lost: ${reason}`);
      for (const reject of this.#waiting) reject(error);
    });
  }

  static async open(world: World, settings: Settings, rows: MakeRows): Promise<Engine> {
    const worker = await world.worker;
    const memory = new Budget(settings.memoryBytes);
    const disk = new SpillDirectory(new Budget(settings.diskBytes), settings.spillDirectory);
    const pool = new SegmentPool(worker, memory, disk);
    const choice = chooseShuffle(settings.shuffle, worker.context.provider);
    const blocks = new Map<string, readonly MapStatus[]>();
    const questions: EngineParts['questions'] = { status: async () => undefined };
    const counters = newCounters();
    const services: ShuffleServices = {
      rank: world.rank,
      size: world.size,
      worker,
      endpoint: (rank) => world.endpoint(rank),
      pool,
      memory,
      disk,
      windowBytes: settings.windowBytes,
      checksums: settings.checksums,
      status: (shuffle, place) => questions.status(shuffle, place),
      counters,
      address: (world.hosts.length > 1 ? world.members[world.rank].addresses[0]?.address : undefined) ?? '127.0.0.1',
    };
    const manager = await choice.factory(services);
    const engine = new Engine(world, settings, worker, {
      rows,
      memory,
      disk,
      pool,
      choice,
      blocks,
      counters,
      manager,
      questions,
    });
    await world.barrier();
    return engine;
  }

  /** A node as a dataset of rows. */
  rows<T>(node: PlanNode): Dataset<T> {
    return this.#rows(this, node);
  }

  get isDriver(): boolean {
    return this.world.rank === DRIVER;
  }

  /** The last action that ended. */
  get lastJob(): JobOutcome | undefined {
    return this.#last;
  }

  /** The last job over a node. */
  outcomeOf(node: PlanNode): JobOutcome | undefined {
    return this.#outcomes.get(node);
  }

  /** Runs an action: a job over a node, and those that it needs before. The values by partition, on every rank. */
  async run<R>(
    node: PlanNode,
    finish: (batches: AsyncIterable<Batch>, task: Task) => Promise<R>,
    { signal, isOfUser = true }: RunOptions = {},
  ): Promise<R[]> {
    if (this.#closed) throw new DatasetError('DATASET_CLOSED', 'the session is closed');
    const job = String(++this.#jobs);
    // The other ranks are in this action, too: it begins in any case, and the driver ends it for all.
    const abort = () => void this.#post.send(DRIVER, { type: 'abort', action: job, reason: String(signal?.reason) });
    if (signal?.aborted) abort();
    signal?.addEventListener('abort', abort);
    try {
      await node.prepare(this.preparation(job));
      const drawing = process.env['VERBENA_DRAW_PLAN'];
      if (drawing !== undefined && isOfUser) await drawAndEnd(this, node, drawing);
      return await this.#job(job, node, finish, isOfUser);
    } catch (error) {
      throw signal?.aborted && DatasetError.is(error) && error.code === 'DATASET_ABORTED' ? signal.reason : error;
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }

  /** The action that counts the rows of a node. */
  async count(node: PlanNode, options: ActionOptions): Promise<number> {
    const count = async (batches: AsyncIterable<Batch>) => {
      let n = 0;
      for await (const batch of batches) n += batch.length;
      return n;
    };
    return (await this.run(node, count, options)).reduce((sum, n) => sum + n, 0);
  }

  preparation(job: string): Preparation {
    let jobs = 0;
    return {
      defaultPartitions: this.settings.partitions,
      size: this.world.size,
      memoryBytes: this.settings.memoryBytes,
      run: (node, finish) => this.#job(`${job}.${++jobs}`, node, finish, false),
    };
  }

  /** Prepares a plan without running it, as explain() needs it. */
  async prepare(node: PlanNode): Promise<StagePlan> {
    const job = String(++this.#jobs);
    await node.prepare(this.preparation(job));
    return planStages(job, node);
  }

  async #job<R>(
    id: string,
    node: PlanNode,
    finish: (batches: AsyncIterable<Batch>, task: Task) => Promise<R>,
    isOfUser: boolean,
  ): Promise<R[]> {
    const plan = planStages(id, node);
    const ended = new Promise<End>((resolve) => {
      this.#ends.set(id, resolve);
    });
    this.#executor.begin(plan, finish);
    const early = this.#early.get(id);
    if (early) this.#take(DRIVER, early);
    if (this.#driver) void this.#drive(plan);
    try {
      const end = await this.orLost(ended);
      for (const [accumulator, amount] of end.additions) this.accumulators[accumulator]?.apply(amount);
      const outcome = { plan, report: end.report };
      this.#outcomes.set(node, outcome);
      if (isOfUser) this.#last = outcome;
      if (end.error || !end.values)
        throw end.error ? errorOf(end.error) : new DatasetError('DATASET_CLOSED', 'the session was closed');
      return end.values.map((value) => deserialize(value) as R);
    } finally {
      this.#ends.delete(id);
      this.#executor.end(id);
      for (const { id: shuffle } of plan.shuffles.values()) this.#blocks.delete(shuffle);
    }
  }

  /** The result of something that needs the driver. @throws DATASET_LOST when it is gone. */
  orLost<T>(work: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#waiting.add(reject);
      work.then(resolve, reject).finally(() => this.#waiting.delete(reject));
      if (!this.#driver && this.world.liveness.stateOf(DRIVER) !== 'running')
        reject(new DatasetError('DATASET_LOST', 'rank 0, which hands out the tasks, is gone'));
    });
  }

  async #drive(plan: StagePlan): Promise<void> {
    const { values, error, report, additions } = await (this.#driver as Driver).run(plan);
    const end: End = { type: 'end', job: plan.job, values, error, additions, report };
    const { world } = this;
    for (let rank = 0; rank < world.size; rank++) {
      if (rank === world.rank || world.liveness.stateOf(rank) === 'running') void this.#post.send(rank, end);
    }
  }

  #take(from: number, message: Message): void {
    switch (message.type) {
      case 'task':
        this.#executor.task(message);
        break;
      case 'cancel':
        this.#executor.cancel(message.at, message.shuffle);
        break;
      case 'done':
        this.#driver?.done(from, message);
        break;
      case 'failed':
        this.#driver?.failed(from, message);
        break;
      case 'blocks':
        this.#blocks.set(message.shuffle, message.statuses);
        break;
      case 'where': {
        const status = this.#driver?.status(message.shuffle, message.place);
        void this.#post.send(from, { type: 'there', request: message.request, status });
        break;
      }
      case 'there':
        this.#questions.get(message.request)?.(message.status);
        this.#questions.delete(message.request);
        break;
      case 'end': {
        const resolve = this.#ends.get(message.job);
        if (resolve) {
          resolve(message);
          this.#early.delete(message.job);
        } else this.#early.set(message.job, message);
        break;
      }
      case 'abort':
        this.#driver?.abort(from, message.action, message.reason);
        break;
      case 'leave':
        this.#driver?.lost(from);
        break;
    }
  }

  /** Where a map output is: from the block list, the driver's own records, or by asking it. */
  async #status(shuffle: string, place: MapPlace): Promise<MapStatus | undefined> {
    const listed = this.#blocks.get(shuffle)?.[place.map];
    if (listed?.rank === place.rank && listed.attempt === place.attempt) return listed;
    if (this.#driver) return this.#driver.status(shuffle, place);
    const request = ++this.#question;
    const answer = new Promise<MapStatus | undefined>((resolve) => this.#questions.set(request, resolve));
    if (!(await this.#post.send(DRIVER, { type: 'where', request, shuffle, place }))) this.#questions.get(request)?.(undefined);
    return answer;
  }

  nextBroadcast(): number {
    return ++this.#broadcasts;
  }

  /** Memory that others may read as long as the session lives, and the name in the store under which they find it. */
  keepUntilClose(segment: Segment, name: string): void {
    this.#kept.push({ segment, name });
  }

  /** Drops the cached partitions of a node, here. */
  uncache(node: PlanNode): void {
    this.#cache.drop(node);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#stopListening();
    if (!this.#driver) await this.#post.send(DRIVER, { type: 'leave' });
    this.#driver?.close();
    // Nobody lets go of memory that another rank still reads.
    try {
      await this.world.barrier({ timeoutMs: 10_000 });
    } catch {
      // A rank is lost, or does something else: it does not read any more.
    }
    for (const { segment, name } of this.#kept) {
      segment.release();
      void this.world.store.delete(name).catch(() => {}); // it goes with the world
    }
    await this.#manager.stop();
    this.#post.close();
    this.pool.close();
  }
}

/** Rows and columns lead to each other, so one of them is made here. */
type MakeRows = <T>(engine: Engine, node: PlanNode) => Dataset<T>;

interface RunOptions extends ActionOptions {
  /** False for what only helps an action. Default true. */
  readonly isOfUser?: boolean;
}

interface EngineParts {
  readonly rows: MakeRows;
  readonly memory: Budget;
  readonly disk: SpillDirectory;
  readonly pool: SegmentPool;
  readonly choice: ShuffleChoice;
  readonly blocks: Map<string, readonly MapStatus[]>;
  readonly counters: ShuffleCounters;
  readonly manager: ShuffleManager;
  /** Filled in by the engine, which the manager's questions go to. */
  readonly questions: { status: ShuffleServices['status'] };
}

/** `verbena draw dag` wants the plan of the first action, and nothing more. */
async function drawAndEnd(engine: Engine, node: PlanNode, file: string): Promise<never> {
  writeFileSync(file, drawPlan(await explainPlan(engine, node)));
  process.exit(0);
}
