/**
 * Where completions come out: one queue that many queue pairs share, or one for each; polled, or watched by a thread of its own.
 *
 * ```
 *   shared          qp qp qp ──> [queue]            one look finds everything; whoever looks handles everyone's
 *   per-queue-pair  qp ──> [queue]  qp ──> [queue]  each can be looked at by itself, and one that overflows harms nobody else
 *   with a thread   [queue] <── spins while there is traffic, wakes the event loop; producers make no system call
 * ```
 */

import type { CompletionQueue, CompletionThread, CqInit, Device, WorkCompletions } from '../../verbs/index.js';

/** Options of `CompletionQueues`. */
export interface CompletionQueuesOptions {
  /** Default 'shared'. */
  readonly layout?: 'shared' | 'per-queue-pair';
  /** Of each queue. Default 256. */
  readonly depth?: number;
  /** Watch the queues by a thread, on a CPU of its own where one is named. Default: none. */
  readonly thread?: boolean | { readonly cpu?: number };
}

export class CompletionQueues {
  /** The thread that watches, where one was asked for. */
  readonly thread: CompletionThread | undefined;
  readonly #device: Device;
  readonly #isShared: boolean;
  readonly #init: CqInit;
  readonly #queues: CompletionQueue[] = [];

  /** Throws VERBS_UNSUPPORTED where the device has no such thread. */
  constructor(device: Device, options: CompletionQueuesOptions = {}) {
    const { layout = 'shared', depth = 256, thread = false } = options;
    this.#device = device;
    this.#isShared = layout === 'shared';
    if (thread !== false) this.thread = device.createCompletionThread(typeof thread === 'object' ? thread : {});
    this.#init = { depth, ...(this.thread === undefined ? {} : { thread: this.thread }) };
  }

  /** The queue for the next queue pair. */
  take(): CompletionQueue {
    if (this.#isShared && this.#queues.length > 0) return this.#queues[0];
    const queue = this.#device.createCq(this.#init);
    this.#queues.push(queue);
    return queue;
  }

  get size(): number {
    return this.#queues.length;
  }

  /** Looks at every queue once and gives what it finds to `handle`, queue by queue. Returns how many completions there were. */
  poll(into: WorkCompletions, handle: (completions: WorkCompletions, count: number, queue: CompletionQueue) => void): number {
    let found = 0;
    for (const queue of this.#queues) {
      const count = queue.poll(into);
      if (count > 0) handle(into, count, queue);
      found += count;
    }
    return found;
  }

  /** Closes the queues. Their queue pairs must be closed before: VERBS_BUSY. */
  close(): void {
    for (const queue of this.#queues.splice(0)) queue.close();
    this.thread?.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
