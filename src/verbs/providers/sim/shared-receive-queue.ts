/** A shared receive queue of the sim provider. */

import type { SrqInit } from '../../shared-receive-queue.js';
import { ReceivePoster } from '../../transport/receive-poster.js';
import { ReceiveQueue } from '../../transport/receive-queue.js';
import { QueuedSharedReceiveQueue } from '../queued-shared-receive-queue.js';
import type { SimProtectionDomain } from './protection-domain.js';

export class SimSharedReceiveQueue extends QueuedSharedReceiveQueue {
  readonly pd: SimProtectionDomain;
  readonly queue: ReceiveQueue;
  protected readonly receives: ReceivePoster;
  private limit: number;

  constructor(pd: SimProtectionDomain, init: SrqInit) {
    super(init);
    this.pd = pd;
    this.limit = init.limit ?? 0;
    this.queue = new ReceiveQueue({ depth: this.maxWr, maxSge: this.maxSge });
    this.receives = new ReceivePoster(this.queue);
    pd.adopt(this);
  }

  protected watch(limit: number): void {
    this.limit = limit;
    this.check();
  }

  /** A request was taken: raises the limit event when it is due. */
  check(): void {
    if (this.limit === 0 || this.queue.count >= this.limit) return;
    this.limit = 0;
    this.pd.device.raise({
      type: 'SRQ_LIMIT_REACHED',
      words: `a shared receive queue has only ${this.queue.count} requests left`,
    });
  }

  protected destroy(): void {}
}
