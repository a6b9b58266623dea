/**
 * A shared receive queue of the sim provider.
 */

import { VerbsError } from '../../errors.js';
import type { MemoryRegion } from '../../memory-region.js';
import { checkedSrqInit, type SrqInit } from '../../protection-domain.js';
import type { SharedReceiveQueue } from '../../shared-receive-queue.js';
import { QueuedReceive, ReceivePoster } from '../../transport/receive-poster.js';
import { ReceiveQueue } from '../../transport/receive-queue.js';
import type { PreparedRecv, RecvWorkRequest } from '../../work-request.js';
import type { SimProtectionDomain } from './protection-domain.js';

export class SimSharedReceiveQueue implements SharedReceiveQueue {
  readonly maxWr: number;
  readonly maxSge: number;
  readonly pd: SimProtectionDomain;
  readonly queue: ReceiveQueue;
  users = 0;
  private readonly poster: ReceivePoster;
  private limit: number;
  private isClosed = false;

  constructor(pd: SimProtectionDomain, init: SrqInit) {
    const { maxWr, maxSge, limit } = checkedSrqInit(init);
    this.pd = pd;
    this.maxWr = maxWr;
    this.maxSge = maxSge;
    this.limit = limit;
    this.queue = new ReceiveQueue({ depth: maxWr, maxSge });
    this.poster = new ReceivePoster(this.queue);
    pd.adopt(this);
  }

  postRecv(wr: RecvWorkRequest | readonly RecvWorkRequest[]): void {
    this.assertOpen();
    this.poster.post(wr);
  }

  postRange(addr: number, length: number, lkey: number, id: number): void {
    this.assertOpen();
    this.poster.postOne(addr, length, lkey, id);
  }

  prepareRecv(region: MemoryRegion): PreparedRecv {
    this.assertOpen();
    return new QueuedReceive(this, region);
  }

  setLimit(limit: number): void {
    if (!Number.isInteger(limit) || limit < 0 || limit > 65536) {
      throw new VerbsError('VERBS_INVALID', `limit must be 0 to 65536: got ${String(limit)}`);
    }
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

  close(): void {
    if (this.isClosed) return;
    if (this.users > 0) throw new VerbsError('VERBS_BUSY', `${this.users} queue pairs use this shared receive queue`);
    this.isClosed = true;
    this.pd.release(this);
  }

  /** Closes without asking: the device is going. */
  shut(): void {
    this.isClosed = true;
  }

  private assertOpen(): void {
    if (this.isClosed || this.pd.device.isClosed) {
      throw new VerbsError('VERBS_CLOSED', 'the shared receive queue is closed', { badIndex: 0 });
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
