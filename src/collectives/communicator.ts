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
import { countsSplit, evenSplit } from '../schedule/split.js';
import type { Shape } from './algorithm.js';
import {
  type ElementType,
  elementType,
  movedType,
  type Reduction,
  reductionCode,
  typeCode,
  type UserReduction,
  type Vector,
} from './element.js';
import { CollectiveError } from './errors.js';
import { type Exchange, exchangeAll, parse, pause } from './exchange.js';
import { LOCAL_MACHINE } from './local-machine.js';
import type { Machine } from './machine.js';
import { type Override, parseOverride } from './override.js';
import { type Selection, selectAlgorithm } from './selection.js';
import { type BoundSchedule, bindSchedule } from './shared-memory/bound-schedule.js';
import { AT, type CallBuffer, type Method } from './shared-memory/call.js';
import { type Call, SharedMemoryExecutor } from './shared-memory/executor.js';
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

/** What calls of this rank moved. */
export interface CallCounters {
  readonly bytesSent: number;
  readonly bytesAccessed: number;
  readonly messages: number;
}

/** A call set up once and run often (persistent form). The same at all ranks. */
export class PreparedCall {
  readonly #executor: SharedMemoryExecutor;
  readonly #call: Call;
  readonly #timeoutMs: number;
  readonly #waits: CallWaits | undefined;
  /** Why this algorithm. */
  readonly method: Method;
  readonly selection: Selection | undefined;

  /** @internal */
  constructor(executor: SharedMemoryExecutor, call: Call, timeoutMs: number, waits: CallWaits | undefined, plan: Plan) {
    this.#executor = executor;
    this.#call = call;
    this.#timeoutMs = timeoutMs;
    this.#waits = waits;
    this.method = plan.method;
    this.selection = plan.selection;
  }

  /** From now on runs note their times. */
  measure(): void {
    this.#call.block[AT.timed] = 1;
  }

  /** Of the last run, once `measure` was called: when it began, when all ranks had entered, and when it ended; ms of `process.hrtime`. */
  get times(): { readonly beganMs: number; readonly metMs: number; readonly endedMs: number } {
    const [beganMs, metMs, endedMs] = this.#call.block.subarray(AT.times, AT.times + 3);
    return { beganMs, metMs, endedMs };
  }

  /** On the executor's thread. */
  async run(options: CollectiveOptions = {}): Promise<void> {
    const slot = this.#waits?.enter() ?? -1;
    try {
      await this.#executor.run(this.#call, options.timeoutMs ?? this.#timeoutMs, options.signal);
    } finally {
      this.#waits?.leave(slot);
    }
  }

  /** On this thread. */
  runSync(timeoutMs = this.#timeoutMs): void {
    if (this.#waits === undefined) {
      this.#executor.runSync(this.#call, timeoutMs);
      return;
    }
    const slot = this.#waits.enter();
    try {
      this.#executor.runSync(this.#call, timeoutMs);
    } finally {
      this.#waits.leave(slot);
    }
  }
}

/** What a collective is asked to do; one of these describes every call. */
interface Request {
  readonly collective: Collective;
  /** User buffers in the order of the contract; undefined where this rank has none. */
  readonly buffers: readonly (Vector | undefined)[];
  /** Elements that chunks are cut from. */
  readonly count: number;
  readonly type: ElementType;
  readonly reduction?: Reduction;
  readonly root?: number;
  /** v-forms: elements of each chunk, for each user buffer; undefined: even. */
  readonly counts?: readonly (readonly number[] | undefined)[];
  readonly shards?: number;
  /** Only these algorithms can do it. */
  readonly only?: string;
}

/** Up to this many bytes a call fits into the entry slots. */
const SLOT_BYTES = 4064;
const IN_SLOTS: ReadonlySet<Collective> = new Set([
  'allreduce',
  'reduce-scatter',
  'all-gather',
  'broadcast',
  'reduce',
  'barrier',
]);
const MOST_PLANS = 512;

interface Plan {
  readonly method: Method;
  readonly selection: Selection | undefined;
  readonly bound: BoundSchedule | undefined;
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
  readonly #executor: SharedMemoryExecutor;
  readonly #surroundings: Surroundings | undefined;
  readonly #options: CommunicatorOptions;
  readonly #override: Override | undefined;
  readonly #machine: Machine;
  readonly #plans = new Map<string, Plan>();
  readonly #prepared = new WeakMap<Vector, { readonly key: string; readonly call: PreparedCall }>();
  readonly #barrier: PreparedCall;
  #children = 0;

