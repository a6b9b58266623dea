/**
 * A parameter server: holds shards, takes pushes, and answers when a push is in the parameters (and in their replica).
 *
 *   push arrives ──> pending ──┐
 *                              ├─ one turn: apply all that can be applied ── WRITE the replica ── grant
 *   push arrives ──> pending ──┘                                              (pushes that come meanwhile wait for the next turn)
 *
 * Gradients stay where the worker's backward wrote them. Where the device can map them (`directAccess`), the update reads them there; elsewhere the server READs
 * them, one-sided, into memory of its own. Workers pull by READ: that needs nobody here.
 */
import type { Board } from '../../launch/board.js';
import { PeerLost } from '../../messaging/errors.js';
import type { Context, Endpoint, ExposedMemory, RemoteMemory, Worker } from '../../messaging/index.js';
import type { ParameterRange } from '../../nn/index.js';
import { HANDLER, header, KIND, LATE, take } from './protocol.js';
import { type ReplicaShape, ReplicaWriter, replicaBytes, restoreReplica } from './replica.js';
import { type ServerOptimizer, stateFloats } from './server-optimizer.js';
import { type ServerMode, Shard, type ShardOptions } from './shard.js';
import { rangesOf, type ShardCut } from './shard-cut.js';

/** What all servers and workers of a group agree on. Plain data. */
export interface GroupPlan {
  readonly mode: ServerMode;
  readonly staleness: number;
  /** sync: workers that a step can do without. */
  readonly backups: number;
  readonly workers: number;
  readonly optimizer: ServerOptimizer;
  /** Floats of the whole model. */
  readonly floats: number;
  readonly ranges: readonly ParameterRange[];
  readonly cuts: readonly ShardCut[];
  /** Keep a replica of each shard at the next server. */
  readonly replicate: boolean;
  /** Provider of the servers' devices, as `openContext` takes it. */
  readonly device: string;
}

/** What a server has done. */
export interface ServerCounters {
  /** Pushes applied. */
  readonly applied: number;
  /** Pushes that had been applied before. */
  readonly repeated: number;
  /** Pushes that came when their step was over, and were dropped. */
  readonly late: number;
  /** Bytes of gradients that were read through a mapping, without any transfer. */
  readonly mappedBytes: number;
  /** Bytes of gradients that were READ into memory of the server. */
  readonly readBytes: number;
  /** Bytes written to replicas. */
  readonly replicaBytes: number;
  /** Shards that were taken over from a server that died. */
  readonly takenOver: number;
}

interface Member {
  readonly endpoint: Endpoint;
  readonly remote: RemoteMemory;
  /** The whole gradient, mapped; undefined where the device cannot. */
  readonly mapped: Float32Array | undefined;
  /** The worker's parameters, mapped. */
  readonly parameters: Float32Array | undefined;
}

/** A shard that this server has. */
interface Held {
  readonly cut: ShardCut;
  readonly memory: Uint8Array;
  readonly exposed: ExposedMemory;
  readonly shape: ReplicaShape;
  shard: Shard | undefined;
  replica: ReplicaWriter | undefined;
  /** A turn is under way. */
  busy: boolean;
  /** When the round that is gathered began, of performance.now. */
  roundBegan: number;
  /** Ends the wait for late workers. */
  grace: NodeJS.Timeout | undefined;
  /** Copies of gradients of workers whose memory cannot be mapped. */
  readonly staging: Map<number, Float32Array>;
  readonly ready: Set<number>;
}

/** Memory for the replica of another server's shard. */
interface Guarded {
  readonly memory: Uint8Array;
  readonly exposed: ExposedMemory;
}

/** Longest wait for another server at the start, and for a READ of a gradient. */
const PATIENCE_MS = 60_000;
/** Least wait for late workers once a quorum has pushed: what the scheduler of a machine may take. */
const GRACE_MS = 5;

export class ParameterServer {
  readonly index: number;
  readonly #plan: GroupPlan;
  readonly #context: Context;
  readonly #worker: Worker;
  readonly #members = new Map<number, Member>();
  readonly #held = new Map<number, Held>();
  readonly #guarded = new Map<number, Guarded>();
  readonly #replicaKeys = new Map<number, (key: Uint8Array) => void>();
  /** Workers that left or died. */
  readonly #left = new Set<number>();
  readonly #failed: (error: Error) => void;
  #counters = { applied: 0, repeated: 0, late: 0, mappedBytes: 0, readBytes: 0, replicaBytes: 0, takenOver: 0 };
  #closed = false;
  #emptied: (() => void) | undefined;

