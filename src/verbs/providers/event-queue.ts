/** Async events of a device: a bounded queue with waiters. The oldest event goes when nobody takes them. */

import type { WaitOptions } from '../completion-queue.js';
import type { AsyncEvent } from '../device.js';
import { VerbsError } from '../errors.js';
import { type Waiter, type WaitHost, waitOn } from './waiting.js';

const MOST = 1024;

export class EventQueue {
  private readonly events: AsyncEvent[] = [];
  private readonly waiters = new Set<Waiter<AsyncEvent>>();

  push(event: AsyncEvent): void {
    const [waiter] = this.waiters;
    if (waiter) {
      waiter.resolve(event);
      return;
    }
    if (this.events.length === MOST) this.events.shift();
    this.events.push(event);
  }

  take(): AsyncEvent | undefined {
    return this.events.shift();
  }

  /** The next event. Throws VERBS_TIMEOUT, VERBS_CLOSED or the signal's reason. */
  next(host: WaitHost, options: WaitOptions): Promise<AsyncEvent> {
    const event = host.isClosed ? undefined : this.take();
    if (event) return Promise.resolve(event);
    return waitOn<AsyncEvent>(host, options, 'no event', (waiter) => {
      this.waiters.add(waiter);
      return () => this.waiters.delete(waiter);
    });
  }

  close(): void {
    for (const waiter of [...this.waiters]) waiter.reject(new VerbsError('VERBS_CLOSED', 'the device is closed'));
  }
}
