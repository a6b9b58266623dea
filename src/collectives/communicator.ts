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
import type { Collective } from '../schedule/schedule.js';
import type { ElementType, Reduction, UserReduction, Vector } from './element.js';
import { CollectiveError } from './errors.js';
import { type Exchange, exchangeAll, parse, pause } from './exchange.js';
import type { CallCounters, Executor, Runnable, RunTimes } from './executor.js';
import { HostExecutor } from './host-executor.js';
import { LOCAL_MACHINE } from './local-machine.js';
import type { Machine } from './machine.js';
import { parseOverride } from './override.js';
import { type Plan, Planner } from './plan.js';
import { type Counts, invalid, type PairCounts, type Request, Requests } from './request.js';
import type { Selection } from './selection.js';
import type { Method } from './shared-memory/call.js';
import { type CallWaits, nextKey, Surroundings } from './surroundings.js';

export interface CommunicatorOptions {
  /** 0 .. size - 1. */
  readonly rank: number;
  /** Ranks, 1 .. 1024. All on one host. */
  readonly size: number;
  /** Where the ranks find each other. */
  readonly exchange: Exchange;
  /** Keys in the exchange begin with this; the same at all ranks, and new for each communicator. Default 'collectives'. */
  readonly key?: string;
  /** Which algorithms may run, as in `allreduce:ring;broadcast:binomial`. Default: $VERBENA_ALGORITHMS, else by cost. The same at all ranks. */
  readonly algorithms?: string;
  /** Constants for the choice of algorithms. Default: those of a usual server. The same at all ranks. */
  readonly machine?: Machine;
  /** Milliseconds after which a call gives up, and the communicator is broken. Default: Infinity; a dead rank is noticed anyhow. */
  readonly timeoutMs?: number;
  /** Milliseconds the ranks wait for each other at creation. Default 60,000. */
  readonly createTimeoutMs?: number;
}

/** Options of a communicator of a world, which knows the rest. */
export type WorldCommunicatorOptions = Omit<CommunicatorOptions, 'rank' | 'size' | 'exchange' | 'key'>;

/** Options of a call. */
export interface CollectiveOptions {
  /** Milliseconds; see CommunicatorOptions. */
  readonly timeoutMs?: number;
  /** Aborting breaks the communicator. Asynchronous forms only. */
  readonly signal?: AbortSignal;
  /** What a Uint16Array holds. Default: no default. */
  readonly type?: ElementType;
}

/** A call set up once and run often (persistent form). The same at all ranks. */
export class PreparedCall {
  readonly #runnable: Runnable;
  readonly #timeoutMs: number;
  readonly #waits: CallWaits | undefined;
  /** Why this algorithm. */
  readonly method: Method;
  readonly selection: Selection | undefined;

  /** @internal */
  constructor(runnable: Runnable, timeoutMs: number, waits: CallWaits | undefined, plan: Plan) {
    this.#runnable = runnable;
    this.#timeoutMs = timeoutMs;
    this.#waits = waits;
    this.method = plan.method;
    this.selection = plan.selection;
  }

  /** From now on runs note their times. */
  measure(): void {
    this.#runnable.measure();
  }

  /** Of the last run, once `measure` was called: when it began, when all ranks had entered, and when it ended; ms of `process.hrtime`. */
  get times(): RunTimes {
    return this.#runnable.times;
  }

  /** Under way. */
  get running(): boolean {
    return this.#runnable.running;
  }

  /** Beside the caller: the event loop stays free. */
  async run(options: CollectiveOptions = {}): Promise<void> {
    const slot = this.#waits?.enter() ?? -1;
    try {
      await this.#runnable.run(options.timeoutMs ?? this.#timeoutMs, options.signal);
    } finally {
      this.#waits?.leave(slot);
    }
  }

  /** On this thread. */
  runSync(timeoutMs = this.#timeoutMs): void {
    if (this.#waits === undefined) {
      this.#runnable.runSync(timeoutMs);
      return;
    }
    const slot = this.#waits.enter();
    try {
      this.#runnable.runSync(timeoutMs);
    } finally {
      this.#waits.leave(slot);
    }
  }
}

