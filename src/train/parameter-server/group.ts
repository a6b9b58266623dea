/**
 * A group of parameter servers and workers: who plays what, and how they find each other.
 *
 * ```ts
 * const group = await ParameterServerGroup.join({
 *   rank, size, share: shareOver(exchange, rank, size),
 *   servers: [0, 1], workers: [0, 1], mode: 'sync', optimizer: { kind: 'adam' }, device, ...model,
 * });
 * await group.client?.pushPull(samples, learningRate);      // gradients -> servers -> parameters
 * ```
 * A rank may be server, worker, or both: servers run on threads of their own, so one that shares a rank with a worker answers while that worker computes. A rank that is
 * named twice among the servers runs two, with a shard each: synchronous workers wait meanwhile and leave their cores to them.
 */

import type { Exchange } from '../../collectives/exchange.js';
import type { Communicator } from '../../collectives/index.js';
import type { Optimizer, ParameterRange } from '../../nn/index.js';
import type { Device } from '../../verbs/index.js';
import { ParameterClient } from './client.js';
import type { GroupPlan, ServerCounters } from './server.js';
import { ServerHandle } from './server-handle.js';
import type { ServerOptimizer } from './server-optimizer.js';
import { SERVER_MODES, type ServerMode } from './shard.js';
import { cutShards } from './shard-cut.js';

export interface ServerSettings {
  /** When gradients are applied; see shard.ts. Default 'sync'. */
  readonly mode?: ServerMode;
  /** ssp: steps a worker may be ahead of the slowest; an integer from 0. Default 3. */
  readonly staleness?: number;
  /** What the servers do with gradients. Default: SGD without momentum. */
  readonly optimizer?: ServerOptimizer;
  /** Keep a replica of each shard at the next server on another rank, so that a rank may die. Needs servers on two ranks. Default: true where there are. */
  readonly replicate?: boolean;
  /** Provider of the servers' devices. Default 'shm'. */
  readonly provider?: string;
}

export interface GroupOptions extends ServerSettings {
  /** 0 .. size - 1. */
  readonly rank: number;
  readonly size: number;
  /** Gives one's own bytes to all ranks and returns those of all, by rank; called twice. */
  readonly share: (own: Uint8Array) => Promise<Uint8Array[]>;
  /** Ranks that run a server, in the order of the shards; one that is named n times runs n, on a thread each. */
  readonly servers: readonly number[];
  /** Ranks that train. */
  readonly workers: readonly number[];
  /** The device whose arena memory parameters and gradients are. */
  readonly device: Device;
  readonly parameters: Float32Array;
  readonly gradients: Float32Array;
  /** The tensors in them. */
  readonly ranges: readonly ParameterRange[];
  /** Moments and steps that the servers begin with, of the first worker. Default: none. */
  readonly initial?: Pick<Optimizer, 'state' | 'steps'>;
  /** Longest wait for anybody, ms. Default 60,000. */
  readonly timeoutMs?: number;
}

export class ParameterServerGroup {
  readonly plan: GroupPlan;
  /** The worker's side; undefined on a rank that only serves. */
  readonly client: ParameterClient | undefined;
  readonly #servers: readonly ServerHandle[];

  private constructor(plan: GroupPlan, client: ParameterClient | undefined, servers: readonly ServerHandle[]) {
    this.plan = plan;
    this.client = client;
    this.#servers = servers;
  }

  /** All ranks call it with the same settings. Throws a RangeError for settings that make no sense, PeerLost, MSG_TIMEOUT. */
  static async join(options: GroupOptions): Promise<ParameterServerGroup> {
    const plan = planOf(options);
    const { rank, share, servers, workers, device, parameters, gradients, initial: optimizer, timeoutMs } = options;
    const own: ServerHandle[] = [];
    try {
      for (const [index, at] of servers.entries()) {
        if (at === rank) own.push(await ServerHandle.start(index, plan));
      }
      const all = (await share(pack(own.map(({ address }) => address)))).map(unpack);
      const addresses = servers.map((at, index) => all[at][servers.slice(0, index).filter((one) => one === at).length]);
      await Promise.all(own.map((server) => server.connect(addresses)));
      await share(new Uint8Array(0)); // No worker begins before every shard has its replica.
      const worker = workers.indexOf(rank);
      const client =
        worker < 0
          ? undefined
          : await ParameterClient.connect({
              plan,
              worker,
              servers: addresses,
              device,
              parameters,
              gradients,
              optimizer,
              timeoutMs,
            });
      return new ParameterServerGroup(plan, client, own);
    } catch (error) {
      const why = own.find(({ failure }) => failure !== undefined)?.failure ?? error;
      await Promise.all(own.map((server) => server.close(0)));
      throw why;
    }
  }

