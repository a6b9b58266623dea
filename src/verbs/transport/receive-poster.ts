/**
 * Posting of receive requests, for a queue pair's own queue and for a shared one: the readable form and the prepared one.
 */

import { VerbsError } from '../errors.js';
import type { MemoryRegion } from '../memory-region.js';
import { type PreparedRecv, type RecvWorkRequest, rejectRange, rejectRequest } from '../work-request.js';
import { type ReceiveQueue, ReceiveWork } from './receive-queue.js';

export class ReceivePoster {
  private readonly queue: ReceiveQueue;
  private readonly work: ReceiveWork;

  constructor(queue: ReceiveQueue) {
    this.queue = queue;
    this.work = new ReceiveWork(queue.maxSge);
  }

  /** Posts a request or a chain. Throws VERBS_INVALID or VERBS_QUEUE_FULL with the index of the first rejected one. */
  post(wr: RecvWorkRequest | readonly RecvWorkRequest[]): void {
    const chain = Array.isArray(wr) ? (wr as readonly RecvWorkRequest[]) : [wr as RecvWorkRequest];
    for (let i = 0; i < chain.length; i++) {
      const { sgl = [], id = 0 } = chain[i];
      if (sgl.length > this.queue.maxSge) {
        rejectRequest(`${sgl.length} scatter elements, but the queue was made for ${this.queue.maxSge}`, i);
      }
      if (!Number.isSafeInteger(id)) rejectRequest(`id must be a safe integer: got ${String(id)}`, i);
      const w = this.work;
      w.id = id;
      w.sgeCount = sgl.length;
      for (let s = 0; s < sgl.length; s++) {
        w.sgeAddress[s] = sgl[s].addr;
        w.sgeLength[s] = sgl[s].length;
        w.sgeKey[s] = sgl[s].lkey;
      }
      this.push(i);
    }
  }

  /** Posts one element without an object. */
  postOne(addr: number, length: number, lkey: number, id: number): void {
    const w = this.work;
    w.id = id;
    w.sgeCount = 1;
    w.sgeAddress[0] = addr;
    w.sgeLength[0] = length;
    w.sgeKey[0] = lkey;
    this.push(0);
  }

  private push(index: number): void {
    if (this.queue.push(this.work)) return;
    throw new VerbsError('VERBS_QUEUE_FULL', `the receive queue holds ${this.queue.depth} requests: wait for a completion`, {
      badIndex: index,
    });
  }
}

export class QueuedReceive implements PreparedRecv {
  private readonly target: { postRange(addr: number, length: number, lkey: number, id: number): void };
  private readonly region: MemoryRegion;

  constructor(target: { postRange(addr: number, length: number, lkey: number, id: number): void }, region: MemoryRegion) {
    this.target = target;
    this.region = region;
  }

  post(offset: number, length: number, id: number): void {
    const { region } = this;
    if (!(offset >= 0 && length >= 0 && offset + length <= region.length)) rejectRange(offset, length, region.length);
    this.target.postRange(region.addr + offset, length, region.lkey, id);
  }
}