  private constructor(index: number, plan: GroupPlan, context: Context, worker: Worker, failed: (error: Error) => void) {
    this.index = index;
    this.#plan = plan;
    this.#context = context;
    this.#worker = worker;
    this.#failed = failed;
    worker.handle(HANDLER.toServer, (message) => {
      // A payload that does not arrive is of a worker that died.
      take(message, (words, data) => this.#hear(message.endpoint, words, data))?.catch(() => undefined);
    });
    this.#hold(plan.cuts[index]);
  }

  /**
   * Opens server `index` of a group. `failed` hears of what can be reported to nobody else; the context is closed with it. `board`: of the rank's world; default: none, and peers
   * of other hosts that compute for longer than `keepaliveMs` are taken for dead.
   */
  static async open(
    index: number,
    plan: GroupPlan,
    failed: (error: Error) => void,
    context: Context,
    board?: Board,
  ): Promise<ParameterServer> {
    const worker = await context.createWorker({ mode: 'event' });
    worker.vouchesFor = board && (({ peer }) => board.vouchesFor(peer));
    return new ParameterServer(index, plan, context, worker, failed);
  }

  get address(): Uint8Array {
    return this.#worker.address;
  }

  counters(): ServerCounters {
    return { ...this.#counters };
  }

  /** Makes the replica of the own shard at the next server. All servers call it; `addresses` are theirs. */
  async connect(addresses: readonly Uint8Array[]): Promise<void> {
    if (!this.#plan.replicate) return;
    const held = this.#held.get(this.index) as Held;
    const endpoint = this.#worker.connect(addresses[(this.index + 1) % addresses.length]);
    await endpoint.ready({ timeoutMs: PATIENCE_MS });
    const key = new Promise<Uint8Array>((resolve) => this.#replicaKeys.set(this.index, resolve));
    await endpoint.am(HANDLER.toServer, header(KIND.replicate, this.index), new Uint8Array(0));
    held.replica = new ReplicaWriter(endpoint, await key, held.shape);
  }

  /** Resolves when every worker has left or died, at the latest after `timeoutMs`. */
  async empty(timeoutMs: number): Promise<void> {
    if (this.#left.size >= this.#plan.workers) return;
    await new Promise<void>((resolve) => {
      this.#emptied = resolve;
      if (Number.isFinite(timeoutMs)) setTimeout(resolve, timeoutMs).unref();
    });
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const { grace } of this.#held.values()) clearTimeout(grace);
    await this.#context.close();
  }

  #hold(cut: ShardCut): Held {
    const floats = cut.to - cut.from;
    const memory = this.#context.alloc(Math.max(64, 4 * floats));
    const held: Held = {
      cut,
      memory,
      exposed: this.#worker.expose(memory),
      shape: this.#shapeOf(cut),
      shard: undefined,
      replica: undefined,
      busy: false,
      roundBegan: performance.now(),
      grace: undefined,
      staging: new Map(),
      ready: new Set(),
    };
    this.#held.set(cut.index, held);
    return held;
  }

  #shapeOf(cut: ShardCut): ReplicaShape {
    const { workers, optimizer } = this.#plan;
    const parameters = cut.to - cut.from;
    return { workers, parameters, state: stateFloats(optimizer, parameters) };
  }

  #hear(endpoint: Endpoint, words: Float64Array, key: Uint8Array): void {
    const [kind, shard, a, b, c, d] = words;
    switch (kind) {
      case KIND.join:
        this.#join(endpoint, shard, a, b === 1, key);
        return;
      case KIND.init:
        this.#initialize(shard, a, new Float32Array(key.buffer));
        return;
      case KIND.state:
        this.#tellState(endpoint, shard);
        return;
      case KIND.push:
        void this.#push(shard, a, b, c, d).catch((error: unknown) => this.#failed(error as Error));
        return;
      case KIND.leave:
        this.#drop(a);
        return;
      case KIND.replicate:
        this.#guard(endpoint, shard);
        return;
      case KIND.replica:
        this.#replicaKeys.get(shard)?.(key);
        return;
      default:
        this.#failed(new Error(`parameter server ${this.index} got a message of unknown kind ${kind}`));
    }
  }

  #join(endpoint: Endpoint, shard: number, worker: number, failover: boolean, key: Uint8Array): void {
    if (this.#members.get(worker)?.endpoint !== endpoint) {
      const [remote, target] = [key.subarray(0, key.length / 2), key.subarray(key.length / 2)].map((one) => endpoint.unpack(one));
      this.#members.set(worker, { endpoint, remote, mapped: floatsOf(remote.map()), parameters: floatsOf(target.map()) });
      endpoint.whenClosed.push(() => this.#drop(worker));
    }
    if (failover && !this.#held.has(shard)) this.#takeOver(shard);
    const held = this.#held.get(shard);
    if (held === undefined) return; // Another server's shard: this was to introduce oneself.
    held.ready.add(worker);
    this.#tell(endpoint, header(KIND.joined, shard), held.exposed.pack());
    if (held.shard !== undefined) this.#tell(endpoint, header(KIND.ready, shard));
  }

  #make(held: Held): Shard {
    const { mode, staleness, backups, workers, optimizer, ranges } = this.#plan;
    const { cut } = held;
    const options: ShardOptions = { mode, staleness, backups, workers, optimizer, ranges: rangesOf(cut, ranges) };
    const parameters = new Float32Array(held.memory.buffer, held.memory.byteOffset, cut.to - cut.from);
    const shard = new Shard(parameters, options, workers === 1 ? this.#gradientOf(held, 0) : undefined);
    held.shard = shard;
    return shard;
  }

  /** Where the shard's part of a worker's gradient is read. */
  #gradientOf(held: Held, worker: number): Float32Array {
    const { from, to } = held.cut;
    let gradient = held.staging.get(worker);
    if (gradient === undefined) {
      const mapped = this.#members.get(worker)?.mapped;
      if (mapped !== undefined) gradient = mapped.subarray(from, to);
      else gradient = new Float32Array(this.#context.alloc(Math.max(64, 4 * (to - from))).buffer, 0, to - from);
      held.staging.set(worker, gradient);
    }
    return gradient;
  }

  /** The first worker has written the initial parameters; `state` may be empty. */
  #initialize(shard: number, steps: number, state: Float32Array): void {
    const held = this.#held.get(shard);
    if (held === undefined || held.shard !== undefined) return;
    const made = this.#make(held);
    made.optimizer.steps = steps;
    made.optimizer.state.set(state);
    void this.#replicate(held, made)
      .then(() => {
        for (const worker of held.ready) this.#tellWorker(worker, header(KIND.ready, shard));
      })
      .catch((error: unknown) => this.#failed(error as Error));
  }

  #tellState(endpoint: Endpoint, index: number): void {
    const shard = this.#held.get(index)?.shard;
    if (shard === undefined) return; // asked before it is ready: no worker does
    const { state, steps } = shard.optimizer;
    this.#tell(endpoint, header(KIND.state, index, steps), new Uint8Array(state.slice().buffer));
  }

  async #push(index: number, worker: number, step: number, weight: number, rate: number): Promise<void> {
    const held = this.#held.get(index);
    const member = this.#members.get(worker);
    const shard = held?.shard;
    if (held === undefined || shard === undefined || member === undefined) {
      throw new Error(`worker ${worker} pushed to shard ${index}, which server ${this.index} does not have`);
    }
    const gradient = this.#gradientOf(held, worker);
    const repeated = step < shard.clocks[worker];
    if (repeated) this.#counters.repeated++;
    else if (member.mapped !== undefined) this.#counters.mappedBytes += gradient.byteLength;
    else if (weight > 0) {
      try {
        await member.remote.get(4 * held.cut.from, gradient, { timeoutMs: PATIENCE_MS });
      } catch (error) {
        if (error instanceof PeerLost) return; // The worker died, and is dropped.
        throw error;
      }
      this.#counters.readBytes += gradient.byteLength;
    }
    shard.push(worker, step, weight, rate, gradient);
    await this.#turn(held, shard);
  }

  /** `early`: the wait for late workers is over. */
  async #turn(held: Held, shard: Shard, early = false): Promise<void> {
    if (held.busy) return;
    held.busy = true;
    let closing = early;
    try {
      do {
        const before = shard.applied;
        const targets = this.#targets(held);
        shard.deliverTo = targets;
        shard.apply(closing);
        closing = false;
        const applied = shard.applied - before;
        this.#counters.applied += applied;
        if (applied > 0) this.#endRound(held);
        // A push that was applied before, here or by the server before this one, is only granted: its worker pulls.
        const delivered = applied > 0 ? targets.length : 0;
        if (applied > 0) await this.#replicate(held, shard);
        for (const { worker, step, weight, next, late } of shard.grants()) {
          if (late) this.#counters.late++;
          this.#tellWorker(worker, header(KIND.grant, held.cut.index, step, late ? LATE : delivered, weight, next));
        }
      } while (shard.hasWork);
    } finally {
      held.busy = false;
    }
    if (shard.hasQuorum) this.#waitForLate(held, shard);
  }