  private constructor(
    options: CommunicatorOptions,
    executor: SharedMemoryExecutor,
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
    const wanted = options.algorithms ?? process.env['VERBENA_ALGORITHMS'];
    this.#override = wanted === undefined ? undefined : parseOverride(wanted);
    this.#machine = options.machine ?? LOCAL_MACHINE;
    this.#barrier = this.#prepare({ collective: 'barrier', buffers: [], count: 0, type: 'u8' });
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
    const executor = await SharedMemoryExecutor.open(rank, size, exchange, key, { timeoutMs: createTimeoutMs, isDead });
    return new Communicator(options, executor, members, lastCompleted, surroundings);
  }

  /** Every rank ends with the combination of all. */
  async allreduce(data: Vector, op: Reduction | UserReduction = 'sum', options: CollectiveOptions = {}): Promise<void> {
    if (typeof op !== 'function') return this.#run(this.#reducing('allreduce', data, op, options), options);
    const all = this.#space(data);
    await this.allgather(all, options);
    this.#fold(data, all, op);
  }

  allreduceSync(data: Vector, op: Reduction | UserReduction = 'sum', options: CollectiveOptions = {}): void {
    if (typeof op !== 'function') {
      this.#quick('allreduce', data, op, 0, options);
      return;
    }
    const all = this.#space(data);
    this.allgatherSync(all, options);
    this.#fold(data, all, op);
  }

  /** Rank r ends with part r of the combination (the first n mod size parts have one element more); returns it. The rest is destroyed. */
  async reduceScatter<V extends Vector>(data: V, op: Reduction = 'sum', options: CollectiveOptions & Counts = {}): Promise<V> {
    await this.#run(this.#reducing('reduce-scatter', data, op, options, 0, options.counts), options);
    return this.part(data, options.counts);
  }

  reduceScatterSync<V extends Vector>(data: V, op: Reduction = 'sum', options: CollectiveOptions & Counts = {}): V {
    this.#runSync(this.#reducing('reduce-scatter', data, op, options, 0, options.counts), options);
    return this.part(data, options.counts);
  }

  /** Rank r brings part r of `data`; all end with all parts. */
  async allgather(data: Vector, options: CollectiveOptions & Counts = {}): Promise<void> {
    return this.#run(this.#moving('all-gather', data, 0, options.counts), options);
  }

  allgatherSync(data: Vector, options: CollectiveOptions & Counts = {}): void {
    if (options.counts === undefined) this.#quick('all-gather', data, undefined, 0, options);
    else this.#runSync(this.#moving('all-gather', data, 0, options.counts), options);
  }

  /** All end with what the root has. */
  async broadcast(data: Vector, root = 0, options: CollectiveOptions = {}): Promise<void> {
    return this.#run(this.#moving('broadcast', data, root), options);
  }

  broadcastSync(data: Vector, root = 0, options: CollectiveOptions = {}): void {
    this.#quick('broadcast', data, undefined, root, options);
  }

  /** The root ends with the combination; elsewhere `data` is destroyed. */
  async reduce(data: Vector, op: Reduction = 'sum', root = 0, options: CollectiveOptions = {}): Promise<void> {
    return this.#run(this.#reducing('reduce', data, op, options, root), options);
  }

  reduceSync(data: Vector, op: Reduction = 'sum', root = 0, options: CollectiveOptions = {}): void {
    this.#quick('reduce', data, op, root, options);
  }

  /** The root's `output` becomes the inputs one after the other. All inputs are equally long, or as long as `counts` says. */
  async gather(input: Vector, output: Vector | undefined, root = 0, options: CollectiveOptions & Counts = {}): Promise<void> {
    return this.#run(this.#rooted('gather', input, output, root, options.counts), options);
  }

  gatherSync(input: Vector, output: Vector | undefined, root = 0, options: CollectiveOptions & Counts = {}): void {
    this.#runSync(this.#rooted('gather', input, output, root, options.counts), options);
  }

  /** Part r of the root's `input` goes to the `output` of rank r. */
  async scatter(input: Vector | undefined, output: Vector, root = 0, options: CollectiveOptions & Counts = {}): Promise<void> {
    return this.#run(this.#rooted('scatter', input, output, root, options.counts), options);
  }

  scatterSync(input: Vector | undefined, output: Vector, root = 0, options: CollectiveOptions & Counts = {}): void {
    this.#runSync(this.#rooted('scatter', input, output, root, options.counts), options);
  }

  /** Part d of `input` goes to rank d, part s of `output` comes from rank s. Parts are equal, or as `sendCounts` and `receiveCounts` say. */
  async alltoall(input: Vector, output: Vector, options: CollectiveOptions & PairCounts = {}): Promise<void> {
    return this.#run(this.#exchanging(input, output, options), options);
  }

