/**
 * A shared receive queue: one shared ring that the queue pairs' senders claim slots of.
 */

import type { MemoryRegion } from '../../memory-region.js';
import type { SrqInit } from '../../shared-receive-queue.js';
import type { PreparedRecv, RecvWorkRequest } from '../../work-request.js';
import { ProvidedSharedReceiveQueue } from '../provided-shared-receive-queue.js';
import type { ShmMemoryRegion } from './memory-region.js';
import { ShmPreparedRecv } from './prepared-recv.js';
import type { ShmProtectionDomain } from './protection-domain.js';
import { ReceiveRing } from './receive-ring.js';

export class ShmSharedReceiveQueue extends ProvidedSharedReceiveQueue {
  readonly pd: ShmProtectionDomain;
  readonly ring: ReceiveRing;
  #limit: number;

  constructor(pd: ShmProtectionDomain, init: SrqInit) {
    super(init);
    this.pd = pd;
    this.#limit = init.limit ?? 0;
    const { queuePairs } = pd.device;
    this.ring = new ReceiveRing(pd.device, this.maxWr, this.maxSge, true, (qpNum) => queuePairs.get(qpNum));
    pd.adopt(this);
    pd.device.srqs.add(this);
  }

  postRecv(wr: RecvWorkRequest | readonly RecvWorkRequest[]): void {
    this.assertOpen();
    const chain = Array.isArray(wr) ? (wr as readonly RecvWorkRequest[]) : [wr as RecvWorkRequest];
    for (let i = 0; i < chain.length; i++) this.ring.post(chain[i], this.pd, i);
  }

  prepareRecv(region: MemoryRegion): PreparedRecv {
    return new ShmPreparedRecv(undefined, this.ring, region as ShmMemoryRegion);
  }

  protected watch(limit: number): void {
    this.#limit = limit;
    this.check();
  }

  /** Raises the limit event when it is due. Called when completions were taken. */
  check(): void {
    if (this.#limit === 0 || this.ring.unclaimed >= this.#limit) return;
    this.#limit = 0;
    this.pd.device.raise({ type: 'SRQ_LIMIT_REACHED', words: `a shared receive queue has ${this.ring.unclaimed} requests left` });
  }

  protected destroy(): void {
    const { device } = this.pd;
    device.srqs.delete(this);
    for (const cq of device.completionQueues) cq.removeRing(this.ring);
    device.retireRing(this.ring, undefined);
  }
}
