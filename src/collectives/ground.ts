/**
 * What a communicator stands on: how its members reach each other, and what is known of them. With a world that is the choice between shared memory and messages; without one it is
 * what the caller gave.
 */

import type { World } from '../launch/index.js';
import type { Worker } from '../messaging/index.js';
import { listedTopology, type Topology } from '../schedule/topology.js';
import { CollectiveError } from './errors.js';
import type { Exchange, Patience } from './exchange.js';
import type { Executor, ExecutorKind } from './executor.js';
import { HostExecutor } from './host-executor.js';
import type { LinkWorkers } from './messaging/links.js';
import { Surroundings } from './surroundings.js';

/** What runs the calls of a communicator, and why. */
export interface ExecutorChoice {
  readonly kind: ExecutorKind;
  /** Over messages: the providers that carry what this rank sends, in alphabetical order; several where those of its host are reached by another. */
  readonly providers: readonly string[];
  readonly why: string;
}

/** Who opens an executor, and where ranks meet for it. */
export interface Opening {
  readonly rank: number;
  readonly size: number;
  readonly exchange: Exchange;
  readonly key: string;
  readonly patience: Patience;
}

export interface Opened {
  readonly executor: Executor;
  readonly choice: ExecutorChoice;
}

export interface Ground {
  /** Where the members live; undefined: on one host, or nothing is known. */
  readonly topology: Topology | undefined;
  readonly surroundings: Surroundings | undefined;
  readonly world: World | undefined;
  /** Rank in the world of a member; undefined where there is no world. */
  worldRank(rank: number): number | undefined;
  /** All members call it. */
  open(opening: Opening): Promise<Opened>;
  /** For a communicator of some of the members, in this order. */
  of(members: readonly number[]): Ground;
}

/** What the caller of `Communicator.create` gave. */
export class GivenGround implements Ground {
  readonly topology: Topology | undefined;
  readonly surroundings = undefined;
  readonly world = undefined;
  readonly #worker: Worker | undefined;
  readonly #near: LinkWorkers['near'];

  constructor(worker: Worker | undefined, near: LinkWorkers['near'], topology: Topology | undefined) {
    this.#worker = worker;
    this.#near = near;
    this.topology = topology;
  }

  worldRank(): undefined {
    return undefined;
  }

  async open(opening: Opening): Promise<Opened> {
    if (this.#worker !== undefined) {
      return openMessaging(opening, { worker: this.#worker, near: this.#near }, undefined, 'a worker was given');
    }
    return openShared(opening, 'no worker was given, so that all ranks must be on one host');
  }

  of(members: readonly number[]): Ground {
    return new GivenGround(this.#worker, this.#near, this.topology && topologyAmong(this.topology, members));
  }
}

/** Ranks of a world. */
export class WorldGround implements Ground {
  readonly topology: Topology | undefined;
  readonly surroundings: Surroundings;
  readonly world: World;
  readonly #ranks: readonly number[];
  readonly #wanted: ExecutorKind | undefined;
  readonly #hosts: number;

  constructor(world: World, ranks: readonly number[], wanted: ExecutorKind | undefined) {
    this.world = world;
    this.#ranks = ranks;
    this.#wanted = wanted;
    const topology = topologyAmong(world.topology, ranks);
    this.#hosts = topology.hosts;
    this.topology = topology.hosts > 1 ? topology : undefined;
    this.surroundings = new Surroundings(world.liveness, ranks);
  }

  worldRank(rank: number): number {
    return this.#ranks[rank];
  }

  async open(opening: Opening): Promise<Opened> {
    const wanted = this.#wanted;
    const asked = wanted === undefined ? '' : ', and it was asked for';
    const where = this.#hosts === 1 ? 'all ranks share a host' : `the ranks live on ${this.#hosts} hosts`;
    const kind = wanted ?? (this.#hosts === 1 ? 'shared-memory' : 'messaging');
    if (kind === 'shared-memory') {
      if (this.#hosts > 1) throw new CollectiveError('COLL_INVALID', `shared memory was asked for, but ${where}`);
      return openShared(opening, where + asked);
    }
    const worker = await this.world.worker;
    return openMessaging(opening, await this.#workers(worker), this.surroundings, where + asked);
  }

  async #workers(worker: Worker): Promise<LinkWorkers> {
    // UCX takes shared memory by itself where it can.
    const isNearer = !['shm', 'ucx'].includes(worker.context.provider) && this.world.localSize > 1;
    if (!isNearer) return { worker };
    return { worker, near: { worker: await nearWorker(this.world), home: `host ${this.world.host.index}` } };
  }

  of(members: readonly number[]): Ground {
    return new WorldGround(
      this.world,
      members.map((rank) => this.#ranks[rank]),
      this.#wanted,
    );
  }
}

async function openShared({ rank, size, exchange, key, patience }: Opening, why: string): Promise<Opened> {
  const executor = await HostExecutor.open(rank, size, exchange, key, patience);
  return { executor, choice: { kind: 'shared-memory', providers: [], why } };
}

async function openMessaging(
  { rank, size, exchange, key, patience }: Opening,
  workers: LinkWorkers,
  surroundings: Surroundings | undefined,
  why: string,
): Promise<Opened> {
  const [{ connectLinks }, { MessagingExecutor }] = await Promise.all([
    import('./messaging/links.js'),
    import('./messaging/executor.js'),
  ]);
  const links = await connectLinks(rank, size, exchange, key, workers, patience);
  const executor = new MessagingExecutor({ rank, size, key, links, surroundings });
  const used = links.flatMap((link) => (link === undefined ? [] : [link.endpoint.provider]));
  const providers = used.length === 0 ? [workers.worker.context.provider] : [...new Set(used)].sort();
  return { executor, choice: { kind: 'messaging', providers, why } };
}

const nearWorkers = new WeakMap<World, Promise<Worker>>();

/** The worker for ranks of the same host, where the world's own goes over a network. One per world. */
function nearWorker(world: World): Promise<Worker> {
  let worker = nearWorkers.get(world);
  if (worker === undefined) {
    worker = import('../messaging/context.js')
      .then(({ openContext }) => openContext({ device: 'shm', name: `rank ${world.rank}, inside the host` }))
      .then((context) => context.createWorker());
    nearWorkers.set(world, worker);
  }
  return worker;
}

/** The placements of some ranks, hosts numbered without gaps. */
function topologyAmong(topology: Topology, ranks: readonly number[]): Topology {
  const hosts = new Map<number, number>();
  const placements = ranks.map((rank) => {
    const placement = topology.placement(rank);
    if (!hosts.has(placement.host)) hosts.set(placement.host, hosts.size);
    return { ...placement, host: hosts.get(placement.host) as number };
  });
  return listedTopology(placements, topology.nicsPerHost);
}