  alltoallSync(input: Vector, output: Vector, options: CollectiveOptions & PairCounts = {}): void {
    this.#runSync(this.#exchanging(input, output, options), options);
  }

  /** Rank r ends with the combination of ranks 0 .. r. */
  async scan(data: Vector, op: Exclude<Reduction, 'avg'> = 'sum', options: CollectiveOptions = {}): Promise<void> {
    return this.#run(this.#reducing('scan', data, op, options), options);
  }

  scanSync(data: Vector, op: Exclude<Reduction, 'avg'> = 'sum', options: CollectiveOptions = {}): void {
    this.#runSync(this.#reducing('scan', data, op, options), options);
  }

  /** Sends `input` to the rank `distance` ahead, takes `output` from the one behind (cyclic). */
  async sendrecv(input: Vector, output: Vector, distance = 1, options: CollectiveOptions = {}): Promise<void> {
    return this.#run(this.#shifting(input, output, distance), options);
  }

  sendrecvSync(input: Vector, output: Vector, distance = 1, options: CollectiveOptions = {}): void {
    this.#runSync(this.#shifting(input, output, distance), options);
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
    return this.#run(this.#sharded(own, output, shards, op, options), options);
  }

  allreduceShardsSync(own: Vector, output: Vector, shards: number, op: Reduction = 'sum', options: CollectiveOptions = {}): void {
    this.#runSync(this.#sharded(own, output, shards, op, options), options);
  }

  /** An all-reduce of this vector set up once. The vector's memory must stay where it is. */
  prepareAllreduce(data: Vector, op: Reduction = 'sum', options: Pick<CollectiveOptions, 'type'> = {}): PreparedCall {
    return this.#prepare(this.#reducing('allreduce', data, op, options));
  }

  prepareBroadcast(data: Vector, root = 0): PreparedCall {
    return this.#prepare(this.#moving('broadcast', data, root));
  }

  prepareAllgather(data: Vector): PreparedCall {
    return this.#prepare(this.#moving('all-gather', data, 0));
  }

  prepareAlltoall(input: Vector, output: Vector): PreparedCall {
    return this.#prepare(this.#exchanging(input, output, {}));
  }

  /** Totals over all calls of this rank. */
  counters(): CallCounters {
    return { ...this.#executor.totals };
  }

  /** Part r of a vector, r this rank's number. */
  part<V extends Vector>(data: V, counts?: readonly number[]): V {
    const split = counts === undefined ? evenSplit(data.length, this.size) : countsSplit(counts);
    return data.subarray(split.offset(this.rank), split.offset(this.rank + 1)) as V;
  }

  /** What would run for a vector of this many bytes, and why. `selection` is undefined where the call fits into the entry slots. */
  explain(collective: Collective, bytes: number): { readonly method: Method; readonly selection: Selection | undefined } {
    const { method, selection } = this.#plan({ collective, buffers: [], count: bytes, type: 'u8' });
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

  // ---- from calls to requests ----

  #reducing(
    collective: Collective,
    data: Vector,
    reduction: Reduction,
    options: Pick<CollectiveOptions, 'type'>,
    root = 0,
    counts?: readonly number[],
  ): Request {
    if (collective === 'scan' && reduction === 'avg') throw invalid('a scan has no average');
    const type = elementType(data, options.type);
    this.#checkCounts(counts, data.length);
    return { collective, buffers: [data], count: data.length, type, reduction, root, counts: [counts] };
  }

  #moving(collective: Collective, data: Vector, root: number, counts?: readonly number[]): Request {
    this.#checkCounts(counts, data.length);
    return { collective, buffers: [data], count: data.length, type: movedType(data), root, counts: [counts] };
  }

