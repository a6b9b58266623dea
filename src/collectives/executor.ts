/**
 * What runs the calls of a communicator. Two kinds: natively on the shared memory of one host, and over messages between any ranks.
 *
 * An executor makes something runnable of a request and its plan once; that is then run any number of times, on the caller's thread or beside it. It
 * notices ranks that died, and whatever ends a call in the middle ends the executor: it is broken from then on.
 */

import type { Plan } from './plan.js';
import type { Request } from './request.js';

/** Totals over the calls of this rank. */
export interface CallCounters {
  /** In messages. */
  readonly bytesSent: number;
  /** Read or written in the memory of peers. */
  readonly bytesAccessed: number;
  readonly messages: number;
}

/** When a run began, when all ranks had entered, and when it ended: milliseconds of one clock. */
export interface RunTimes {
  readonly beganMs: number;
  readonly metMs: number;
  readonly endedMs: number;
}

/** A call, ready to run. One run at a time. */
export interface Runnable {
  /** Beside the caller: the event loop stays free. */
  run(timeoutMs: number, signal?: AbortSignal): Promise<void>;
  /** On the caller's thread, which is blocked meanwhile. */
  runSync(timeoutMs: number): void;
  /** From now on runs note their times. */
  measure(): void;
  /** Of the last run after `measure`. */
  readonly times: RunTimes;
  /** Under way. */
  readonly running: boolean;
}

/** What carries a communicator's calls: shared memory inside one host, messages otherwise. */
export type ExecutorKind = 'shared-memory' | 'messaging';

export interface Executor {
  readonly kind: ExecutorKind;
  readonly totals: CallCounters;
  /** Calls that this rank has completed without a gap. */
  readonly completed: number;
  prepare(request: Request, plan: Plan): Runnable;
  isDead(rank: number): boolean;
  /** The others go on without this rank. Resolves when nothing that it still does can touch them. */
  expel(rank: number): Promise<void>;
  /** Ends calls under way at all ranks with COLL_ABORTED. */
  abort(): void;
  /** Ends calls under way with COLL_CLOSED. Idempotent. */
  close(): void;
}
