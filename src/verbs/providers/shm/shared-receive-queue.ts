/**
 * A shared receive queue: one shared ring that the queue pairs' senders claim slots of.
 */

import { VerbsError } from '../../errors.js';
import type { MemoryRegion } from '../../memory-region.js';
import { checkedSrqInit, type SrqInit } from '../../protection-domain.js';
import type { SharedReceiveQueue } from '../../shared-receive-queue.js';
import type { PreparedRecv, RecvWorkRequest } from '../../work-request.js';
import type { ShmMemoryRegion } from './memory-region.js';
import { ShmPreparedRecv } from './prepared-recv.js';
import type { ShmProtectionDomain } from './protection-domain.js';
import { ReceiveRing } from './receive-ring.js';

export class ShmSharedReceiveQueue implements SharedReceiveQueue {
  readonly maxWr: number;
  readonly maxSge: number;
  readonly pd: ShmProtectionDomain;
  readonly ring: ReceiveRing;
  users = 0;
  #limit: number;
  #closed = false;

  constructor(pd: ShmProtectionDomain, init: SrqInit) {
    const { maxWr, maxSge, limit } = checkedSrqInit(init);
    this.pd = pd;
    this.maxWr = maxWr;
    this.maxSge = maxSge;
    this.#limit = limit;
    const { queuePairs } = pd.device;
    this.ring = new ReceiveRing(pd.device, maxWr, maxSge, true, (qpNum) => queuePairs.get(qpNum));
    pd.users++;
    pd.device.srqs.add(this);
  }

  postRecv(wr: RecvWorkRequest | readonly RecvWorkRequest[]): void {
    if (this.#closed) throw new VerbsError('VERBS_CLOSED', 'the shared receive queue is closed', { badIndex: 0 });
    const chain = Array.isArray(wr) ? (wr as readonly RecvWorkRequest[]) : [wr as RecvWorkRequest];
    for (let i = 0; i < chain.length; i++) this.ring.post(chain[i], this.pd, i);
  }

  prepareRecv(region: MemoryRegion): PreparedRecv {
    return new ShmPreparedRecv(undefined, this.ring, region as ShmMemoryRegion);
  }

  setLimit(limit: number): void {
    if (!Number.isInteger(limit) || limit < 0 || limit > this.maxWr) {
      throw new VerbsError('VERBS_INVALID', `limit must be 0 to ${this.maxWr}: got ${String(limit)}`);
    }
    this.#limit = limit;
    this.check();
  }

  /** Raises the limit event when it is due. Called when completions were taken. */
  check(): void {
    if (this.#limit === 0 || this.ring.unclaimed >= this.#limit) return;
    this.#limit = 0;
    this.pd.device.raise({ type: 'SRQ_LIMIT_REACHED', words: `a shared receive queue has ${this.ring.unclaimed} requests left` });
  }

  close(): void {
    if (this.#closed) return;
    if (this.users > 0)
      throw new VerbsError('VERBS_BUSY', `${this.users} queue pairs use this shared receive queue: close them first`);
    this.#closed = true;
    this.pd.users--;
    this.pd.device.srqs.delete(this);
    for (const cq of this.pd.device.completionQueues) cq.removeRing(this.ring);
    this.pd.device.retireRing(this.ring, undefined);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
