/** What every provider's shared receive queue does the same way: its limit's range, who uses it, and its end. */

import { VerbsError } from '../errors.js';
import type { MemoryRegion } from '../memory-region.js';
import { checkedSrqInit, type SharedReceiveQueue, type SrqInit } from '../shared-receive-queue.js';
import type { PreparedRecv, RecvWorkRequest } from '../work-request.js';
import type { ProvidedDomain } from './provided-domain.js';

export abstract class ProvidedSharedReceiveQueue implements SharedReceiveQueue {
  abstract readonly pd: ProvidedDomain & { readonly device: { readonly isClosed: boolean } };
  readonly maxWr: number;
  readonly maxSge: number;
  /** Queue pairs that use it. */
  users = 0;
  private isClosed = false;

  constructor(init: SrqInit) {
    const { maxWr, maxSge } = checkedSrqInit(init);
    this.maxWr = maxWr;
    this.maxSge = maxSge;
  }

  abstract postRecv(wr: RecvWorkRequest | readonly RecvWorkRequest[]): void;
  abstract prepareRecv(region: MemoryRegion): PreparedRecv;

  /** Has SRQ_LIMIT_REACHED raised once when fewer are left; at once where that is so. */
  protected abstract watch(limit: number): void;
  /** Takes the queue from the device. */
  protected abstract destroy(): void;

  setLimit(limit: number): void {
    if (!Number.isInteger(limit) || limit < 0 || limit > 65536) {
      throw new VerbsError('VERBS_INVALID', `limit must be 0 to 65536: got ${String(limit)}`);
    }
    this.assertOpen();
    this.watch(limit);
  }

  close(): void {
    if (this.isClosed) return;
    if (this.users > 0) {
      throw new VerbsError('VERBS_BUSY', `${this.users} queue pairs use this shared receive queue: close them first`);
    }
    this.isClosed = true;
    if (!this.pd.device.isClosed) this.destroy();
    this.pd.release(this);
  }

  /** Throws VERBS_CLOSED. */
  protected assertOpen(): void {
    if (!this.isClosed && !this.pd.device.isClosed) return;
    throw new VerbsError('VERBS_CLOSED', 'the shared receive queue is closed', { badIndex: 0 });
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
