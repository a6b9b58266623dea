/**
 * A communicator: a group of ranks and the collectives among them.
 *
 *   const world = await init();                       // the ranks of the job
 *   const comm = await Communicator.of(world);
 *   await comm.allreduce(gradient, 'avg');            // on a thread: the event loop stays free
 *   comm.allreduceSync(gradient, 'avg');              // on this thread: the fastest for small vectors
 *
 * Every rank makes the same calls in the same order. A rank that calls something else is found out before a byte moves: all get COLL_MISMATCH, and may go on. A rank
 * whose process ends breaks the communicator: calls reject with RankLost, and `shrink()` gives the survivors a new one. So do timeouts and aborts
 * in the middle of a call.
 *
 * Vectors are worked on in place. Memory of `device.alloc` is used where it lies; other memory is copied through a staging area.
 */

import type { World } from '../launch/index.js';
import type { Worker } from '../messaging/index.js';
import type { Collective, Schedule } from '../schedule/schedule.js';
import type { Topology } from '../schedule/topology.js';
import type { Reduction, UserReduction, Vector } from './element.js';
import { CollectiveError, type CollectiveErrorCode } from './errors.js';
import { type Exchange, exchangeAll, type Patience } from './exchange.js';
import type { CallCounters, Executor, ExecutorKind } from './executor.js';
import { type ExecutorChoice, GivenGround, type Ground, type Opened, WorldGround } from './ground.js';
import { LOCAL_MACHINE } from './local-machine.js';
import type { Machine } from './machine.js';
import { admit, decideMembers, lineBefore, lossBehind, standInLine } from './membership.js';
import { parseOverride } from './override.js';
import { type Plan, Planner } from './plan.js';
import { type CollectiveOptions, PreparedCall } from './prepared-call.js';
import { type Counts, invalid, type PairCounts, type Request, Requests } from './request.js';
import type { Selection } from './selection.js';
import type { Method } from './shared-memory/call.js';
import { nextKey } from './surroundings.js';
import { tunedMachine } from './tuned-machine.js';

export interface CommunicatorOptions {
  /** 0 .. size - 1. */
  readonly rank: number;
  /** Ranks, 1 .. 1024. */
  readonly size: number;
  /** Where the ranks find each other. */
  readonly exchange: Exchange;
  /** Keys in the exchange begin with this; the same at all ranks, and new for each communicator. Default 'collectives'. */
  readonly key?: string;
  /** Which algorithms may run, as in `allreduce:ring;broadcast:binomial`. Default: $VERBENA_ALGORITHMS, else by cost. The same at all ranks. */
  readonly algorithms?: string;
  /** Constants for the choice of algorithms. Default: what `verbena tune` measured, where all ranks are on one host; else those of a usual server. The same at all ranks. */
  readonly machine?: Machine;
  /**
   * Milliseconds after which a call gives up, and the communicator is broken. `shrink` then leaves out who lives but does not come for so long, a process that was stopped, say; on
   * shared memory that one is ended. Default: Infinity; a dead rank is noticed anyhow.
   */
  readonly timeoutMs?: number;
  /** Milliseconds the ranks wait for each other at creation. Default 60,000. */
  readonly createTimeoutMs?: number;
  /** Calls run over messages of this worker, between any hosts. Default: on shared memory, and all ranks are on one host. The same choice at all ranks. */
  readonly worker?: Worker;
  /** With `worker`: a faster one among the ranks that say the same `home`, for instance of shared memory inside a host. Default: none. */
  readonly near?: { readonly worker: Worker; readonly home: string };
  /** Where the ranks live, for hierarchical algorithms. Default: nothing is known. The same at all ranks. */
  readonly topology?: Topology;
}

/** Options of a communicator of a world, which knows the rest. */
export interface WorldCommunicatorOptions
  extends Omit<CommunicatorOptions, 'rank' | 'size' | 'exchange' | 'key' | 'worker' | 'near' | 'topology'> {
  /** What runs the calls. Default: shared memory where all ranks share a host, else messages. The same at all ranks. */
  readonly executor?: ExecutorKind;
}

/** How a rank comes to a communicator that grows. */
export interface JoinOptions extends Omit<CommunicatorOptions, 'rank' | 'size' | 'key'> {
  /** `key` of the communicator that grows, or of the one that it came from by `shrink` and `grow`. */
  readonly key: string;
  /** Where this process is a rank of the same world as the members. */
  readonly world?: World;
}