/** Where a communicator comes from. */
interface Origin {
  /** Whether a member is dead, while they find each other. */
  readonly isDead?: (rank: number) => boolean;
  readonly members?: readonly number[];
  readonly lastCompleted?: number;
  readonly surroundings?: Surroundings;
}

export class Communicator {
  readonly rank: number;
  readonly size: number;
  /** After `shrink`: calls that every member had completed on the communicator before. */
  readonly lastCompleted: number | undefined;
  /** After `shrink` or `split`: the ranks the members had before. */
  readonly members: readonly number[];
  readonly #executor: Executor;
  readonly #requests: Requests;
  readonly #planner: Planner;
  readonly #surroundings: Surroundings | undefined;
  readonly #options: CommunicatorOptions;
  readonly #prepared = new WeakMap<Vector, { readonly key: string; readonly call: PreparedCall }>();
  readonly #barrier: PreparedCall;
  #children = 0;

  private constructor(
    options: CommunicatorOptions,
    executor: Executor,
    members: readonly number[],
    lastCompleted: number | undefined,
    surroundings: Surroundings | undefined,
  ) {
    this.#surroundings = surroundings;
    this.rank = options.rank;
    this.size = options.size;
    this.members = members;
    this.lastCompleted = lastCompleted;
    this.#options = options;
    this.#executor = executor;
    this.#requests = new Requests(options.rank, options.size);
    const wanted = options.algorithms ?? process.env['VERBENA_ALGORITHMS'];
    this.#planner = new Planner({
      size: options.size,
      kind: executor.kind,
      machine: options.machine ?? LOCAL_MACHINE,
      override: wanted === undefined ? undefined : parseOverride(wanted),
      topology: undefined,
    });
    this.#barrier = this.#prepare(this.#requests.barrier());
  }

  /**
   * A communicator of all ranks of a world. All ranks call it, and make their communicators in the same order. A rank that dies meanwhile is named, and
   * calls that wait appear in the world's stall reports.
   * @throws RankLost, and what `create` throws
   */
  static of(world: World, options: WorldCommunicatorOptions = {}): Promise<Communicator> {
    const { rank, size, store: exchange, liveness } = world;
    const members = Array.from({ length: size }, (_, r) => r);
    const surroundings = new Surroundings(liveness, members);
    const isDead = (r: number) => surroundings.isDead(r);
    return Communicator.#create({ ...options, rank, size, exchange, key: nextKey(world) }, { isDead, surroundings });
  }

  /** All ranks call it. @throws COLL_INVALID for a bad option or ranks on several hosts, COLL_SYSTEM, and what the exchange throws. */
  static create(options: CommunicatorOptions): Promise<Communicator> {
    return Communicator.#create(options, {});
  }

  static async #create(options: CommunicatorOptions, origin: Origin): Promise<Communicator> {
    const { rank, size, exchange, key = 'collectives', createTimeoutMs = 60_000 } = options;
    if (!Number.isInteger(size) || size < 1 || size > 1024) throw invalid(`size must be 1 to 1024, got ${size}`);
    if (!Number.isInteger(rank) || rank < 0 || rank >= size) throw invalid(`rank must be 0 to ${size - 1}, got ${rank}`);
    const { isDead, members = Array.from({ length: size }, (_, r) => r), lastCompleted, surroundings } = origin;
    const executor = await HostExecutor.open(rank, size, exchange, key, { timeoutMs: createTimeoutMs, isDead });
    return new Communicator(options, executor, members, lastCompleted, surroundings);
  }

  /** Every rank ends with the combination of all. */
  async allreduce(data: Vector, op: Reduction | UserReduction = 'sum', options: CollectiveOptions = {}): Promise<void> {
    if (typeof op !== 'function') return this.#run(this.#requests.reducing('allreduce', data, op, options.type), options);
    const all = this.#requests.space(data);
    await this.allgather(all, options);
    this.#requests.fold(data, all, op);
  }

  allreduceSync(data: Vector, op: Reduction | UserReduction = 'sum', options: CollectiveOptions = {}): void {
    if (typeof op !== 'function') {
      this.#quick('allreduce', data, op, 0, options);
      return;
    }
    const all = this.#requests.space(data);
    this.allgatherSync(all, options);
    this.#requests.fold(data, all, op);
  }

  /** Rank r ends with part r of the combination (the first n mod size parts have one element more); returns it. The rest is destroyed. */
  async reduceScatter<V extends Vector>(data: V, op: Reduction = 'sum', options: CollectiveOptions & Counts = {}): Promise<V> {
    await this.#run(this.#requests.reducing('reduce-scatter', data, op, options.type, 0, options.counts), options);
    return this.#requests.part(data, options.counts);
  }

  reduceScatterSync<V extends Vector>(data: V, op: Reduction = 'sum', options: CollectiveOptions & Counts = {}): V {
    this.#runSync(this.#requests.reducing('reduce-scatter', data, op, options.type, 0, options.counts), options);
    return this.#requests.part(data, options.counts);
  }

  /** Rank r brings part r of `data`; all end with all parts. */
  async allgather(data: Vector, options: CollectiveOptions & Counts = {}): Promise<void> {
    return this.#run(this.#requests.moving('all-gather', data, 0, options.counts), options);
  }

  allgatherSync(data: Vector, options: CollectiveOptions & Counts = {}): void {
    if (options.counts === undefined) this.#quick('all-gather', data, undefined, 0, options);
    else this.#runSync(this.#requests.moving('all-gather', data, 0, options.counts), options);
  }

  /** All end with what the root has. */
  async broadcast(data: Vector, root = 0, options: CollectiveOptions = {}): Promise<void> {
    return this.#run(this.#requests.moving('broadcast', data, root), options);
  }

  broadcastSync(data: Vector, root = 0, options: CollectiveOptions = {}): void {
    this.#quick('broadcast', data, undefined, root, options);
  }

  /** The root ends with the combination; elsewhere `data` is destroyed. */
  async reduce(data: Vector, op: Reduction = 'sum', root = 0, options: CollectiveOptions = {}): Promise<void> {
    return this.#run(this.#requests.reducing('reduce', data, op, options.type, root), options);
  }

  reduceSync(data: Vector, op: Reduction = 'sum', root = 0, options: CollectiveOptions = {}): void {
    this.#quick('reduce', data, op, root, options);
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
  async scan(data: Vector, op: Exclude<Reduction, 'avg'> = 'sum', options: CollectiveOptions = {}): Promise<void> {
    return this.#run(this.#requests.reducing('scan', data, op, options.type), options);
  }

  scanSync(data: Vector, op: Exclude<Reduction, 'avg'> = 'sum', options: CollectiveOptions = {}): void {
    this.#runSync(this.#requests.reducing('scan', data, op, options.type), options);
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
    return this.#barrier.run(options);
  }

  barrierSync(): void {
    this.#barrier.runSync();
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

  prepareBroadcast(data: Vector, root = 0): PreparedCall {
    return this.#prepare(this.#requests.moving('broadcast', data, root));
  }

  prepareAllgather(data: Vector): PreparedCall {
    return this.#prepare(this.#requests.moving('all-gather', data, 0));
  }

  prepareAlltoall(input: Vector, output: Vector): PreparedCall {
    return this.#prepare(this.#requests.exchanging(input, output, {}));
  }

  /** Totals over all calls of this rank. */
  counters(): CallCounters {
    return { ...this.#executor.totals };
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
    const { exchange, createTimeoutMs = 60_000 } = this.#options;
    const name = `${this.#options.key ?? 'collectives'}/split-${++this.#children}`;
    const said = await exchangeAll(
      exchange,
      name,
      this.rank,
      this.size,
      { colour: colour ?? null, key },
      {
        timeoutMs: createTimeoutMs,
      },
    );
    if (colour === undefined) return undefined;
    const members = said
      .flatMap((one, rank) => (one.colour === colour ? [{ rank, key: one.key }] : []))
      .sort((a, b) => a.key - b.key || a.rank - b.rank)
      .map(({ rank }) => rank);
    return this.#child(`${name}/${colour}`, members, undefined);
  }

  /** Ends calls under way at all ranks with COLL_ABORTED. The communicator is broken afterwards. */
  abort(): void {
    this.#executor.abort();
  }

  /**
   * After a loss: a communicator of the ranks that live. They agree on the members and on `lastCompleted`, also when another rank dies
   * meanwhile. All surviving ranks call it; this communicator is broken and closed by it.
   */
  async shrink(options: { readonly timeoutMs?: number } = {}): Promise<Communicator> {
    const deadline = performance.now() + (options.timeoutMs ?? 60_000);
    this.#executor.abort();
    const completed = this.#executor.completed;
    for (let attempt = 1; ; attempt++) {
      const name = `${this.#options.key ?? 'collectives'}/shrink-${attempt}`;
      await this.#options.exchange.set(`${name}/${this.rank}`, String(completed));
      const { members, lastCompleted } = await this.#decide(name, deadline);
      if (!members.includes(this.rank)) throw new CollectiveError('COLL_PEER_LOST', 'the other ranks took this one for dead');
      let child: Communicator | undefined;
      try {
        child = await this.#child(`${name}/members`, members, lastCompleted);
        await child.barrier(); // all pass, or none does
        this.close();
        return child;
      } catch (error) {
        // Another rank died meanwhile: all who live come here, and decide again.
        child?.close();
        if (performance.now() > deadline || !members.some((r) => this.#executor.isDead(r))) throw error;
      }
    }
  }

  /** The lowest rank that lives hears everybody who lives and decides; the first decision counts. */
  async #decide(name: string, deadline: number): Promise<{ members: number[]; lastCompleted: number }> {
    const { exchange } = this.#options;
    const key = `${name}/decision`;
    const heard = new Map<number, number>();
    for (;;) {
      const decision = await exchange.get(key);
      if (decision !== undefined) return parse(decision);
      const living = Array.from({ length: this.size }, (_, r) => r).filter((r) => !this.#executor.isDead(r));
      if (living[0] === this.rank) {
        for (const r of living) {
          const said = heard.has(r) ? undefined : await exchange.get(`${name}/${r}`);
          if (said !== undefined) heard.set(r, Number(new TextDecoder().decode(said)));
        }
        if (living.every((r) => heard.has(r))) {
          const lastCompleted = Math.min(...living.map((r) => heard.get(r) as number));
          await exchange.compareAndSet(key, undefined, JSON.stringify({ members: living, lastCompleted }));
          continue;
        }
      }
      if (performance.now() > deadline) {
        throw new CollectiveError('COLL_TIMEOUT', 'not all living ranks called shrink() in time');
      }
      await pause();
    }
  }

  #child(key: string, members: readonly number[], lastCompleted: number | undefined): Promise<Communicator> {
    const rank = members.indexOf(this.rank);
    const isDead = (r: number) => this.#executor.isDead(members[r]);
    const surroundings = this.#surroundings?.of(members);
    const options = { ...this.#options, key, rank, size: members.length };
    return Communicator.#create(options, { isDead, members, lastCompleted, surroundings });
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
  #quick(
    collective: 'allreduce' | 'all-gather' | 'broadcast' | 'reduce',
    data: Vector,
    op: Reduction | undefined,
    root: number,
    options: CollectiveOptions,
  ): void {
    const key = `${collective} ${op} ${root} ${options.type} ${data.length}`;
    let kept = this.#prepared.get(data);
    if (kept?.key !== key) {
      const request =
        op === undefined
          ? this.#requests.moving(collective, data, root)
          : this.#requests.reducing(collective, data, op, options.type, root);
      kept = { key, call: this.#prepare(request) };
      this.#prepared.set(data, kept);
    }
    kept.call.runSync(options.timeoutMs);
  }

  async #run(request: Request, options: CollectiveOptions): Promise<void> {
    await this.#prepare(request).run(options);
  }

  #runSync(request: Request, options: CollectiveOptions): void {
    this.#prepare(request).runSync(options.timeoutMs);
  }

  #prepare(request: Request): PreparedCall {
    const plan = this.#planner.plan(request);
    return new PreparedCall(
      this.#executor.prepare(request, plan),
      this.#options.timeoutMs ?? Number.POSITIVE_INFINITY,
      this.#surroundings?.waitsOf(request.collective),
      plan,
    );
  }
}
