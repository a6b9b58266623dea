/**
 * A worker's side: pushes gradients, pulls parameters.
 *
 * Both stay where they are. Pushing is a message of a few numbers, after which the server reads the gradient where backward wrote it; pulling is a READ of the shard
 * into the model's parameters. A shard can be pushed as soon as its part of the gradient is final, while earlier layers still compute.
 *
 * When a server dies, its shard is asked for at the server that has the replica, and what was not granted is pushed there again under the same step number: a
 * server that has that step already only says so.
 */
import type { World } from '../../launch/index.js';
import { PeerLost } from '../../messaging/errors.js';
import type { Context, Endpoint, ExposedMemory, RemoteMemory, Worker } from '../../messaging/index.js';
import { ucxSettings } from '../../messaging/options.js';
import type { Optimizer } from '../../nn/index.js';
import type { Device } from '../../verbs/index.js';
import { HANDLER, header, KIND, LATE, take } from './protocol.js';
import type { GroupPlan } from './server.js';
import type { ShardCut } from './shard-cut.js';

export interface ParameterClientOptions {
  readonly plan: GroupPlan;
  /** This worker's number, 0 .. workers - 1. Worker 0 brings the initial parameters. */
  readonly worker: number;
  /** Addresses of the servers, in order. */
  readonly servers: readonly Uint8Array[];
  /** The device whose arena memory the two arrays are. */
  readonly device: Device;
  /** What the servers are told of who this is. Default: the name of the device. */
  readonly name?: string;
  /** The world that this process is a rank of. Default: none. */
  readonly world?: World;
  readonly parameters: Float32Array;
  readonly gradients: Float32Array;
  /** Worker 0: moments and steps that the servers begin with. Default: none. */
  readonly optimizer?: Pick<Optimizer, 'state' | 'steps'>;
  /** Longest wait for a server, ms. Default 60,000. */
  readonly timeoutMs?: number;
}

/**
 * A shard is gone with its server and its replica. Other shards may have the step already, so the parameters are of no one step, and only a checkpoint helps: `fit` goes on
 * from the last one by itself where it was given `checkpoints`.
 */
export class ShardLost extends Error {
  readonly code = 'TRAIN_SHARD_LOST';

  constructor(shard: number, peer: string, how: string, cause?: Error) {
    const advice =
      'Go on from a checkpoint: fit does so when it is given `checkpoints`; a second server with `replicate` keeps a copy';
    super(`shard ${shard} of the parameters is lost: ${peer} is gone, and ${how}. ${advice}`, { cause });
    this.name = 'ShardLost';
  }
}

/** What a worker has moved. */
export interface ClientCounters {
  /** Pushes, each of one shard. */
  readonly pushes: number;
  /** Bytes READ from shards into the parameters: the one transfer of a push and pull. */
  readonly pulledBytes: number;
  /** Shards that were found at another server after theirs died. */
  readonly failovers: number;
  /** Time of waiting for grants after the end of computing, ms. */
  readonly waitMs: number;
  /** Time of pulling, ms. */
  readonly pullMs: number;
}

interface Waiter {
  readonly server: number;
  resolve(words: Float64Array, data: Uint8Array): void;
  reject(error: Error): void;
}

interface Answer {
  readonly words: Float64Array;
  readonly data: Uint8Array;
}

/** Where a shard is. */
interface Place {
  readonly cut: ShardCut;
  server: number;
  remote: RemoteMemory | undefined;
  /** The push under way, of this step. */
  pushed: Promise<number> | undefined;
  /** The server has written the new parameters here already. */
  delivered: boolean;
  /** The last push came too late. */
  late: boolean;
  /** The next step, as the server counts. */
  next: number;
}

/** The worker's side of parameter servers: pushes gradients, pulls parameters. */
export class ParameterClient {
  readonly #options: ParameterClientOptions;
  readonly #context: Context;
  readonly #worker: Worker;
  readonly #endpoints: Endpoint[];
  readonly #places: Place[];
  readonly #waiting = new Map<string, Waiter>();
  readonly #exposed: ExposedMemory;
  readonly #pinned: ExposedMemory;
  readonly #timeoutMs: number;
  #counters = { pushes: 0, pulledBytes: 0, failovers: 0, waitMs: 0, pullMs: 0 };
  #step = 0;
  #weight = 0;
  #rate = 0;
  #closed = false;