/** Where a communicator comes from. */
interface Origin {
  readonly ground: Ground;
  /** Whether a member is dead, while they find each other. */
  readonly isDead?: (rank: number) => boolean;
  readonly members?: readonly number[];
  readonly lastCompleted?: number;
  /** `key` of the communicator that this one is the successor of. */
  readonly key?: string;
}

export class Communicator {
  readonly rank: number;
  readonly size: number;
  /** What others need to `join` when it grows: its name in the exchange, or that of its predecessor, before it shrank or grew. */
  readonly key: string;
  /** What runs the calls, and why. */
  readonly executor: ExecutorChoice;
  /** After `shrink`: calls that every member had completed on the communicator before. */
  readonly lastCompleted: number | undefined;
  /** After `shrink` or `split`: the ranks the members had before. */
  readonly members: readonly number[];
  readonly #name: string;
  readonly #executor: Executor;
  readonly #requests: Requests;
  readonly #planner: Planner;
  readonly #ground: Ground;
  readonly #options: CommunicatorOptions;
  readonly #prepared = new WeakMap<Vector, { readonly key: string; readonly call: PreparedCall }>();
  readonly #barrier: PreparedCall;
  readonly #failed = (error: unknown): void => {
    if (error instanceof CollectiveError && BREAKING.has(error.code)) this.#broken ??= error;
  };
  #broken: CollectiveError | undefined;
  #children = 0;

  private constructor(options: CommunicatorOptions, { executor, choice }: Opened, origin: Origin) {
    const { rank, size, key = DEFAULT_KEY } = options;
    this.rank = rank;
    this.size = size;
    this.key = origin.key ?? key;
    this.#name = key;
    this.executor = choice;
    this.members = origin.members ?? everyone(size);
    this.lastCompleted = origin.lastCompleted;
    this.#ground = origin.ground;
    this.#options = options;
    this.#executor = executor;
    this.#requests = new Requests(rank, size);
    const wanted = options.algorithms ?? process.env['VERBENA_ALGORITHMS'];
    this.#planner = new Planner({
      size,
      kind: executor.kind,
      machine: options.machine ?? (executor.kind === 'shared-memory' ? tunedMachine(size) : LOCAL_MACHINE),
      override: wanted === undefined ? undefined : parseOverride(wanted),
      topology: origin.ground.topology,
    });
    this.#barrier = this.#prepare(this.#requests.barrier());
  }

  /**
   * A communicator of all ranks of a world: on shared memory where they share a host, else over messages; `executor` says which and why. All ranks call it,
   * and make their communicators in the same order. A rank that dies meanwhile is named, and calls that wait appear in the world's stall reports.
   * @throws RankLost, and what `create` throws
   */
  static of(world: World, options: WorldCommunicatorOptions = {}): Promise<Communicator> {
    const { rank, size, store: exchange } = world;
    const ground = new WorldGround(world, everyone(size), options.executor);
    const isDead = (r: number) => ground.surroundings.isDead(r);
    return Communicator.#create({ ...options, rank, size, exchange, key: nextKey(world) }, { ground, isDead });
  }

  /** All ranks call it. @throws COLL_INVALID for a bad option or ranks on several hosts, COLL_SYSTEM, and what the exchange throws. */
  static create(options: CommunicatorOptions): Promise<Communicator> {
    return Communicator.#create(options, { ground: new GivenGround(options.worker, options.near, options.topology) });
  }

  /**
   * Comes to a communicator whose members call `grow`; the rank is the next that is free. @throws COLL_TIMEOUT when nobody calls `grow` within `createTimeoutMs`, and
   * what `create` throws
   */
  static async join(options: JoinOptions): Promise<Communicator> {
    const { exchange, key, world, createTimeoutMs = PATIENCE_MS } = options;
    const { name, rank, size } = await standInLine(exchange, key, createTimeoutMs);
    return Communicator.#grown({ ...options, rank, size, key: name }, key, world, world?.rank, undefined);
  }

  static async #create(options: CommunicatorOptions, origin: Origin): Promise<Communicator> {
    const { rank, size, exchange, key = DEFAULT_KEY, createTimeoutMs = PATIENCE_MS } = options;
    if (!Number.isInteger(size) || size < 1 || size > 1024) throw invalid(`size must be 1 to 1024, got ${size}`);
    if (!Number.isInteger(rank) || rank < 0 || rank >= size) throw invalid(`rank must be 0 to ${size - 1}, got ${rank}`);
    const patience = { timeoutMs: createTimeoutMs, isDead: origin.isDead };
    const opened = await origin.ground.open({ rank, size, exchange, key, patience }).catch(async (error: unknown) => {
      throw (await lossBehind(error, size, origin.isDead)) ?? error;
    });
    return new Communicator(options, opened, origin);
  }

  /** Every rank ends with the combination of all. */
  async allreduce(data: Vector, op: Reduction | UserReduction = 'sum', options: CollectiveOptions = {}): Promise<void> {
    if (typeof op !== 'function') return this.#keep('allreduce', data, op, 0, options).run(options);
    const all = this.#requests.space(data);
    await this.allgather(all, options);
    this.#requests.fold(data, all, op);
  }

  allreduceSync(data: Vector, op: Reduction | UserReduction = 'sum', options: CollectiveOptions = {}): void {
    if (typeof op !== 'function') {
      this.#keep('allreduce', data, op, 0, options).runSync(options.timeoutMs);
      return;
    }
    const all = this.#requests.space(data);
    this.allgatherSync(all, options);
    this.#requests.fold(data, all, op);
  }

  /** Rank r ends with part r of the combination (the first n mod size parts have one element more); returns it. The rest is destroyed. */
  async reduceScatter<V extends Vector>(
    data: V,
    op: Reduction | UserReduction = 'sum',
    options: CollectiveOptions & Counts = {},
  ): Promise<V> {
    if (typeof op === 'function') await this.allreduce(data, op, options);
    else await this.#run(this.#requests.reducing('reduce-scatter', data, op, options.type, 0, options.counts), options);
    return this.#requests.part(data, options.counts);
  }

  reduceScatterSync<V extends Vector>(
    data: V,
    op: Reduction | UserReduction = 'sum',
    options: CollectiveOptions & Counts = {},
  ): V {
    if (typeof op === 'function') this.allreduceSync(data, op, options);
    else this.#runSync(this.#requests.reducing('reduce-scatter', data, op, options.type, 0, options.counts), options);
    return this.#requests.part(data, options.counts);
  }

  /** Rank r brings part r of `data`; all end with all parts. */
  async allgather(data: Vector, options: CollectiveOptions & Counts = {}): Promise<void> {
    if (options.counts === undefined) return this.#keep('all-gather', data, undefined, 0, options).run(options);
    return this.#run(this.#requests.moving('all-gather', data, 0, options.counts), options);
  }

  allgatherSync(data: Vector, options: CollectiveOptions & Counts = {}): void {
    if (options.counts === undefined) this.#keep('all-gather', data, undefined, 0, options).runSync(options.timeoutMs);
    else this.#runSync(this.#requests.moving('all-gather', data, 0, options.counts), options);
  }

  /** All end with what the root has. */
  async broadcast(data: Vector, root = 0, options: CollectiveOptions = {}): Promise<void> {
    return this.#keep('broadcast', data, undefined, root, options).run(options);
  }

  broadcastSync(data: Vector, root = 0, options: CollectiveOptions = {}): void {
    this.#keep('broadcast', data, undefined, root, options).runSync(options.timeoutMs);
  }

  /** The root ends with the combination; elsewhere `data` is destroyed. */
  async reduce(data: Vector, op: Reduction | UserReduction = 'sum', root = 0, options: CollectiveOptions = {}): Promise<void> {
    if (typeof op !== 'function') return this.#keep('reduce', data, op, root, options).run(options);
    const all = this.rank === root ? this.#requests.space(data) : undefined;
    await this.gather(data, all, root, options);
    if (all !== undefined) this.#requests.fold(data, all, op);
  }

  reduceSync(data: Vector, op: Reduction | UserReduction = 'sum', root = 0, options: CollectiveOptions = {}): void {
    if (typeof op !== 'function') {
      this.#keep('reduce', data, op, root, options).runSync(options.timeoutMs);
      return;
    }
    const all = this.rank === root ? this.#requests.space(data) : undefined;
    this.gatherSync(data, all, root, options);
    if (all !== undefined) this.#requests.fold(data, all, op);
  }

  /** The root's `output` becomes the inputs one after the other. All inputs are equally long, or as long as `counts` says. */
  async gather(input: Vector, output: Vector | undefined, root = 0, options: CollectiveOptions & Counts = {}): Promise<void> {
    return this.#run(this.#requests.rooted('gather', input, output, root, options.counts), options);
  }

  gatherSync(input: Vector, output: Vector | undefined, root = 0, options: CollectiveOptions & Counts = {}): void {
    this.#runSync(this.#requests.rooted('gather', input, output, root, options.counts), options);
  }

  /** Part r of the root's `input` goes to the `output` of rank r. */
  async scatter(input: Vector | undefined, output: Vector, root = 0, options: CollectiveOptions & Counts = {}): Promise<void> {
    return this.#run(this.#requests.rooted('scatter', input, output, root, options.counts), options);
  }

  scatterSync(input: Vector | undefined, output: Vector, root = 0, options: CollectiveOptions & Counts = {}): void {
    this.#runSync(this.#requests.rooted('scatter', input, output, root, options.counts), options);
  }

  /** Part d of `input` goes to rank d, part s of `output` comes from rank s. Parts are equal, or as `sendCounts` and `receiveCounts` say. */
  async alltoall(input: Vector, output: Vector, options: CollectiveOptions & PairCounts = {}): Promise<void> {
    return this.#run(this.#requests.exchanging(input, output, options), options);
  }

  alltoallSync(input: Vector, output: Vector, options: CollectiveOptions & PairCounts = {}): void {
    this.#runSync(this.#requests.exchanging(input, output, options), options);
  }

  /** Rank r ends with the combination of ranks 0 .. r. */
  async scan(
    data: Vector,
    op: Exclude<Reduction, 'avg'> | UserReduction = 'sum',
    options: CollectiveOptions = {},
  ): Promise<void> {
    if (typeof op !== 'function') return this.#run(this.#requests.reducing('scan', data, op, options.type), options);
    const all = this.#requests.space(data);
    await this.allgather(all, options);
    this.#requests.fold(data, all, op, this.rank + 1);
  }

  scanSync(data: Vector, op: Exclude<Reduction, 'avg'> | UserReduction = 'sum', options: CollectiveOptions = {}): void {
    if (typeof op !== 'function') {
      this.#runSync(this.#requests.reducing('scan', data, op, options.type), options);
      return;
    }
    const all = this.#requests.space(data);
    this.allgatherSync(all, options);
    this.#requests.fold(data, all, op, this.rank + 1);
  }

  /** Sends `input` to the rank `distance` ahead, takes `output` from the one behind (cyclic). */
  async sendrecv(input: Vector, output: Vector, distance = 1, options: CollectiveOptions = {}): Promise<void> {
    return this.#run(this.#requests.shifting(input, output, distance), options);
  }

  sendrecvSync(input: Vector, output: Vector, distance = 1, options: CollectiveOptions = {}): void {
    this.#runSync(this.#requests.shifting(input, output, distance), options);
  }

  /** Nobody leaves before everybody has entered. */
  barrier(options: CollectiveOptions = {}): Promise<void> {
    return (this.#barrier.running ? this.prepareBarrier() : this.#barrier).run(options);
  }

  barrierSync(options: Pick<CollectiveOptions, 'timeoutMs'> = {}): void {
    (this.#barrier.running ? this.prepareBarrier() : this.#barrier).runSync(options.timeoutMs);
  }

  /**
   * Reproducible all-reduce: `shards` vectors altogether, each rank brings an equal share of them, one after the other; `output` becomes their combination in
   * one fixed order: the same bits for every number of ranks that divides `shards`. The shards are destroyed.
   */
  async allreduceShards(
    own: Vector,
    output: Vector,
    shards: number,
    op: Reduction = 'sum',
    options: CollectiveOptions = {},
  ): Promise<void> {
    return this.#run(this.#requests.sharded(own, output, shards, op, options.type), options);
  }

  allreduceShardsSync(own: Vector, output: Vector, shards: number, op: Reduction = 'sum', options: CollectiveOptions = {}): void {
    this.#runSync(this.#requests.sharded(own, output, shards, op, options.type), options);
  }

  /** An all-reduce of this vector set up once. The vector's memory must stay where it is. */
  prepareAllreduce(data: Vector, op: Reduction = 'sum', options: Pick<CollectiveOptions, 'type'> = {}): PreparedCall {
    return this.#prepare(this.#requests.reducing('allreduce', data, op, options.type));
  }

  prepareReduceScatter(
    data: Vector,
    op: Reduction = 'sum',
    options: Pick<CollectiveOptions, 'type'> & Counts = {},
  ): PreparedCall {
    return this.#prepare(this.#requests.reducing('reduce-scatter', data, op, options.type, 0, options.counts));
  }

  prepareReduce(data: Vector, op: Reduction = 'sum', root = 0, options: Pick<CollectiveOptions, 'type'> = {}): PreparedCall {
    return this.#prepare(this.#requests.reducing('reduce', data, op, options.type, root));
  }

  prepareScan(data: Vector, op: Exclude<Reduction, 'avg'> = 'sum', options: Pick<CollectiveOptions, 'type'> = {}): PreparedCall {
    return this.#prepare(this.#requests.reducing('scan', data, op, options.type));
  }

  prepareBroadcast(data: Vector, root = 0): PreparedCall {
    return this.#prepare(this.#requests.moving('broadcast', data, root));
  }

  prepareAllgather(data: Vector, options: Counts = {}): PreparedCall {
    return this.#prepare(this.#requests.moving('all-gather', data, 0, options.counts));
  }

  prepareGather(input: Vector, output: Vector | undefined, root = 0, options: Counts = {}): PreparedCall {
    return this.#prepare(this.#requests.rooted('gather', input, output, root, options.counts));
  }

  prepareScatter(input: Vector | undefined, output: Vector, root = 0, options: Counts = {}): PreparedCall {
    return this.#prepare(this.#requests.rooted('scatter', input, output, root, options.counts));
  }

  prepareAlltoall(input: Vector, output: Vector, options: PairCounts = {}): PreparedCall {
    return this.#prepare(this.#requests.exchanging(input, output, options));
  }

  prepareSendrecv(input: Vector, output: Vector, distance = 1): PreparedCall {
    return this.#prepare(this.#requests.shifting(input, output, distance));
  }

  prepareBarrier(): PreparedCall {
    return this.#prepare(this.#requests.barrier());
  }

  /**
   * A schedule of one's own, ready to run. The buffers are those that the method of its collective takes, in its order; one that this rank does not have is
   * undefined. The same at all ranks. @throws COLL_INVALID for buffers that do not fit, and for a schedule that cannot run here. It is not proved here: `proveSchedule` does that.
   */
  prepareSchedule(
    schedule: Schedule,
    buffers: readonly (Vector | undefined)[] = [],
    op: Reduction = 'sum',
    options: Pick<CollectiveOptions, 'type'> = {},
  ): PreparedCall {
    if (schedule.size !== this.size) throw invalid(`the schedule is for ${schedule.size} ranks, not for ${this.size}`);
    return this.#prepare(this.#requests.scheduled(schedule, buffers, op, options.type), {
      method: 'program',
      selection: undefined,
      schedule,
    });
  }

  /** Totals over all calls of this rank. */
  counters(): CallCounters {
    return { ...this.#executor.totals };
  }

  /** What broke this communicator, once a call has failed with it: a lost rank, a timeout, an abort. `shrink()` gives a new one. */
  get broken(): CollectiveError | undefined {
    return this.#broken;
  }

  /** Part r of a vector, r this rank's number. */
  part<V extends Vector>(data: V, counts?: readonly number[]): V {
    return this.#requests.part(data, counts);
  }

  /** What would run for a vector of this many bytes, and why. `selection` is undefined where the call fits into the entry slots. */
  explain(collective: Collective, bytes: number): { readonly method: Method; readonly selection: Selection | undefined } {
    const { method, selection } = this.#planner.plan({ collective, buffers: [], count: bytes, type: 'u8' });
    return { method, selection };
  }

  /** Groups of the ranks that say the same colour, ordered by key, then by rank. All ranks call it. Undefined: this rank joins none. */
  async split(colour: number | undefined, key = 0): Promise<Communicator | undefined> {
    const name = `${this.#name}/split-${++this.#children}`;
    const said = await exchangeAll(
      this.#options.exchange,
      name,
      this.rank,
      this.size,
      { colour: colour ?? null, key },
      this.#patience,
    );
    if (colour === undefined) return undefined;
    const members = said
      .flatMap((one, rank) => (one.colour === colour ? [{ rank, key: one.key }] : []))
      .sort((a, b) => a.key - b.key || a.rank - b.rank)
      .map(({ rank }) => rank);
    return this.#child(`${name}/${colour}`, members, undefined, undefined);
  }

  /** Others who have called `Communicator.join` with this `key` and wait to be let in. */
  async newcomers(): Promise<number> {
    return (await lineBefore(this.#options.exchange, this.key)).length;
  }

  /**
   * A communicator of the members, who keep their ranks, and of as many others, who call `Communicator.join` with this one's `key`; those come first who called first. All
   * members call it. It comes about for all or for none, and this communicator stays as it is.
   * @throws COLL_INVALID for a number below 1, RankLost of this one, COLL_TIMEOUT when so many do not come within `timeoutMs` (default: `createTimeoutMs`)
   */
  async grow(newcomers: number, options: { readonly timeoutMs?: number } = {}): Promise<Communicator> {
    if (!Number.isInteger(newcomers) || newcomers < 1) throw invalid(`newcomers must be 1 or more, got ${newcomers}`);
    const { rank, key } = this;
    const { exchange, createTimeoutMs = PATIENCE_MS } = this.#options;
    const { timeoutMs = createTimeoutMs } = options;
    const size = this.size + newcomers;
    const name = `${this.#name}/grow-${++this.#children}`;
    const agreed = new Int32Array(1);
    if (rank === 0) agreed[0] = (await admit(exchange, key, { name, first: this.size, size }, timeoutMs)) ? 1 : 0;
    await this.broadcast(agreed, 0, { timeoutMs: Number.POSITIVE_INFINITY });
    const tooFew = (why: string) =>
      new CollectiveError('COLL_TIMEOUT', `${newcomers} newcomers of '${key}' did not come within ${timeoutMs} ms: ${why}`);
    if (agreed[0] === 0) throw tooFew('they call Communicator.join with that key');
    const isDead = (r: number) => r < this.size && this.#executor.isDead(r);
    const worldRank = this.#ground.worldRank(rank);
    const wanted = { ...this.#options, size, key: name, createTimeoutMs: timeoutMs };
    let failure: Error | undefined;
    const larger = await Communicator.#grown(wanted, key, this.#ground.world, worldRank, isDead).catch((error: Error) => {
      failure = error;
      return undefined;
    });
    agreed[0] = larger === undefined ? 0 : 1;
    try {
      await this.allreduce(agreed, 'min');
    } catch (error) {
      larger?.close();
      throw error;
    }
    if (larger !== undefined && agreed[0] === 1) return larger;
    larger?.close();
    throw tooFew(failure?.message ?? 'another rank could not reach them');
  }

  /** Members of a grown communicator tell each other who they are in the world, if they are. */
  static async #grown(
    options: CommunicatorOptions & { readonly key: string },
    from: string,
    world: World | undefined,
    worldRank: number | undefined,
    isDead: ((rank: number) => boolean) | undefined,
  ): Promise<Communicator> {
    const { rank, size, exchange, key, createTimeoutMs = PATIENCE_MS, worker, near, topology } = options;
    const patience = { timeoutMs: createTimeoutMs, isDead };
    const ranks = await exchangeAll(exchange, `${key}/who`, rank, size, worldRank ?? null, patience);
    const isWorld = world !== undefined && ranks.every((r) => r !== null);
    const ground = isWorld
      ? new WorldGround(world, ranks as number[], (options as WorldCommunicatorOptions).executor)
      : new GivenGround(worker, near, topology?.size === size ? topology : undefined);
    return Communicator.#create(options, { ground, isDead, key: from });
  }

  /** Ends calls under way at all ranks with COLL_ABORTED. The communicator is broken afterwards. */
  abort(): void {
    this.#executor.abort();
  }

  /**
   * After a loss: a communicator of the ranks that live. They agree on the members and on `lastCompleted`, also when another rank dies
   * meanwhile. All surviving ranks call it; this communicator is broken and closed by it. @throws COLL_PEER_LOST at a rank that the others left out, COLL_TIMEOUT when a living
   * rank does not call it (see the communicator's `timeoutMs`)
   */
  async shrink(options: { readonly timeoutMs?: number } = {}): Promise<Communicator> {
    const { timeoutMs: silentMs = Number.POSITIVE_INFINITY } = this.#options;
    const deadline = performance.now() + (options.timeoutMs ?? PATIENCE_MS + (Number.isFinite(silentMs) ? silentMs : 0));
    this.#executor.abort();
    const completed = this.#executor.completed;
    const { rank, size } = this;
    const isDead = (r: number) => this.#executor.isDead(r);
    for (let attempt = 1; ; attempt++) {
      const name = `${this.#name}/shrink-${attempt}`;
      const { members, lastCompleted } = await decideMembers(this.#options.exchange, name, {
        rank,
        size,
        completed,
        isDead,
        deadline,
        silentAfter: performance.now() + silentMs,
      });
      if (!members.includes(rank)) throw new CollectiveError('COLL_PEER_LOST', 'the other ranks took this one for dead');
      let child: Communicator | undefined;
      try {
        for (const silent of everyone(size)) if (!members.includes(silent)) await this.#executor.expel(silent);
        child = await this.#child(`${name}/members`, members, lastCompleted, this.key);
        await child.barrier(); // all pass, or none does
        this.close();
        return child;
      } catch (error) {
        // Another rank died meanwhile: all who live come here, and decide again.
        child?.close();
        if (performance.now() > deadline || !members.some(isDead)) throw error;
      }
    }
  }

  get #patience(): Patience {
    return { timeoutMs: this.#options.createTimeoutMs ?? PATIENCE_MS, isDead: (r) => this.#executor.isDead(r) };
  }

  #child(
    name: string,
    members: readonly number[],
    lastCompleted: number | undefined,
    key: string | undefined,
  ): Promise<Communicator> {
    const options = { ...this.#options, key: name, rank: members.indexOf(this.rank), size: members.length };
    const isDead = (r: number) => this.#executor.isDead(members[r]);
    return Communicator.#create(options, { ground: this.#ground.of(members), isDead, members, lastCompleted, key });
  }

  /** Ends calls under way, here and at the other ranks, with COLL_CLOSED. Idempotent. */
  close(): void {
    this.#executor.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  // ---- from requests to calls ----

  /** The usual case, a vector that comes again: its call is kept with it. */
  #keep(
    collective: 'allreduce' | 'all-gather' | 'broadcast' | 'reduce',
    data: Vector,
    op: Reduction | undefined,
    root: number,
    options: CollectiveOptions,
  ): PreparedCall {
    const key = `${collective} ${op} ${root} ${options.type} ${data.length}`;
    const kept = this.#prepared.get(data);
    if (kept?.key === key && !kept.call.running) return kept.call;
    const call = this.#prepare(
      op === undefined
        ? this.#requests.moving(collective, data, root)
        : this.#requests.reducing(collective, data, op, options.type, root),
    );
    this.#prepared.set(data, { key, call });
    return call;
  }

  async #run(request: Request, options: CollectiveOptions): Promise<void> {
    await this.#prepare(request).run(options);
  }

  #runSync(request: Request, options: CollectiveOptions): void {
    this.#prepare(request).runSync(options.timeoutMs);
  }

  #prepare(request: Request, plan: Plan = this.#planner.plan(request)): PreparedCall {
    return new PreparedCall(this.#executor.prepare(request, plan), plan, {
      timeoutMs: this.#options.timeoutMs ?? Number.POSITIVE_INFINITY,
      waits: this.#ground.surroundings?.waitsOf(request.collective),
      failed: this.#failed,
    });
  }
}

/** Errors after which a communicator is of no more use. */
const BREAKING: ReadonlySet<CollectiveErrorCode> = new Set(['COLL_PEER_LOST', 'COLL_TIMEOUT', 'COLL_ABORTED']);

const DEFAULT_KEY = 'collectives';
/** How long ranks wait for each other where nothing else is said, ms. */
const PATIENCE_MS = 60_000;

function everyone(size: number): number[] {
  return Array.from({ length: size }, (_, rank) => rank);
}
