/**
 * A shared receive queue of a RoCE device: the engine takes from the ring that `postRecv` fills.
 */

import { VerbsError } from '../../errors.js';
import type { MemoryRegion } from '../../memory-region.js';
import { checkedSrqInit, type SrqInit } from '../../protection-domain.js';
import type { SharedReceiveQueue } from '../../shared-receive-queue.js';
import { QueuedReceive, ReceivePoster } from '../../transport/receive-poster.js';
import type { PreparedRecv, RecvWorkRequest } from '../../work-request.js';
import type { RoceProtectionDomain } from './protection-domain.js';
import { SharedReceiveMemory } from './shared-receive-memory.js';

export class RoceSharedReceiveQueue implements SharedReceiveQueue {
  readonly maxWr: number;
  readonly maxSge: number;
  readonly pd: RoceProtectionDomain;
  /** The engine's name for it. */
  readonly number: number;
  users = 0;
  readonly memory: SharedReceiveMemory;
  private readonly poster: ReceivePoster;
  private isClosed = false;

  constructor(pd: RoceProtectionDomain, init: SrqInit) {
    const { maxWr, maxSge, limit } = checkedSrqInit(init);
    this.pd = pd;
    this.maxWr = maxWr;
    this.maxSge = maxSge;
    const settings = { depth: maxWr, maxSge };
    const buffer = SharedReceiveMemory.make(settings);
    this.memory = new SharedReceiveMemory(settings, buffer);
    this.memory.limit = limit;
    this.poster = new ReceivePoster(this.memory.queue);
    this.number = pd.device.newId();
    pd.device.call({ kind: 'createSrq', srq: this.number, options: settings, buffer });
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
    this.memory.limit = limit;
    if (!this.memory.isLimitReached()) return;
    const words = `a shared receive queue has only ${this.memory.queue.count} requests left`;
    this.pd.device.raise({ type: 'SRQ_LIMIT_REACHED', words });
  }

  close(): void {
    if (this.isClosed) return;
    if (this.users > 0) throw new VerbsError('VERBS_BUSY', `${this.users} queue pairs use this shared receive queue`);
    this.isClosed = true;
    if (!this.pd.device.isClosed) this.pd.device.call({ kind: 'closeSrq', srq: this.number });
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
