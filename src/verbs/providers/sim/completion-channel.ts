/**
 * The completion channel of a simulated device: on virtual time its waits end by the fabric's clock.
 */

import { CompletionChannel, type CompletionQueue, type WaitOptions } from '../../completion-queue.js';
import { waitOn } from '../waiting.js';
import type { SimDevice } from './device.js';

export class SimCompletionChannel extends CompletionChannel {
  private readonly device: SimDevice;
  private readonly queues: CompletionQueue[] = [];
  private readonly waiters = new Set<() => void>();

  constructor(device: SimDevice) {
    super();
    this.device = device;
  }

  override async next(options: WaitOptions = {}): Promise<CompletionQueue> {
    const { fabric } = this.device;
    if (!fabric.isVirtual) return super.next(options);
    const { timeoutMs, signal } = options;
    signal?.throwIfAborted();
    const endNs = timeoutMs === undefined ? undefined : fabric.nowNs + timeoutMs * 1e6;
    for (;;) {
      const queue = this.queues.shift();
      if (queue) return queue;
      const leftMs = endNs === undefined ? undefined : (endNs - fabric.nowNs) / 1e6;
      await waitOn<void>(this.device, { timeoutMs: leftMs, signal }, 'no event', ({ resolve }) => {
        this.waiters.add(resolve);
        return () => this.waiters.delete(resolve);
      });
    }
  }

  override deliver(queue: CompletionQueue): void {
    if (!this.device.fabric.isVirtual) {
      super.deliver(queue);
      return;
    }
    if (!this.queues.includes(queue)) this.queues.push(queue);
    for (const wake of [...this.waiters]) wake();
  }
}
