/** A call set up once and run often (persistent form), and several of them started together. */

import type { ElementType } from './element.js';
import type { Runnable, RunTimes } from './executor.js';
import type { Plan } from './plan.js';
import type { Selection } from './selection.js';
import type { Method } from './shared-memory/call.js';
import type { CallWaits } from './surroundings.js';

/** Options of a call. */
export interface CollectiveOptions {
  /** Milliseconds after which the call gives up. Default: the communicator's `timeoutMs`. */
  readonly timeoutMs?: number;
  /** Aborting breaks the communicator. Asynchronous forms only. */
  readonly signal?: AbortSignal;
  /** What a Uint16Array holds. Default: no default. */
  readonly type?: ElementType;
}

/** What a call needs of its communicator. */
/** @internal */
export interface CallSetting {
  readonly timeoutMs: number;
  readonly waits: CallWaits | undefined;
  /** Hears of every error. */
  readonly failed: (error: unknown) => void;
}

/** The same at all ranks. */
export class PreparedCall {
  readonly #runnable: Runnable;
  readonly #setting: CallSetting;
  readonly method: Method;
  /** Why this algorithm; undefined where the call is over with what every call begins with. */
  readonly selection: Selection | undefined;

  /** @internal */
  constructor(runnable: Runnable, plan: Plan, setting: CallSetting) {
    this.#runnable = runnable;
    this.#setting = setting;
    this.method = plan.method;
    this.selection = plan.selection;
  }

  /** From now on runs note their times. */
  measure(): void {
    this.#runnable.measure();
  }

  /** Of the last run, once `measure` was called: when it began, when all ranks had entered, and when it ended; ms of `process.hrtime`. */
  get times(): RunTimes {
    return this.#runnable.times;
  }

  /** Under way. */
  get running(): boolean {
    return this.#runnable.running;
  }

  /** Beside the caller: the event loop stays free. */
  async run(options: CollectiveOptions = {}): Promise<void> {
    const { waits, timeoutMs, failed } = this.#setting;
    const slot = waits?.enter() ?? -1;
    try {
      await this.#runnable.run(options.timeoutMs ?? timeoutMs, options.signal);
    } catch (error) {
      failed(error);
      throw error;
    } finally {
      waits?.leave(slot);
    }
  }

  /** On this thread. */
  runSync(timeoutMs = this.#setting.timeoutMs): void {
    const { waits } = this.#setting;
    const slot = waits === undefined ? -1 : waits.enter();
    try {
      this.#runnable.runSync(timeoutMs);
    } catch (error) {
      this.#setting.failed(error);
      throw error;
    } finally {
      if (waits !== undefined) waits.leave(slot);
    }
  }
}

/**
 * Grouped start: begins all of these, of one communicator or of several, before it waits for any. The same calls in the same order at all ranks.
 * @throws the error of the first that failed, after all have ended
 */
export async function startAll(calls: readonly PreparedCall[], options: CollectiveOptions = {}): Promise<void> {
  const outcomes = await Promise.allSettled(calls.map((call) => call.run(options)));
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
}
