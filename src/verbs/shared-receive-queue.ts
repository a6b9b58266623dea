/**
 * A shared receive queue: receive requests that many queue pairs draw from, so that memory does not grow with the number of peers.
 */

import type { MemoryRegion } from './memory-region.js';
import type { PreparedRecv, RecvWorkRequest } from './work-request.js';

export interface SharedReceiveQueue {
  readonly maxWr: number;
  readonly maxSge: number;
  /** Posts one request or a chain with one doorbell. Throws VERBS_QUEUE_FULL, VERBS_INVALID; `badIndex` names the first rejected one. */
  postRecv(wr: RecvWorkRequest | readonly RecvWorkRequest[]): void;
  /** The allocation-free form: posts ranges of one region. */
  prepareRecv(region: MemoryRegion): PreparedRecv;
  /** Arms SRQ_LIMIT_REACHED: raised once when fewer than `limit` requests are left. 0 disarms. */
  setLimit(limit: number): void;
  /** Throws VERBS_BUSY while a queue pair uses it. */
  close(): void;
  [Symbol.dispose](): void;
}
