/**
 * The completion queue: where finished work requests appear.
 *
 * `poll` is synchronous and allocates nothing; everything asynchronous is built on it, never under it. `next` waits in one of three modes:
 * 'poll' spins (a core, lowest latency), 'event' sleeps at once (no CPU when idle), 'adaptive' spins for a bounded time that shrinks when
 * spinning did not pay, then sleeps. Providers implement the abstract members and call `signal()` when an armed queue has something.
 *
 * ```
 *   sleeping without losing a wake-up:     consumer: arm, poll once more, sleep      producer: publish, then look at `armed`
 * ```
 */

import { VerbsError } from './errors.js';
import type { Cause } from './status.js';
import { type Completion, WorkCompletions } from './work-completions.js';

/** How the asynchronous form waits. */
export type WaitMode = 'poll' | 'event' | 'adaptive';

/** What a completion queue is made from. */
export interface CqInit {
  /** Completions it holds at most; more is an overrun. Default 256, range 1..1048576. */
  depth?: number;
  /** How `next` and `ready` wait. Default: 'adaptive'. */
  mode?: WaitMode;
  /** Longest spin of the adaptive mode, microseconds. Default 50, range 0..10000. */
  spinUs?: number;
  /** The channel that gets this queue's events. Default: none; `next` needs no channel. */
  channel?: CompletionChannel;
  /** A thread that watches this queue instead of an event from the producer; see Device.createCompletionThread. */
  thread?: CompletionThread;
}

/** Options of every wait. */
export interface WaitOptions {
  /** Gives up with the signal's reason. */
  signal?: AbortSignal;
  /** Gives up with VERBS_TIMEOUT. Default: no limit. Milliseconds. */
  timeoutMs?: number;
}

/** Event moderation: an event after `count` completions or `periodUs` after the first, whichever is earlier. */
export interface Moderation {
  /** Default 1, range 1..65535. */
  count?: number;
  /** Microseconds. Default 0 (wait for the count alone), range 0..65535. */
  periodUs?: number;
}

/** A thread that watches completion queues, so that producers need not raise events. */
export interface CompletionThread {
  /** Core it is pinned to, or -1. */
  readonly cpu: number;
  close(): void;
  [Symbol.dispose](): void;
}

interface Waiter {
  wake: () => void;
}

const KNOWN_INIT: readonly string[] = ['depth', 'mode', 'spinUs', 'channel', 'thread'];

export abstract class CompletionQueue {
  readonly depth: number;
  readonly mode: WaitMode;
  readonly channel: CompletionChannel | undefined;
  readonly #spinMaxNs: number;
  #spinNs: number;
  readonly #waiters: Waiter[] = [];
  readonly #single = new WorkCompletions(1);

  constructor(init: CqInit) {
    for (const name of Object.keys(init)) {
      if (!KNOWN_INIT.includes(name)) {
        throw new VerbsError('VERBS_INVALID', `createCq has no option '${name}': it has ${KNOWN_INIT.join(', ')}`);
      }
    }
    const depth = init.depth ?? 256;
    if (!Number.isInteger(depth) || depth < 1 || depth > 1 << 20) {
      throw new VerbsError('VERBS_INVALID', `depth must be 1 to ${1 << 20}: got ${depth}`);
    }
    const mode = init.mode ?? 'adaptive';
    if (mode !== 'poll' && mode !== 'event' && mode !== 'adaptive') {
      throw new VerbsError('VERBS_INVALID', `mode must be 'poll', 'event' or 'adaptive': got '${String(mode)}'`);
    }
    const spinUs = init.spinUs ?? 50;
    if (!(spinUs >= 0 && spinUs <= 10000)) throw new VerbsError('VERBS_INVALID', `spinUs must be 0 to 10000: got ${spinUs}`);
    this.depth = depth;
    this.mode = mode;
    this.channel = init.channel;
    this.#spinMaxNs = spinUs * 1000;
    this.#spinNs = this.#spinMaxNs;
  }

  /**
   * Takes up to `wcs.capacity` completions and returns how many. Never blocks, never allocates. Throws VERBS_CLOSED on a closed queue, and
   * VERBS_ILLEGAL once the queue has overrun (event CQ_ERR).
   */
  abstract poll(wcs: WorkCompletions): number;

  /** Asks for one event at the next completion (ibv_req_notify_cq). `solicitedOnly`: only for one that the sender marked, or an error. */
  abstract requestNotify(solicitedOnly?: boolean): void;

  /** Sets event moderation (ibv_modify_cq). */
  abstract moderate(moderation: Moderation): void;

  /** The cause of an error, by the number in `wcs.causeId`. The queue keeps the last 1,024. */
  abstract cause(causeId: number): Cause | undefined;

  /** Throws VERBS_BUSY while a queue pair uses it. */
  abstract close(): void;

  /** True when a poll would return something. Allocates nothing. */
  abstract isReady(): boolean;

  /** Keeps the process alive while somebody waits (`true`) or lets it end (`false`). Calls alternate. */
  protected abstract hold(on: boolean): void;