  private constructor(options: ParameterClientOptions, context: Context, worker: Worker) {
    const { plan, servers, gradients, parameters } = options;
    this.#options = options;
    this.#context = context;
    this.#worker = worker;
    this.#timeoutMs = options.timeoutMs ?? 60_000;
    this.#exposed = worker.expose(gradients);
    this.#pinned = worker.expose(parameters);
    // A payload that does not arrive is of a server that died: whoever waits for it hears that.
    worker.handle(HANDLER.toClient, (message) => take(message, (words, data) => this.#hear(words, data))?.catch(() => undefined));
    this.#endpoints = servers.map((address) => worker.connect(address));
    for (const [server, endpoint] of this.#endpoints.entries()) endpoint.whenClosed.push(() => this.#lost(server));
    this.#places = plan.cuts.map((cut) => ({
      cut,
      server: cut.index,
      remote: undefined,
      pushed: undefined,
      delivered: false,
      late: false,
      next: 0,
    }));
  }

  /** Joins the servers; resolves when the initial parameters of worker 0 are there. Throws PeerLost, MSG_TIMEOUT. */
  static async connect(options: ParameterClientOptions): Promise<ParameterClient> {
    const { plan, device, name, world, parameters, gradients } = options;
    if (parameters.length !== plan.floats || gradients.length !== plan.floats) {
      throw new RangeError(`the plan has ${plan.floats} parameters: got ${parameters.length}, and ${gradients.length} gradients`);
    }
    const isUcx = ucxSettings({ device: plan.device }) !== undefined;
    const { Context, openContext } = await import('../../messaging/context.js');
    const context = isUcx ? await openContext({ device: plan.device, name }) : new Context(device, { name });
    const messages = await context.createWorker({ mode: 'event' });
    messages.vouchesFor = world && (({ peer }) => world.liveness.board.vouchesFor(peer));
    const client = new ParameterClient(options, context, messages);
    try {
      await client.#begin();
      return client;
    } catch (error) {
      await client.close();
      throw error;
    }
  }

  /** The next step; the number of those that were pushed, but for `backups`. */
  get step(): number {
    return this.#step;
  }

