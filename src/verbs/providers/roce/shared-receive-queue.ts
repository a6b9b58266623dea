/** A shared receive queue of a RoCE device: the engine takes from the ring that `postRecv` fills. */

import type { SrqInit } from '../../shared-receive-queue.js';
import { ReceivePoster } from '../../transport/receive-poster.js';
import { QueuedSharedReceiveQueue } from '../queued-shared-receive-queue.js';
import type { RoceProtectionDomain } from './protection-domain.js';
import { SharedReceiveMemory } from './shared-receive-memory.js';

export class RoceSharedReceiveQueue extends QueuedSharedReceiveQueue {
  readonly pd: RoceProtectionDomain;
  /** The engine's name for it. */
  readonly number: number;
  readonly memory: SharedReceiveMemory;
  protected readonly receives: ReceivePoster;

  constructor(pd: RoceProtectionDomain, init: SrqInit) {
    super(init);
    this.pd = pd;
    const options = { depth: this.maxWr, maxSge: this.maxSge };
    const buffer = SharedReceiveMemory.make(options);
    this.memory = new SharedReceiveMemory(options, buffer);
    this.memory.limit = init.limit ?? 0;
    this.receives = new ReceivePoster(this.memory.queue);
    this.number = pd.device.newId();
    pd.device.call({ kind: 'createSrq', srq: this.number, options, buffer });
    pd.adopt(this);
  }

  protected watch(limit: number): void {
    this.memory.limit = limit;
    if (!this.memory.isLimitReached()) return;
    const words = `a shared receive queue has only ${this.memory.queue.count} requests left`;
    this.pd.device.raise({ type: 'SRQ_LIMIT_REACHED', words });
  }

  protected destroy(): void {
    this.pd.device.call({ kind: 'closeSrq', srq: this.number });
  }
}