  #rooted(
    collective: 'gather' | 'scatter',
    input: Vector | undefined,
    output: Vector | undefined,
    root: number,
    counts?: readonly number[],
  ): Request {
    const [part, whole] = collective === 'gather' ? [input, output] : [output, input];
    if (part === undefined) throw invalid(`${collective} needs the part of this rank`);
    const count = counts === undefined ? part.length * this.size : counts.reduce((sum, n) => sum + n, 0);
    this.#checkCounts(counts, count);
    if (counts !== undefined && part.length !== counts[this.rank]) {
      throw invalid(`this rank's part has ${part.length} elements, counts says ${counts[this.rank]}`);
    }
    if (this.rank === root && whole?.length !== count) {
      throw invalid(`the root of a ${collective} needs a vector of ${count} elements, got ${whole?.length ?? 'none'}`);
    }
    const at = this.rank === root ? whole : undefined;
    const buffers = collective === 'gather' ? [part, at] : [at, part];
    return { collective, buffers, count, type: movedType(part), root, counts: [counts, counts] };
  }

  #exchanging(input: Vector, output: Vector, { sendCounts, receiveCounts }: PairCounts): Request {
    if ((sendCounts === undefined) !== (receiveCounts === undefined))
      throw invalid('give sendCounts and receiveCounts, or neither');
    const request = { collective: 'all-to-all' as const, buffers: [input, output], type: movedType(input) };
    if (sendCounts === undefined) {
      if (input.length !== output.length || input.length % this.size !== 0) {
        throw invalid(
          `all-to-all needs two vectors of the same length, a multiple of ${this.size}: ${input.length}, ${output.length}`,
        );
      }
      return { ...request, count: input.length };
    }
    this.#checkCounts(sendCounts, input.length);
    this.#checkCounts(receiveCounts, output.length);
    return { ...request, count: 0, counts: [sendCounts, receiveCounts], only: 'pairwise' };
  }

  #shifting(input: Vector, output: Vector, distance: number): Request {
    if (input.length !== output.length) throw invalid(`sendrecv needs vectors of one length: ${input.length}, ${output.length}`);
    const root = ((distance % this.size) + this.size) % this.size;
    return { collective: 'send-receive', buffers: [input, output], count: input.length, type: movedType(input), root };
  }

  #sharded(own: Vector, output: Vector, shards: number, reduction: Reduction, options: CollectiveOptions): Request {
    if (!Number.isInteger(shards / this.size) || shards < 1) {
      throw invalid(`shards must be a multiple of the ${this.size} ranks, got ${shards}`);
    }
    const n = output.length;
    if (own.length !== (n * shards) / this.size) {
      throw invalid(`this rank brings ${shards / this.size} vectors of ${n} elements, got ${own.length} elements`);
    }
    const part = evenSplit(n, this.size);
    const one = Array.from({ length: this.size }, (_, c) => part.offset(c + 1) - part.offset(c));
    const counts = Array.from({ length: shards }, () => one).flat();
    const type = elementType(own, options.type);
    return {
      collective: 'sharded-allreduce',
      buffers: [own, output],
      count: n * shards,
      type,
      reduction,
      shards,
      counts: [counts, counts],
    };
  }

  #checkCounts(counts: readonly number[] | undefined, elements: number): void {
    if (counts === undefined) return;
    const total = counts.reduce((sum, n) => sum + n, 0);
    if (counts.length !== this.size || total !== elements) {
      throw invalid(`counts must be ${this.size} numbers that add up to ${elements}: [${counts.join(', ')}]`);
    }
  }

  /** Room for everybody's vector, with one's own in its place. */
  #space(data: Vector): Vector {
    const make = data.constructor as new (length: number) => Vector;
    const all = new make(data.length * this.size);
    all.set(data as never, data.length * this.rank);
    return all;
  }

  #fold(data: Vector, all: Vector, op: UserReduction): void {
    const n = data.length;
    data.set(all.subarray(0, n) as never);
    for (let r = 1; r < this.size; r++) op(data, all.subarray(r * n, (r + 1) * n));
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
        op === undefined ? this.#moving(collective, data, root) : this.#reducing(collective, data, op, options, root);
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
    const { collective, buffers, count, type, reduction, root = 0, counts = [] } = request;
    if (!Number.isInteger(root) || root < 0 || root >= this.size)
      throw invalid(`root must be 0 to ${this.size - 1}, got ${root}`);
    const plan = this.#plan(request);
    const kept: unknown[] = [plan, buffers];
    const offsetsOf = (list: readonly number[] | undefined): number => {
      if (list === undefined) return 0;
      const split = countsSplit(list);
      const offsets = Float64Array.from({ length: list.length + 1 }, (_, c) => split.offset(c));
      kept.push(offsets);
      return this.#executor.addressOf(offsets);
    };
    const called: CallBuffer[] =
      plan.bound === undefined ? buffers.map((data) => this.#whole(data)) : this.#bound(request, plan.bound, offsetsOf);
    const contributions = request.shards ?? this.size;
    const identity = hash(
      `${plan.selection?.algorithm.name} ${plan.selection?.shape.segments} ${collective === 'all-to-all' ? '' : counts.join('|')}`,
    );
    const call = this.#executor.call(
      `${collective} of ${count} x ${type}`,
      kept,
      {
        collective,
        method: plan.method,
        op: reduction === undefined ? 0 : reductionCode(reduction, type),
        type: typeCode(type),
        root,
        divisor: reduction === 'avg' ? contributions : 1,
        identity,
        count,
        program: plan.bound === undefined ? 0 : this.#executor.addressOf(plan.bound.program),
      },
      called,
    );
    return new PreparedCall(
      this.#executor,
      call,
      this.#options.timeoutMs ?? Number.POSITIVE_INFINITY,
      this.#surroundings?.waitsOf(collective),
      plan,
    );
  }

  #whole(data: Vector | undefined): CallBuffer {
    const place = data === undefined ? { address: 0, handle: -1 } : this.#executor.locate(data);
    const bytes = data?.byteLength ?? 0;
    return { ...place, bytes, offsets: 0, first: 0, window: 0, exposed: true, input: true, output: true };
  }

  #bound(
    { collective, buffers, count, type, root = 0, counts = [] }: Request,
    { schedule, buffers: specs }: BoundSchedule,
    offsetsOf: (list: readonly number[] | undefined) => number,
  ): CallBuffer[] {
    const width = WIDTHS[type];
    // Scratch is cut like the data it takes in: the first user buffer's counts.
    return specs.map(({ user, window, exposed }, id): CallBuffer => {
      const list = counts[user ? id : 0];
      const split = list === undefined ? evenSplit(count, schedule.chunks) : countsSplit(list);
      let elements = 0;
      for (let k = 0; k < window.count; k++) {
        const c = (window.first + k) % schedule.chunks;
        elements += split.offset(c + 1) - split.offset(c);
      }
      const data = user ? buffers[id] : undefined;
      const empty = user && data === undefined;
      const place = data === undefined || data.length === 0 ? { address: 0, handle: -1 } : this.#executor.locate(data);
      const input = collective === 'broadcast' ? this.rank === root : id === 0;
      return {
        ...place,
        bytes: empty ? 0 : elements * width,
        offsets: offsetsOf(list),
        first: window.first,
        window: window.count,
        exposed,
        input: user && input,
        output: user && (id === 1 || specs.filter((s) => s.user).length === 1),
      };
    });
  }

  #plan(request: Request): Plan {
    const { collective, count, type, root = 0, counts = [], shards, only } = request;
    const bytes = count * WIDTHS[type];
    const uneven = counts.some((list) => list !== undefined);
    const key = `${collective} ${bytes} ${root} ${uneven} ${shards}`;
    let plan = this.#plans.get(key);
    if (plan !== undefined) return plan;
    const free = this.#override?.get(collective) === undefined;
    if (free && !uneven && bytes <= SLOT_BYTES && IN_SLOTS.has(collective)) {
      plan = { method: 'slots', selection: undefined, bound: undefined };
    } else {
      plan = this.#planByCost(
        { size: this.size, bytes, root, ...(shards === undefined ? {} : { shards }) },
        collective,
        uneven,
        only,
      );
    }
    if (this.#plans.size >= MOST_PLANS) this.#plans.clear();
    this.#plans.set(key, plan);
    return plan;
  }

  #planByCost(shape: Shape, collective: Collective, uneven: boolean, only: string | undefined): Plan {
    const machine: Machine =
      shape.shards === undefined ? this.#machine : { ...this.#machine, offers: [...(this.#machine.offers ?? []), 'shards'] };
    const override = only === undefined ? this.#override : parseOverride(`${collective}:${only}`);
    const selection = selectAlgorithm(collective, uneven ? { ...shape, segments: 1 } : shape, machine, override);
    if (selection.algorithm.name === 'shared-direct') return { method: 'direct', selection, bound: undefined };
    return { method: 'program', selection, bound: bindSchedule(selection.algorithm.schedule(selection.shape), this.rank) };
  }
}

/** v-forms. */
export interface Counts {
  /** Elements of each rank's part, the same list at all ranks. Default: as even as possible. */
  readonly counts?: readonly number[];
}

/** The v-form of the all-to-all. */
export interface PairCounts {
  /** Elements for each rank. Default: equal. */
  readonly sendCounts?: readonly number[];
  /** Elements from each rank. Default: equal. */
  readonly receiveCounts?: readonly number[];
}

const WIDTHS: Readonly<Record<ElementType, number>> = { f32: 4, f64: 8, f16: 2, bf16: 2, i8: 1, i32: 4, i64: 8, u8: 1 };

function invalid(message: string): CollectiveError {
  return new CollectiveError('COLL_INVALID', message);
}

/** FNV-1a, 31 bits. */
function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h & 0x7fffffff;
}
