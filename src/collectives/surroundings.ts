/**
 * What a communicator knows of the job around it: who has died, and where to say that a call waits. A communicator made by hand has none of it; its
 * children have what it has, seen through their own ranks.
 */

import type { Liveness, WaitRegistry, World } from '../launch/index.js';
import type { Collective } from '../schedule/schedule.js';

export class Surroundings {
  readonly #liveness: Liveness;
  /** Rank of the world of each member. */
  readonly #ranks: readonly number[];
  /** Calls begun by this rank; told with a wait, so that ranks in different calls of one kind are told apart. */
  #calls = 0;

  constructor(liveness: Liveness, ranks: readonly number[]) {
    this.#liveness = liveness;
    this.#ranks = ranks;
  }

  /** Whether a member's process ended, in peace or not. */
  isDead(rank: number): boolean {
    return this.#liveness.stateOf(this.#ranks[rank]) !== 'running';
  }

  /** Whether a member's process ended otherwise than in peace. */
  isLost(rank: number): boolean {
    return this.#liveness.stateOf(this.#ranks[rank]) === 'lost';
  }

  /** Calls back for each member that is lost, also for those that were before. Returns the function that ends it. */
  onLost(listener: (rank: number) => void): () => void {
    return this.#liveness.onLost((lost) => {
      const rank = this.#ranks.indexOf(lost.rank);
      if (rank >= 0) listener(rank);
    });
  }

  /** Seen by a communicator of some of the members. */
  of(members: readonly number[]): Surroundings {
    return new Surroundings(
      this.#liveness,
      members.map((rank) => this.#ranks[rank]),
    );
  }

  /** Where calls of one kind register while they wait. Only kinds have names: names are few (waits.ts). */
  waitsOf(collective: Collective): CallWaits {
    return new CallWaits(this.#liveness.waits, collective, () => this.#calls++);
  }
}

export class CallWaits {
  readonly #waits: WaitRegistry;
  readonly #name: string;
  readonly #next: () => number;

  constructor(waits: WaitRegistry, name: string, next: () => number) {
    this.#waits = waits;
    this.#name = name;
    this.#next = next;
  }

  enter(): number {
    return this.#waits.enter(this.#waits.site(this.#name), -1, this.#next());
  }

  leave(slot: number): void {
    this.#waits.leave(slot);
  }
}

const made = new WeakMap<World, number>();

/** A key that no communicator of this world has had: all ranks make their communicators in the same order. */
export function nextKey(world: World): string {
  const number = made.get(world) ?? 0;
  made.set(world, number + 1);
  return `verbena/collectives/${number}`;
}
