/**
 * What this rank knows of the others: who runs, who left, who is lost and why.
 *
 * A native thread hears it (native/liveness.c): on one host within milliseconds, by the kernel; from other hosts by the coordinator's word or by silence. Three
 * ways to use it, from hot to comfortable: compare `attention` in a polling loop, call `check()` before a long wait, or listen with `onLost`.
 */

import { getSystemErrorName } from 'node:util';
import { loadAddon } from '../native/load.js';
import { Board, HEADER, RANK_STATE } from './board.js';
import { LaunchError, takenForDead } from './errors.js';
import { type Member, nameOf } from './member.js';
import { WaitRegistry } from './waits.js';

/** A rank that died. */
export interface LostRank {
  readonly rank: number;
  /** Name of its host. */
  readonly host: string;
  readonly pid: number;
  /** 'killed by SIGKILL', 'exited with code 3', 'no word from its host for 10000 ms ...' */
  readonly reason: string;
}

export interface LivenessInit {
  readonly rank: number;
  readonly members: readonly Member[];
  /** Numeric address and port of the coordinator. */
  readonly address: string;
  readonly port: number;
  readonly ticket: string;
  readonly heartbeatMs: number;
  readonly silenceMs: number;
  /** A call that waits so long is reported, ms; 0: never. */
  readonly stallMs: number;
  /** Rank that holds the coordinator, or -1: the launcher does. */
  readonly holder: number;
  /** End this process when the coordinator is gone. */
  readonly endWithCoordinator: boolean;
}

export class Liveness {
  readonly #rank: number;
  readonly #members: readonly Member[];
  readonly #thread: number;
  readonly #bell: number;
  readonly #told = new Set<number>();
  readonly #listeners = new Set<(lost: LostRank) => void>();
  readonly #stallListeners = new Set<(report: string) => void>();
  #reports = 0;
  #closed = false;

  /** What the native thread writes, for other threads of this process: `Board.at`. They keep this object meanwhile. */
  readonly board: Board;
  /** Calls that wait register here. */
  readonly waits: WaitRegistry;

  /** Connects the lifeline. @throws LAUNCH_COORDINATOR_LOST when it does not stand. */
  constructor(init: LivenessInit) {
    this.#rank = init.rank;
    this.#members = init.members;
    this.board = Board.make(init.members.length, init.rank);
    this.waits = new WaitRegistry(this.board);
    const { words } = this.board;
    words[HEADER.stallMs] = init.stallMs;
    words[HEADER.heartbeatMs] = init.heartbeatMs;
    words[HEADER.silenceMs] = init.silenceMs;
    words[HEADER.holder] = init.holder;
    words[HEADER.end] = init.endWithCoordinator ? 1 : 0;
    const addon = loadAddon();
    const bell = addon.bellOpen(() => this.#rang());
    if (typeof bell === 'number') throw new LaunchError('LAUNCH_INVALID', `no pipe for liveness: ${getSystemErrorName(-bell)}`);
    this.#bell = bell[0];
    this.#thread = addon.livenessStart(this.board.address, bell[1], init.address, init.port, init.ticket);
    if (this.#thread < 0) {
      addon.bellClose(this.#bell);
      throw new LaunchError(
        'LAUNCH_COORDINATOR_LOST',
        `the lifeline to the coordinator at ${init.address}:${init.port} does not stand: ${getSystemErrorName(this.#thread)}`,
      );
    }
    const own = init.members[init.rank];
    for (const { rank, pid, startTime, host } of init.members) {
      // Virtual hosts behave as separate ones: only the coordinator's word counts between them.
      if (rank !== init.rank && host.id === own.host.id) addon.livenessWatch(this.#thread, rank, pid, startTime);
    }
  }

  /** Counts changes: a poller keeps the last value it saw, and looks closer when this differs. One atomic load. */
  get attention(): number {
    return Atomics.load(this.board.words, HEADER.attention);
  }

  /** The words behind `attention` and `stateOf`, for code that polls without calls: `words[attentionIndex]`. */
  get words(): Int32Array {
    return this.board.words;
  }

  get attentionIndex(): number {
    return HEADER.attention;
  }

  stateOf(rank: number): 'running' | 'left' | 'lost' {
    const state = Atomics.load(this.board.words, this.board.stateIndex(rank));
    return state === RANK_STATE.lost ? 'lost' : state === RANK_STATE.left ? 'left' : 'running';
  }

  /** The ranks that died, ascending. The own one, where the others took this process for dead: it was stopped, say, or cut off. */
  get lost(): LostRank[] {
    return this.#members.filter(({ rank }) => this.stateOf(rank) === 'lost').map((member) => this.#lossOf(member));
  }

  /** @throws LAUNCH_RANK_LOST for the first of `ranks` (default: all) that died. */
  check(ranks?: Iterable<number>): void {
    for (const rank of ranks ?? this.#members.keys()) {
      if (this.stateOf(rank) === 'lost') throw this.errorOf(rank);
    }
  }

  /** The error that says that a rank died. */
  errorOf(rank: number): LaunchError {
    const reason = this.board.reason(rank);
    const words = rank === this.#rank ? takenForDead(reason) : `${nameOf(this.#members[rank])} is lost: ${reason}`;
    return new LaunchError('LAUNCH_RANK_LOST', words, { rank });
  }

  /** Calls back once for each rank that dies, also for those that died before. Returns the function that ends it. */
  onLost(listener: (lost: LostRank) => void): () => void {
    this.#listeners.add(listener);
    for (const rank of this.#told) listener(this.#lossOf(this.#members[rank]));
    return () => this.#listeners.delete(listener);
  }

  /** Calls back with the text of each stall report. Returns the function that ends it. */
  onStall(listener: (report: string) => void): () => void {
    this.#stallListeners.add(listener);
    return () => this.#stallListeners.delete(listener);
  }

  /** Tells the coordinator that this process ends, without waiting: what an exit handler can do. 0: in peace. */
  leave(code: number): void {
    if (!this.#closed) loadAddon().livenessLeave(this.#thread, code);
  }

  /** Ends the thread. Idempotent. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    loadAddon().stop(this.#thread);
    loadAddon().bellClose(this.#bell);
  }

  #lossOf(member: Member): LostRank {
    const { rank, host, pid } = member;
    return { rank, host: host.name, pid, reason: this.board.reason(rank) };
  }

  #rang(): void {
    for (const member of this.#members) {
      if (this.#told.has(member.rank) || this.stateOf(member.rank) !== 'lost') continue;
      this.#told.add(member.rank);
      for (const listener of this.#listeners) listener(this.#lossOf(member));
    }
    const reports = Atomics.load(this.board.words, HEADER.reports);
    if (reports === this.#reports) return;
    this.#reports = reports;
    for (const listener of this.#stallListeners) listener(this.board.report);
  }
}
