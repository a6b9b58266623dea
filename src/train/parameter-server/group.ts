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
 * A rank may be server, worker, or both: servers run on threads of their own, so one that shares a rank with a worker answers while that worker computes.
 */

import type { Exchange } from '../../collectives/exchange.js';
import type { Communicator } from '../../collectives/index.js';
import { engineOf } from '../../launch/engine.js';
import type { World } from '../../launch/index.js';
import type { Optimizer, ParameterRange } from '../../nn/index.js';
import type { Device } from '../../verbs/index.js';
import { ParameterClient } from './client.js';
import type { GroupPlan, ServerCounters } from './server.js';
import { ServerHandle } from './server-handle.js';
import type { ServerOptimizer } from './server-optimizer.js';
import { SERVER_MODES, type ServerMode } from './shard.js';
import { cutShards } from './shard-cut.js';

/** How servers apply gradients; the same at all ranks. */
export interface ServerSettings {
  /** When gradients are applied; see shard.ts. Default 'sync'. */
  readonly mode?: ServerMode;
  /** ssp: steps a worker may be ahead of the slowest; an integer from 0. Default 3. */
  readonly staleness?: number;
  /**
   * sync: a step goes on without so many workers, those who take more than twice as long as the rest; the mean is over the samples that came. What comes later is dropped, and
   * its worker goes on with the step that the others are in. An integer from 0, below the number of workers; with one server, which decides. Default 0.
   */
  readonly backups?: number;
  /** What the servers do with gradients. Default: SGD without momentum. */
  readonly optimizer?: ServerOptimizer;
  /** Keep a replica of each shard at the next server, so that one may die. Needs two servers. Default: true where there are two. */
  readonly replicate?: boolean;
  /** Provider of the servers' devices; 'ucx' or 'ucx:TLS=...': workers, too, go over UCX. Default 'shm', with a world of UCX 'ucx'. */
  readonly provider?: string;
}

export interface GroupOptions extends ServerSettings {
  /** 0 .. size - 1. */
  readonly rank: number;
  /** Ranks, at least 1. */
  readonly size: number;
  /** Gives one's own bytes to all ranks and returns those of all, by rank; called twice. */
  readonly share: (own: Uint8Array) => Promise<Uint8Array[]>;
  /** Ranks that run a server, in the order of the shards. */
  readonly servers: readonly number[];
  /** Ranks that train. */
  readonly workers: readonly number[];
  /** The device whose arena memory parameters and gradients are. */
  readonly device: Device;
  /** What the worker pulls into. */
  readonly parameters: Float32Array;
  /** What the worker pushes, in place; as long as the parameters. */
  readonly gradients: Float32Array;
  /** The tensors in them. */
  readonly ranges: readonly ParameterRange[];
  /** Moments and steps that the servers begin with, of the first worker. Default: none. */
  readonly initial?: Pick<Optimizer, 'state' | 'steps'>;
  /** Longest wait for anybody, ms. Default 60,000. */
  readonly timeoutMs?: number;
  /**
   * The world that the ranks belong to. Its heartbeats tell those who compute from those who are gone; without it a rank of another host that makes no turn of its event loop
   * for 10 s is taken for dead. Default: none.
   */
  readonly world?: World;
}

/** Servers and workers of one set of parameters, seen from one rank. */
export class ParameterServerGroup {
  readonly plan: GroupPlan;
  /** The worker's side; undefined on a rank that only serves. */
  readonly client: ParameterClient | undefined;
  readonly #server: ServerHandle | undefined;

  private constructor(plan: GroupPlan, client: ParameterClient | undefined, server: ServerHandle | undefined) {
    this.plan = plan;
    this.client = client;
    this.#server = server;
  }

  /** All ranks call it with the same settings. Throws a RangeError for settings that make no sense, PeerLost, MSG_TIMEOUT. */
  static async join(options: GroupOptions): Promise<ParameterServerGroup> {
    const plan = planOf(options);
    const { rank, share, servers, workers, device, parameters, gradients, initial: optimizer, timeoutMs, world } = options;
    const index = servers.indexOf(rank);
    const own = world === undefined ? '' : `rank ${world.rank} as `;
    const server = index < 0 ? undefined : await ServerHandle.start(index, plan, `${own}parameter server ${index}`, world);
    try {
      const all = await share(server?.address ?? new Uint8Array(0));
      const addresses = servers.map((one) => all[one]);
      await server?.connect(addresses);
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
              name: `${own}worker ${worker}`,
              world,
              parameters,
              gradients,
              optimizer,
              timeoutMs,
            });
      return new ParameterServerGroup(plan, client, server);
    } catch (error) {
      const why = server?.failure ?? error;
      await server?.close(0);
      throw why;
    }
  }

  /** What this rank's server has done; undefined on a rank without one. */
  async serverCounters(): Promise<ServerCounters | undefined> {
    return this.#server?.counters();
  }

  /** Why this rank's server ended by itself, or undefined. */
  get serverFailure(): Error | undefined {
    return this.#server?.failure;
  }

  /**
   * Leaves. A rank with a server waits until all workers have left it or died, at most `patienceMs` (default: however long they train). Returns the server's last counters.
   * Idempotent.
   */
  async close(patienceMs: number = Number.POSITIVE_INFINITY): Promise<ServerCounters | undefined> {
    await this.client?.close();
    return this.#server?.close(patienceMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

function planOf(options: GroupOptions): GroupPlan {
  const { servers, workers, size, parameters, ranges, mode = 'sync', staleness = 3, backups = 0, world } = options;
  const engine = world && engineOf(world.members) === 'ucx' ? 'ucx' : 'shm';
  const { optimizer = { kind: 'sgd' }, provider = engine, replicate = servers.length > 1 } = options;
  if (!SERVER_MODES.includes(mode)) throw new RangeError(`mode must be ${SERVER_MODES.join(', ')}: got '${String(mode)}'`);
  if (!Number.isSafeInteger(staleness) || staleness < 0)
    throw new RangeError(`staleness must be an integer from 0, not ${staleness}`);
  if (!Number.isSafeInteger(backups) || backups < 0 || backups >= workers.length)
    throw new RangeError(`backups must be an integer from 0, below the ${workers.length} workers, not ${backups}`);
  if (backups > 0 && (mode !== 'sync' || servers.length > 1))
    throw new RangeError(
      `backups are for mode 'sync' and one server, not for ${mode} and ${servers.length}: one decides who is late`,
    );
  for (const [what, ranks] of Object.entries({ servers, workers })) {
    const distinct = new Set(ranks).size === ranks.length && ranks.length > 0;
    if (!distinct || ranks.some((one) => !Number.isInteger(one) || one < 0 || one >= size)) {
      throw new RangeError(`${what} must be different ranks of 0 to ${size - 1}, at least one: [${ranks.join(', ')}]`);
    }
  }
  if (replicate && servers.length < 2) throw new RangeError('a replica needs a second server: give two, or replicate: false');
  const cuts = cutShards(parameters.length, servers.length, ranges, optimizer.kind === 'lamb');
  return {
    mode,
    staleness,
    backups,
    workers: workers.length,
    optimizer,
    floats: parameters.length,
    ranges,
    cuts,
    replicate,
    device: provider,
  };
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
