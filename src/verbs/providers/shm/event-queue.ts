/**
 * Async events of a device: a bounded queue with waiters. The oldest event goes when nobody takes them.
 */

import type { AsyncEvent } from '../../device.js';
import { VerbsError } from '../../errors.js';

const MOST = 1024;

export class EventQueue {
  readonly #events: AsyncEvent[] = [];
  readonly #waiters = new Set<() => void>();
  #closed = false;

  /** How many wait. */
  get waiting(): number {
    return this.#waiters.size;
  }

  push(event: AsyncEvent): void {
    if (this.#events.length === MOST) this.#events.shift();
    this.#events.push(event);
    for (const wake of [...this.#waiters]) wake();
  }

  take(): AsyncEvent | undefined {
    return this.#events.shift();
  }

  /** The next event. Throws VERBS_TIMEOUT, VERBS_CLOSED or the signal's reason. */
  async next(options: { timeoutMs?: number; signal?: AbortSignal }): Promise<AsyncEvent> {
    const deadline = options.timeoutMs === undefined ? Number.POSITIVE_INFINITY : performance.now() + options.timeoutMs;
    for (;;) {
      options.signal?.throwIfAborted();
      const event = this.#events.shift();
      if (event) return event;
      if (this.#closed) throw new VerbsError('VERBS_CLOSED', 'the device is closed');
      if (performance.now() >= deadline) throw new VerbsError('VERBS_TIMEOUT', `no event within ${options.timeoutMs} ms`);
      await new Promise<void>((resolve) => {
        const wake = () => {
          clearTimeout(timer);
          options.signal?.removeEventListener('abort', wake);
          this.#waiters.delete(wake);
          resolve();
        };
        const timer =
          deadline === Number.POSITIVE_INFINITY ? undefined : setTimeout(wake, Math.max(1, deadline - performance.now()));
        options.signal?.addEventListener('abort', wake, { once: true });
        this.#waiters.add(wake);
      });
    }
  }

  close(): void {
    this.#closed = true;
    for (const wake of [...this.#waiters]) wake();
  }
}
