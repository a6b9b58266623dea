/**
 * A communicator: a group of ranks and the collectives among them (collective-calls.ts).
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

import { unlessAborted } from '../launch/abortable.js';
import type { World } from '../launch/index.js';
import { CollectiveCalls, type CommunicatorOptions } from './collective-calls.js';
import { CollectiveError, RankLost } from './errors.js';
import { checkOutcome, conclude, exchangeAll, giveUp, type Patience } from './exchange.js';
import type { ExecutorKind } from './executor.js';
import { type ExecutorChoice, GivenGround, type Ground, type Opened, WorldGround } from './ground.js';
import { admit, decideMembers, lineBefore, lossBehind, standInLine } from './membership.js';
import { invalid } from './request.js';
import { nextKey } from './surroundings.js';

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
  /** How long they look for each other, ms. Default: `createTimeoutMs`. */
  readonly timeoutMs?: number;
  readonly members?: readonly number[];
  readonly lastCompleted?: number;
  /** `key` of the communicator that this one is the successor of. */
  readonly key?: string;
}

export class Communicator extends CollectiveCalls {
  /** What others need to `join` when it grows: its name in the exchange, or that of its predecessor, before it shrank or grew. */
  readonly key: string;
  /** What runs the calls, and why. */
  readonly executor: ExecutorChoice;
  /** After `shrink`: calls that every member had completed on the communicator before. */
  readonly lastCompleted: number | undefined;
  /** After `shrink` or `split`: the ranks the members had before. */
  readonly members: readonly number[];
  readonly #name: string;
  readonly #ground: Ground;
  readonly #options: CommunicatorOptions;
  #children = 0;