  /** What this rank's servers have done; undefined on a rank without one. */
  async serverCounters(): Promise<ServerCounters | undefined> {
    return sumOf(await Promise.all(this.#servers.map((server) => server.counters())));
  }

  /** Why a server of this rank ended by itself, or undefined. */
  get serverFailure(): Error | undefined {
    return this.#servers.find(({ failure }) => failure !== undefined)?.failure;
  }

  /**
   * Leaves. A rank with servers waits until all workers have left them or died, at most `patienceMs` (default: however long they train). Returns the servers' last counters.
   * Idempotent.
   */
  async close(patienceMs: number = Number.POSITIVE_INFINITY): Promise<ServerCounters | undefined> {
    await this.client?.close();
    const last = await Promise.all(this.#servers.map((server) => server.close(patienceMs)));
    return sumOf(last.filter((one) => one !== undefined));
  }
}

/** Addresses of a rank's servers as bytes to share. */
function pack(addresses: readonly Uint8Array[]): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(addresses.map((one) => Buffer.from(one).toString('base64'))));
}

function unpack(bytes: Uint8Array): Uint8Array[] {
  return (JSON.parse(new TextDecoder().decode(bytes)) as string[]).map((one) => new Uint8Array(Buffer.from(one, 'base64')));
}

function sumOf(counters: readonly ServerCounters[]): ServerCounters | undefined {
  if (counters.length < 2) return counters[0];
  const names = Object.keys(counters[0]) as (keyof ServerCounters)[];
  const sums = names.map((name) => [name, counters.reduce((sum, one) => sum + one[name], 0)]);
  return Object.fromEntries(sums) as unknown as ServerCounters;
}

function planOf(options: GroupOptions): GroupPlan {
  const { servers, workers, size, parameters, ranges, mode = 'sync', staleness = 3 } = options;
  const apart = new Set(servers).size > 1;
  const { optimizer = { kind: 'sgd' }, provider = 'shm', replicate = apart } = options;
  if (!SERVER_MODES.includes(mode)) throw new RangeError(`mode must be ${SERVER_MODES.join(', ')}: got '${String(mode)}'`);
  if (!Number.isSafeInteger(staleness) || staleness < 0)
    throw new RangeError(`staleness must be an integer from 0, not ${staleness}`);
  for (const [what, ranks] of Object.entries({ servers, workers })) {
    if (ranks.length === 0 || ranks.some((one) => !Number.isInteger(one) || one < 0 || one >= size)) {
      throw new RangeError(`${what} must be ranks of 0 to ${size - 1}, at least one: [${ranks.join(', ')}]`);
    }
  }
  if (new Set(workers).size < workers.length) throw new RangeError(`workers must be different ranks: [${workers.join(', ')}]`);
  if (replicate && !apart) throw new RangeError('a replica needs a server on another rank: give one, or replicate: false');
  const cuts = cutShards(parameters.length, servers.length, ranges, optimizer.kind === 'lamb');
  return {
    mode,
    staleness,
    workers: workers.length,
    optimizer,
    floats: parameters.length,
    ranges,
    cuts,
    guardians: replicate ? servers.map((_, index) => guardianOf(servers, index)) : [],
    device: provider,
  };
}

/** The server that keeps the replica: the next one on another rank. */
function guardianOf(servers: readonly number[], index: number): number {
  const after = [...servers.keys()].map((i) => (index + 1 + i) % servers.length);
  return after.find((one) => servers[one] !== servers[index]) as number;
}

/** Sharing through a store of keys and values. `key` is new for each group. */
export function shareOver(exchange: Exchange, rank: number, size: number, key = 'parameter-servers'): GroupOptions['share'] {
  let calls = 0;
  return async (own) => {
    const name = `${key}/${calls++}`;
    await exchange.set(`${name}/${rank}`, own);
    return Promise.all(Array.from({ length: size }, (_, r) => (r === rank ? own : exchange.wait(`${name}/${r}`))));
  };
}

/** Sharing by an all-gather. */
export function shareAmong(communicator: Communicator): GroupOptions['share'] {
  return async (own) => {
    const lengths = new Int32Array(communicator.size);
    lengths[communicator.rank] = own.length;
    await communicator.allgather(lengths);
    const room = lengths.reduce((most, length) => Math.max(most, length), 0);
    const all = new Uint8Array(room * communicator.size);
    all.set(own, room * communicator.rank);
    if (room > 0) await communicator.allgather(all);
    return [...lengths].map((length, r) => all.slice(r * room, r * room + length));
  };
}
