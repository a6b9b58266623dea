/**
 * The calls of a communicator: from vectors to requests, from requests to prepared calls, and these run or kept. Who the members are, and how that changes, is communicator.ts.
 */

import type { Worker } from '../messaging/index.js';
import type { Collective, Schedule } from '../schedule/schedule.js';
import type { Topology } from '../schedule/topology.js';
import type { Reduction, UserReduction, Vector } from './element.js';
import { CollectiveError, type CollectiveErrorCode } from './errors.js';
import type { Exchange } from './exchange.js';
import type { CallCounters, Executor } from './executor.js';
import type { Ground } from './ground.js';
import { LOCAL_MACHINE } from './local-machine.js';
import type { Machine } from './machine.js';
import { parseOverride } from './override.js';
import { type Plan, Planner } from './plan.js';
import { type CollectiveOptions, PreparedCall } from './prepared-call.js';
import { type Counts, invalid, type PairCounts, type Request, Requests } from './request.js';
import type { Selection } from './selection.js';
import type { Method } from './shared-memory/call.js';
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
  /** Gives up waiting for the others at creation, with the signal's reason; they get COLL_ABORTED. Default: none. */
  readonly signal?: AbortSignal;
  /** Calls run over messages of this worker, between any hosts. Default: on shared memory, and all ranks are on one host. The same choice at all ranks. */
  readonly worker?: Worker;
  /** With `worker`: a faster one among the ranks that say the same `home`, for instance of shared memory inside a host. Default: none. */
  readonly near?: { readonly worker: Worker; readonly home: string };
  /** Where the ranks live, for hierarchical algorithms. Default: nothing is known. The same at all ranks. */
  readonly topology?: Topology;
}

/** Errors after which a communicator is of no more use. */
const BREAKING: ReadonlySet<CollectiveErrorCode> = new Set(['COLL_PEER_LOST', 'COLL_TIMEOUT', 'COLL_ABORTED']);

export class CollectiveCalls {
  readonly rank: number;
  readonly size: number;
  /** What carries the calls out. */
  protected readonly carrier: Executor;
  readonly #requests: Requests;
  readonly #planner: Planner;
  readonly #ground: Ground;
  readonly #timeoutMs: number;
  readonly #prepared = new WeakMap<Vector, { readonly key: string; readonly call: PreparedCall }>();
  readonly #barrier: PreparedCall;
  readonly #failed = (error: unknown): void => {
    if (error instanceof CollectiveError && BREAKING.has(error.code)) this.#broken ??= error;
  };
  #broken: CollectiveError | undefined;

  protected constructor(options: CommunicatorOptions, carrier: Executor, ground: Ground) {
    const { rank, size } = options;
    this.rank = rank;
    this.size = size;
    this.carrier = carrier;
    this.#ground = ground;
    this.#timeoutMs = options.timeoutMs ?? Number.POSITIVE_INFINITY;
    this.#requests = new Requests(rank, size);
    const wanted = options.algorithms ?? process.env['VERBENA_ALGORITHMS'];
    const isShared = carrier.kind === 'shared-memory';
    this.#planner = new Planner({
      size,
      isShared,
      machine: options.machine ?? (isShared ? tunedMachine(size) : LOCAL_MACHINE),
      override: wanted === undefined ? undefined : parseOverride(wanted),
      topology: ground.topology,
    });
    this.#barrier = this.#prepare(this.#requests.barrier());
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
    return { ...this.carrier.totals };
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
    return new PreparedCall(this.carrier.prepare(request, plan), plan, {
      timeoutMs: this.#timeoutMs,
      waits: this.#ground.surroundings?.waitsOf(request.collective),
      failed: this.#failed,
    });
  }
}