  private constructor(options: CommunicatorOptions, { executor, choice }: Opened, origin: Origin) {
    super(options, executor, origin.ground);
    const { size, key = DEFAULT_KEY } = options;
    this.key = origin.key ?? key;
    this.executor = choice;
    this.members = origin.members ?? everyone(size);
    this.lastCompleted = origin.lastCompleted;
    this.#name = key;
    this.#ground = origin.ground;
    this.#options = { ...options, signal: undefined }; // it was for the making of this one
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
    const named = { ...options, rank, size, exchange, key: nextKey(world) };
    return unlessGivenUp(named, Communicator.#create(named, { ground, isDead }));
  }

  /**
   * All ranks call it. @throws COLL_INVALID for a bad option or ranks on several hosts, COLL_SYSTEM, COLL_TIMEOUT naming who did not come, COLL_ABORTED naming who gave up, the
   * signal's reason, and what the exchange throws
   */
  static create(options: CommunicatorOptions): Promise<Communicator> {
    const ground = new GivenGround(options.worker, options.near, options.topology);
    return unlessGivenUp(options, Communicator.#create(options, { ground }));
  }

  /**
   * Comes to a communicator whose members call `grow`; the rank is the next that is free. When that does not come about, because a member was lost meanwhile, it waits for the
   * next. @throws COLL_TIMEOUT when it was not let in within `createTimeoutMs`, and what `create` throws
   */
  static async join(options: JoinOptions): Promise<Communicator> {
    const { exchange, key, world, createTimeoutMs = PATIENCE_MS, signal } = options;
    for (const deadline = performance.now() + createTimeoutMs; ; ) {
      const { name, rank, size, timeoutMs } = await standInLine(exchange, key, deadline - performance.now(), signal);
      const own = { ...options, rank, size, key: name };
      try {
        return await unlessGivenUp(own, Communicator.#grown(own, key, world, world?.rank, { timeoutMs }));
      } catch (error) {
        signal?.throwIfAborted();
        if (performance.now() > deadline || (error as CollectiveError).code === 'COLL_INVALID') throw error;
      }
    }
  }

  static async #create(options: CommunicatorOptions, origin: Origin): Promise<Communicator> {
    const { rank, size, exchange, key = DEFAULT_KEY, createTimeoutMs = PATIENCE_MS } = options;
    if (!Number.isInteger(size) || size < 1 || size > 1024) throw invalid(`size must be 1 to 1024, got ${size}`);
    if (!Number.isInteger(rank) || rank < 0 || rank >= size) throw invalid(`rank must be 0 to ${size - 1}, got ${rank}`);
    const outcome = outcomeOf(key);
    const patience = { timeoutMs: origin.timeoutMs ?? createTimeoutMs, isDead: origin.isDead, outcome };
    const opened = await origin.ground.open({ rank, size, exchange, key, patience }).catch(async (error: unknown) => {
      checkOutcome(await exchange.get(outcome)); // who gave up cannot be reached
      throw (await lossBehind(error, size, origin.isDead)) ?? error;
    });
    await conclude(exchange, outcome).catch((error: unknown) => {
      opened.executor.close();
      throw error;
    });
    return new Communicator(options, opened, origin);
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
    const patience = { timeoutMs, isDead: (r: number) => r < this.size && this.carrier.isDead(r) };
    const worldRank = this.#ground.worldRank(rank);
    const wanted = { ...this.#options, size, key: name };
    let failure: Error | undefined;
    const larger = await Communicator.#grown(wanted, key, this.#ground.world, worldRank, patience).catch((error: Error) => {
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
    patience: Patience,
  ): Promise<Communicator> {
    const { rank, size, exchange, key, worker, near, topology } = options;
    const whole = { ...patience, outcome: outcomeOf(key) };
    const ranks = await exchangeAll(exchange, `${key}/who`, rank, size, worldRank ?? null, whole);
    const isWorld = world !== undefined && ranks.every((r) => r !== null);
    const ground = isWorld
      ? new WorldGround(world, ranks as number[], (options as WorldCommunicatorOptions).executor)
      : new GivenGround(worker, near, topology?.size === size ? topology : undefined);
    return Communicator.#create(options, { ...patience, ground, key: from });
  }

  /** Ends calls under way at all ranks with COLL_ABORTED. The communicator is broken afterwards. */
  abort(): void {
    this.carrier.abort();
  }

  /**
   * After a loss: a communicator of the ranks that live. They agree on the members and on `lastCompleted`, also when another rank dies
   * meanwhile. All surviving ranks call it; this communicator is broken and closed by it. @throws COLL_PEER_LOST at a rank that the others left out, COLL_TIMEOUT when a living
   * rank does not call it (see the communicator's `timeoutMs`)
   */
  async shrink(options: { readonly timeoutMs?: number } = {}): Promise<Communicator> {
    const { timeoutMs: silentMs = Number.POSITIVE_INFINITY } = this.#options;
    const deadline = performance.now() + (options.timeoutMs ?? PATIENCE_MS + (Number.isFinite(silentMs) ? silentMs : 0));
    this.carrier.abort();
    const completed = this.carrier.completed;
    const { rank, size } = this;
    const lost = new Set<number>();
    const isDead = (r: number) => lost.has(r) || this.carrier.isDead(r);
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
        for (const silent of everyone(size)) if (!members.includes(silent)) await this.carrier.expel(silent);
        child = await this.#child(`${name}/members`, members, lastCompleted, this.key);
        await child.barrier(); // all pass, or none does
        this.close();
        return child;
      } catch (error) {
        // Another rank died meanwhile: all who live come here, and decide again.
        child?.close();
        // The others may have told the child of a death that this rank has not noticed.
        if (error instanceof RankLost) lost.add(members[error.rank]);
        if (performance.now() > deadline || !members.some(isDead)) throw error;
      }
    }
  }

  get #patience(): Patience {
    return { timeoutMs: this.#options.createTimeoutMs ?? PATIENCE_MS, isDead: (r) => this.carrier.isDead(r) };
  }

  #child(
    name: string,
    members: readonly number[],
    lastCompleted: number | undefined,
    key: string | undefined,
  ): Promise<Communicator> {
    const options = { ...this.#options, key: name, rank: members.indexOf(this.rank), size: members.length };
    const isDead = (r: number) => this.carrier.isDead(members[r]);
    return Communicator.#create(options, { ground: this.#ground.of(members), isDead, members, lastCompleted, key });
  }

  /** Ends calls under way, here and at the other ranks, with COLL_CLOSED. Idempotent. */
  close(): void {
    this.carrier.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

const DEFAULT_KEY = 'collectives';
/** How long ranks wait for each other where nothing else is said, ms. */
const PATIENCE_MS = 60_000;

const outcomeOf = (key: string): string => `${key}/outcome`;

/** The communicator; or the signal's reason, and the others are told: in the exchange, or, should they have the communicator already, by it. */
async function unlessGivenUp(options: CommunicatorOptions, making: Promise<Communicator>): Promise<Communicator> {
  const { exchange, key = DEFAULT_KEY, rank, signal } = options;
  try {
    return await unlessAborted(making, signal);
  } catch (error) {
    if (signal?.aborted) {
      void giveUp(exchange, outcomeOf(key), rank).catch(() => undefined);
      void making.then(
        (made) => {
          made.abort();
          made.close();
        },
        () => undefined,
      );
    }
    throw error;
  }
}

function everyone(size: number): number[] {
  return Array.from({ length: size }, (_, rank) => rank);
}