  /** The next completion. Waits as the queue's mode says. A failed request is a value with `status` and `cause`, not an exception. */
  async next(options: WaitOptions = {}): Promise<Completion> {
    for (;;) {
      if (this.poll(this.#single) === 1) {
        const completion = this.#single.at(0);
        const causeId = this.#single.causeId[0];
        return causeId === 0 ? completion : { ...completion, cause: this.cause(causeId) };
      }
      await this.ready(options);
    }
  }

  /** Completions for ever: `for await (const wc of cq)`. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Completion, never, undefined> {
    for (;;) yield await this.next();
  }

  /** Resolves when a poll would return something. Throws VERBS_TIMEOUT, the signal's reason, or VERBS_CLOSED. */
  async ready(options: WaitOptions = {}): Promise<void> {
    options.signal?.throwIfAborted();
    if (this.isReady()) return;
    if (this.mode !== 'event' && this.#spin()) return;
    const deadline = options.timeoutMs === undefined ? Number.POSITIVE_INFINITY : performance.now() + options.timeoutMs;
    while (!this.isReady()) {
      if (performance.now() >= deadline) {
        throw new VerbsError('VERBS_TIMEOUT', `no completion within ${options.timeoutMs} ms`);
      }
      if (this.mode === 'poll') {
        await new Promise<void>((resolve) => setImmediate(resolve));
        options.signal?.throwIfAborted();
        continue;
      }
      this.requestNotify(false);
      if (this.isReady()) return;
      await this.#sleep(deadline, options.signal);
    }
  }

  /** Bounded spin; true when something arrived. The bound doubles when spinning paid and halves when it did not. */
  #spin(): boolean {
    const limit = this.mode === 'poll' ? this.#spinMaxNs : this.#spinNs;
    const start = performance.now();
    do {
      for (let i = 0; i < 64; i++) {
        if (this.isReady()) {
          this.#spinNs = Math.min(this.#spinMaxNs, this.#spinNs * 2 + 1000);
          return true;
        }
      }
    } while ((performance.now() - start) * 1e6 < limit);
    this.#spinNs = this.#spinNs >> 1;
    return false;
  }

  #sleep(deadline: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        const at = this.#waiters.indexOf(waiter);
        if (at >= 0) this.#waiters.splice(at, 1);
        if (this.#waiters.length === 0) this.hold(false);
      };
      const waiter: Waiter = {
        wake: () => {
          done();
          resolve();
        },
      };
      const abort = () => {
        done();
        reject(signal?.reason);
      };
      const timer =
        deadline === Number.POSITIVE_INFINITY ? undefined : setTimeout(waiter.wake, Math.max(1, deadline - performance.now()));
      signal?.addEventListener('abort', abort, { once: true });
      if (this.#waiters.push(waiter) === 1) this.hold(true);
    });
  }

  /** Moderation with its defaults. Throws VERBS_INVALID out of range. */
  protected checkedModeration(moderation: Moderation): Required<Moderation> {
    const { count = 1, periodUs = 0 } = moderation;
    for (const [name, value, low] of [
      ['count', count, 1],
      ['periodUs', periodUs, 0],
    ] as const) {
      if (!Number.isInteger(value) || value < low || value > 65535) {
        throw new VerbsError('VERBS_INVALID', `${name} must be ${low} to 65535: got ${String(value)}`);
      }
    }
    return { count, periodUs };
  }

  /** Called by the provider when an armed queue has something, failed or was closed: wakes every waiter. */
  protected signal(): void {
    this.channel?.deliver(this);
    for (const waiter of this.#waiters.slice()) waiter.wake();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** A completion channel: events of several queues in one place (ibv_comp_channel). */
export class CompletionChannel {
  readonly #events: CompletionQueue[] = [];
  readonly #waiters = new Set<() => void>();

  /** The next queue that raised an event. Poll it empty, then call `requestNotify` again. */
  async next(options: WaitOptions = {}): Promise<CompletionQueue> {
    for (;;) {
      options.signal?.throwIfAborted();
      const queue = this.#events.shift();
      if (queue) return queue;
      await new Promise<void>((resolve, reject) => {
        const end = (act: () => void) => () => {
          clearTimeout(timer);
          clearInterval(alive);
          options.signal?.removeEventListener('abort', abort);
          this.#waiters.delete(wake);
          act();
        };
        const abort = end(() => reject(options.signal?.reason));
        const late = end(() => reject(new VerbsError('VERBS_TIMEOUT', `no event within ${options.timeoutMs} ms`)));
        const timer = options.timeoutMs === undefined ? undefined : setTimeout(late, options.timeoutMs);
        const alive = setInterval(() => {}, 1 << 30);
        options.signal?.addEventListener('abort', abort, { once: true });
        const wake = end(resolve);
        this.#waiters.add(wake);
      });
    }
  }

  /** Called by a queue: hands its event to whoever waits. */
  deliver(queue: CompletionQueue): void {
    if (!this.#events.includes(queue)) this.#events.push(queue);
    for (const wake of [...this.#waiters]) wake();
  }
}