  counters(): ClientCounters {
    return { ...this.#counters };
  }

  async #begin(): Promise<void> {
    // A server that is dead already is found to be when its shard is asked for.
    for (const endpoint of this.#endpoints) await endpoint.ready({ timeoutMs: this.#timeoutMs }).catch(passOverLost);
    await Promise.all(this.#places.map((place) => this.#enter(place)));
    await this.pull();
  }

  async #enter(place: Place): Promise<void> {
    const { worker, parameters, optimizer } = this.#options;
    const { cut, server } = place;
    try {
      const joined = this.#answer(KIND.joined, cut.index, server);
      const ready = this.#answer(KIND.ready, cut.index, server);
      for (const settled of [joined, ready]) settled.catch(() => undefined);
      // Everybody introduces itself to every server: any of them may take over a shard later.
      for (const endpoint of this.#endpoints) await this.#join(endpoint, cut.index, false).catch(passOverLost);
      place.remote = this.#endpoints[server].unpack((await joined).data);
      if (worker === 0) {
        await place.remote.put(0, parameters.subarray(cut.from, cut.to));
        await this.#endpoints[server].flush();
        const state = optimizer === undefined ? new Float32Array(0) : this.#stateOf(cut, optimizer.state);
        await this.#endpoints[server].am(HANDLER.toServer, header(KIND.init, cut.index, optimizer?.steps ?? 0), state);
      }
      await ready;
    } catch (error) {
      // Before the first worker has brought the parameters nobody has them.
      if (!(error instanceof PeerLost) || worker === 0) throw error;
      await this.#failOver(place);
    }
  }

  async #join(endpoint: Endpoint, shard: number, failover: boolean): Promise<void> {
    const words = header(KIND.join, shard, this.#options.worker, failover ? 1 : 0);
    await endpoint.am(HANDLER.toServer, words, Buffer.concat([this.#exposed.pack(), this.#pinned.pack()]));
  }

  /** Begins a step: its pushes carry `weight` (samples behind the gradient; 0: nothing to add) and the learning rate. */
  start(weight: number, rate: number): void {
    if (this.#places.some(({ pushed }) => pushed !== undefined)) throw new Error('finish() the step before, first');
    this.#weight = weight;
    this.#rate = rate;
  }

  /** Shards whose range lies in elements `from` and above: their gradients are final. */
  pushFrom(from: number): void {
    for (const place of this.#inTurn()) {
      if (place.cut.from >= from && place.pushed === undefined) {
        place.pushed = this.#push(place);
        place.pushed.catch(() => undefined); // `finish` throws it
      }
    }
  }

  /** Whether the gradients of the last step came when it was over, and were dropped (`backups`). */
  get late(): boolean {
    return this.#places.some(({ late }) => late);
  }

  /**
   * Pushes what is not pushed yet, waits for the grants and pulls. Returns the samples in the update. `step` then is the next one: further than one on where others
   * went on without this worker. Throws ShardLost.
   */
  async finish(): Promise<number> {
    this.pushFrom(0);
    let samples = 0;
    for (const place of this.#inTurn()) {
      const begin = performance.now();
      samples = await (place.pushed as Promise<number>);
      const granted = performance.now();
      while (!(await this.#pullShard(place))) samples = await this.#push(place);
      this.#counters.waitMs += granted - begin;
      this.#counters.pullMs += performance.now() - granted;
    }
    for (const place of this.#places) place.pushed = undefined;
    this.#step = this.#places[0].next;
    return samples;
  }

  /** One step in one call: push, wait, pull. */
  pushPull(weight: number, rate: number): Promise<number> {
    this.start(weight, rate);
    return this.finish();
  }

  /** READs all shards as they are now. */
  async pull(): Promise<void> {
    for (const place of this.#inTurn()) {
      while (!(await this.#pullShard(place))) await this.#failOver(place);
    }
  }

  /** One shard after the other, each worker beginning with another: so no port is asked for more than it carries while others idle. */
  #inTurn(): Place[] {
    const first = this.#options.worker % this.#places.length;
    return [...this.#places.slice(first), ...this.#places.slice(0, first)];
  }

  /** Fetches moments and steps of the servers' optimizers, so that a checkpoint has them. Nobody may push meanwhile. Throws as pull. */
  async pullState(optimizer: Optimizer): Promise<void> {
    await Promise.all(
      this.#places.map(async (place) => {
        const { words, data } = await this.#fetchState(place);
        const part = new Float32Array(data.slice().buffer);
        for (const { at, from, length } of this.#moments(place.cut, optimizer.state.length)) {
          optimizer.state.set(part.subarray(at, at + length), from);
        }
        optimizer.steps = words[2];
      }),
    );
  }

  async #fetchState(place: Place): Promise<Answer> {
    for (;;) {
      try {
        const answer = this.#answer(KIND.state, place.cut.index, place.server);
        const words = header(KIND.state, place.cut.index);
        const asked = this.#endpoints[place.server].am(HANDLER.toServer, words, NOTHING);
        return (await Promise.all([answer, asked]))[0];
      } catch (error) {
        if (!(error instanceof PeerLost)) throw error;
        await this.#failOver(place);
      }
    }
  }

  /** Where the moments of a shard lie in its own state and in that of the whole model. */
  #moments({ from, to }: ShardCut, floats: number): { at: number; from: number; length: number }[] {
    const whole = this.#options.plan.floats;
    const length = to - from;
    return Array.from({ length: floats / whole }, (_, m) => ({ at: m * length, from: m * whole + from, length }));
  }

  #stateOf(cut: ShardCut, state: Float32Array): Float32Array {
    const moments = this.#moments(cut, state.length);
    const part = new Float32Array(moments.reduce((sum, { length }) => sum + length, 0));
    for (const { at, from, length } of moments) part.set(state.subarray(from, from + length), at);
    return part;
  }

  /** False when its server is gone. */
  async #pullShard(place: Place): Promise<boolean> {
    const { from, to } = place.cut;
    if (place.delivered) {
      place.delivered = false;
      this.#counters.pulledBytes += 4 * (to - from);
      return true;
    }
    try {
      await (place.remote as RemoteMemory).get(0, this.#options.parameters.subarray(from, to), { timeoutMs: this.#timeoutMs });
      this.#counters.pulledBytes += 4 * (to - from);
      return true;
    } catch (error) {
      if (!(error instanceof PeerLost)) throw error;
      return false;
    }
  }

  /** Resolves when the step is in the shard. */
  async #push(place: Place): Promise<number> {
    const { worker } = this.#options;
    const words = header(KIND.push, place.cut.index, worker, this.#step, this.#weight, this.#rate);
    for (;;) {
      const endpoint = this.#endpoints[place.server];
      try {
        const granted = this.#answer(KIND.grant, place.cut.index, place.server);
        this.#counters.pushes++;
        await Promise.all([granted, endpoint.am(HANDLER.toServer, words, NOTHING)]);
        const { words: grant } = await granted;
        place.delivered = grant[3] > 0 && grant[4] > 0;
        place.late = grant[3] === LATE;
        place.next = grant[5];
        return grant[4];
      } catch (error) {
        if (!(error instanceof PeerLost)) throw error;
        await this.#failOver(place);
      }
    }
  }

  /** Finds the shard at the server that has its replica. Throws ShardLost when there is none. */
  async #failOver(place: Place): Promise<void> {
    const { index } = place.cut;
    const from = place.server;
    const next = (index + 1) % this.#endpoints.length;
    const lost = (how: string, cause?: Error) => new ShardLost(index, this.#endpoints[from].peer, how, cause);
    if (!this.#options.plan.replicate) throw lost('there was no replica');
    if (from === next || this.#endpoints[next].state !== 'ready') throw lost('so is the other that had it');
    place.server = next;
    try {
      const joined = this.#answer(KIND.joined, index, next);
      const ready = this.#answer(KIND.ready, index, next);
      for (const settled of [joined, ready]) settled.catch(() => undefined);
      await this.#join(this.#endpoints[next], index, true);
      place.remote = this.#endpoints[next].unpack((await joined).data);
      await ready;
    } catch (error) {
      if (!(error instanceof PeerLost)) throw error;
      throw lost('so is the other that had it', error);
    }
    this.#counters.failovers++;
  }

  /** The next word of this kind about a shard. */
  #answer(kind: number, shard: number, server: number): Promise<Answer> {
    const key = `${kind} ${shard}`;
    return new Promise((resolve, reject) => {
      const { state, failure, peer } = this.#endpoints[server];
      if (state === 'failed' || state === 'closed') {
        reject(failure ?? new PeerLost(peer, 'a push', 'it is gone'));
        return;
      }
      const late = () =>
        this.#settle(key)?.reject(new Error(`parameter server ${server} did not answer for ${this.#timeoutMs} ms`));
      const timer = setTimeout(late, this.#timeoutMs);
      this.#waiting.set(key, {
        server,
        resolve: (words, data) => {
          clearTimeout(timer);
          resolve({ words, data });
        },
        reject: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      });
    });
  }

  #settle(key: string): Waiter | undefined {
    const waiter = this.#waiting.get(key);
    this.#waiting.delete(key);
    return waiter;
  }

  #hear(words: Float64Array, data: Uint8Array): void {
    const [kind, shard, step] = words;
    if (kind === KIND.grant && step !== this.#step) return; // of a push that was repeated elsewhere
    this.#settle(`${kind} ${shard}`)?.resolve(words, data);
  }

  #lost(server: number): void {
    const { failure, peer } = this.#endpoints[server];
    const error = failure instanceof PeerLost ? failure : new PeerLost(peer, 'an open endpoint', 'it closed the endpoint');
    for (const [key, waiter] of this.#waiting) {
      if (waiter.server !== server) continue;
      this.#waiting.delete(key);
      waiter.reject(error);
    }
  }

  /** Leaves the servers. Idempotent. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const words = header(KIND.leave, 0, this.#options.worker);
    for (const endpoint of this.#endpoints) {
      if (endpoint.state === 'ready') await endpoint.am(HANDLER.toServer, words, NOTHING).catch(() => undefined);
    }
    this.#exposed.close();
    this.#pinned.close();
    await this.#worker.close({ timeoutMs: 2000 }).catch(() => undefined);
    await this.#context.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

const NOTHING = new Uint8Array(0);

function passOverLost(error: unknown): void {
  if (!(error instanceof PeerLost)) throw error;
}
