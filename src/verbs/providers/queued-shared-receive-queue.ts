/** A shared receive queue whose requests are put into a queue as numbers: that of the transport, or of a device. */

import type { MemoryRegion } from '../memory-region.js';
import { QueuedReceive } from '../transport/receive-poster.js';
import type { PreparedRecv, RecvWorkRequest } from '../work-request.js';
import { ProvidedSharedReceiveQueue } from './provided-shared-receive-queue.js';

export abstract class QueuedSharedReceiveQueue extends ProvidedSharedReceiveQueue {
  protected abstract readonly receives: {
    post(wr: RecvWorkRequest | readonly RecvWorkRequest[]): void;
    postOne(addr: number, length: number, lkey: number, id: number): void;
  };

  postRecv(wr: RecvWorkRequest | readonly RecvWorkRequest[]): void {
    this.assertOpen();
    this.receives.post(wr);
  }

  postRange(addr: number, length: number, lkey: number, id: number): void {
    this.assertOpen();
    this.receives.postOne(addr, length, lkey, id);
  }

  prepareRecv(region: MemoryRegion): PreparedRecv {
    this.assertOpen();
    return new QueuedReceive(this, region);
  }
}