  /** Enough have pushed. Whoever takes more than twice as long as they did is late. */
  #waitForLate(held: Held, shard: Shard): void {
    const close = () => {
      held.grace = undefined;
      void this.#turn(held, shard, true).catch((error: unknown) => this.#failed(error as Error));
    };
    held.grace ??= setTimeout(close, Math.max(GRACE_MS, performance.now() - held.roundBegan));
  }

  #endRound(held: Held): void {
    clearTimeout(held.grace);
    held.grace = undefined;
    held.roundBegan = performance.now();
  }

  /**
   * Parameters of all workers, where new values are written as they are made. Only in synchronous steps that all workers wait for, so that they get the same, and with no more
   * workers than servers: else every worker copies for itself. A worker counts what was delivered only when the grant comes.
   */
  #targets({ cut }: Held): readonly Float32Array[] {
    const { mode, backups, workers, cuts } = this.#plan;
    if (mode !== 'sync' || backups > 0 || workers > cuts.length) return [];
    const targets = [...this.#members.values()].flatMap(({ parameters }) => parameters?.subarray(cut.from, cut.to) ?? []);
    return targets.length === this.#members.size ? targets : [];
  }

  async #replicate(held: Held, shard: Shard): Promise<void> {
    if (held.replica === undefined) return;
    try {
      await held.replica.write(shard);
      this.#counters.replicaBytes += shard.parameters.byteLength + shard.optimizer.state.byteLength;
    } catch (error) {
      if (isRefused(error)) throw new Error(`server ${this.index} was taken for dead: another has shard ${held.cut.index} now`);
      held.replica = undefined; // The server with the replica died: this one goes on alone.
    }
  }

  /** Memory for another server's shard. */
  #guard(endpoint: Endpoint, shard: number): void {
    const memory = this.#context.alloc(replicaBytes(this.#shapeOf(this.#plan.cuts[shard])));
    const exposed = this.#worker.expose(memory);
    this.#guarded.set(shard, { memory, exposed });
    endpoint.am(HANDLER.toServer, header(KIND.replica, shard), exposed.pack()).catch(() => undefined);
  }

  /** The server of the shard is dead: this one goes on from the replica. The key of the replica dies first, so that nobody writes to it any more. */
  #takeOver(index: number): void {
    const guarded = this.#guarded.get(index);
    if (guarded === undefined) return;
    guarded.exposed.close();
    this.#context.revoke(guarded.memory);
    const held = this.#hold(this.#plan.cuts[index]);
    const shard = this.#make(held);
    if (!restoreReplica(guarded.memory, held.shape, shard)) {
      held.shard = undefined;
      return;
    }
    for (const worker of this.#left) shard.drop(worker);
    this.#counters.takenOver++;
    this.#context.free(guarded.memory);
    this.#guarded.delete(index);
  }

  /** A worker left or died: nobody waits for it. */
  #drop(worker: number): void {
    this.#left.add(worker);
    if (this.#left.size >= this.#plan.workers) this.#emptied?.();
    if (this.#closed || !this.#members.delete(worker)) return;
    for (const held of this.#held.values()) {
      held.ready.delete(worker);
      if (held.shard === undefined) continue;
      held.shard.drop(worker);
      void this.#turn(held, held.shard).catch((error: unknown) => this.#failed(error as Error));
    }
  }

  #tellWorker(worker: number, words: Uint8Array): void {
    const member = this.#members.get(worker);
    if (member !== undefined) this.#tell(member.endpoint, words);
  }

  /** What cannot be delivered was for one who is gone. */
  #tell(endpoint: Endpoint, words: Uint8Array, data: Uint8Array = new Uint8Array(0)): void {
    endpoint.am(HANDLER.toClient, words, data).catch(() => undefined);
  }
}

function floatsOf(bytes: Uint8Array | undefined): Float32Array | undefined {
  return bytes === undefined ? undefined : new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >> 2);
}

/** Whether a WRITE failed because the key was taken back. */
function isRefused(error: unknown): boolean {
  return error instanceof Error && /REM_ACCESS|REM_INV/.test(error.message);
}
