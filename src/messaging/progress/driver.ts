/**
 * Who calls `poll` when the user does not: the driver of the callback and promise forms.
 *
 * ```
 *   somebody waits ──> spin a bounded time ──> arm the mailbox, poll once more ──> sleep until the completion queue wakes ──> poll ...
 * ```
 * `poll` mode never sleeps (it gives the event loop its turn between looks), `event` never spins, `adaptive` spins for a time that grows when spinning
 * paid and shrinks when it did not. Nothing runs when nobody waits: no callback or promise is outstanding and no handler is installed.
 */

import type { Worker } from '../worker.js';

/** Longest time that a call keeps the event loop while messages come in, microseconds. */
const MOST_SPIN_US = 1000;

/** How a worker waits: poll keeps a core busy, event sleeps, adaptive polls for a moment and then sleeps. */
export type ProgressMode = 'poll' | 'event' | 'adaptive';

export class Driver {
  readonly mode: ProgressMode;
  readonly #worker: Worker;
  readonly #spinMaxUs: number;
  #spinUs: number;
  /** Requests and handlers that want progress. */
  #interested = 0;
  #running = false;
  #stopped = false;
  /** The loop sleeps: who takes its wake-up must ask for another. */
  asleep = false;

  constructor(worker: Worker, mode: ProgressMode, spinUs: number) {
    this.#worker = worker;
    this.mode = mode;
    this.#spinMaxUs = spinUs;
    this.#spinUs = spinUs;
  }

  /** Somebody wants progress. */
  join(): void {
    this.#interested++;
  }

  /** And no more. */
  leave(): void {
    this.#interested--;
  }

  /** Spins until the request is done or the time is over. */
  spin(request: { readonly done: boolean }): void {
    if (this.#worker.poller.isPolling) return;
    if (this.mode === 'event') {
      this.#worker.poll();
      return;
    }
    const limit = this.mode === 'poll' ? this.#spinMaxUs : this.#spinUs;
    if (this.#look(limit, request)) {
      this.#spinUs = Math.min(this.#spinMaxUs, this.#spinUs * 2 + 1);
    } else {
      this.#spinUs = Math.max(this.#spinMaxUs / 16, this.#spinUs / 2);
    }
  }

  /** Looks for at most this long without anything happening; while something happens, for at most MOST_SPIN_US altogether. */
  #look(limitUs: number, request: { readonly done: boolean } | undefined): boolean {
    const worker = this.#worker;
    let first = 0;
    let start = 0;
    for (;;) {
      let happened = 0;
      for (let i = 0; i < 32; i++) {
        happened += worker.poll();
        if (request === undefined ? happened > 0 : request.done) return true;
      }
      const now = performance.now();
      if (first === 0) {
        first = now;
        start = now;
      } else if (happened > 0 && (now - first) * 1000 < MOST_SPIN_US) {
        start = now;
      } else if ((now - start) * 1000 >= limitUs) {
        return false;
      }
    }
  }

  /** Makes sure that the loop runs, and that peers know what a sleeping one waits for. */
  start(): void {
    if (this.asleep) this.#worker.poller.kick();
    this.ensure();
  }

  /** Makes sure that the loop runs. */
  ensure(): void {
    if (this.#running || this.#stopped) return;
    this.#running = true;
    void this.#run();
  }

  stop(): void {
    this.#stopped = true;
  }

  async #run(): Promise<void> {
    const worker = this.#worker;
    // Callbacks and promises of what completes run from here, on a clean stack.
    await undefined;
    try {
      while (this.#interested > 0 && !this.#stopped) {
        if (worker.poll() > 0) {
          await yieldTurn();
          continue;
        }
        if (this.mode === 'poll') {
          await yieldTurn();
          continue;
        }
        if (this.mode === 'adaptive' && this.#look(this.#spinUs, undefined)) {
          await yieldTurn();
          continue;
        }
        if (!worker.poller.arm()) {
          await yieldTurn();
          continue;
        }
        this.asleep = true;
        await worker.poller.asleep();
        this.asleep = false;
        worker.poller.disarm();
        if (this.#stopped) break;
        worker.poll();
        await yieldTurn(); // also when it was woken for nothing: what it waits for may need the event loop
      }
    } finally {
      this.#running = false;
    }
    if (this.#interested > 0 && !this.#stopped) this.start();
  }
}

/** Lets promises and timers have their turn. */
function yieldTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
