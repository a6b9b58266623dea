/**
 * A shared receive queue: receive requests that many queue pairs draw from, so that memory does not grow with the number of peers.
 */

import { VerbsError } from './errors.js';
import type { MemoryRegion } from './memory-region.js';
import type { PreparedRecv, RecvWorkRequest } from './work-request.js';

/** What a shared receive queue is made from. */
export interface SrqInit {
  /** Default 256, range 1..65536. */
  maxWr?: number;
  /** Default 3, range 1..64. */
  maxSge?: number;
  /** Raise SRQ_LIMIT_REACHED when fewer than this many requests are left. Default 0: never. */
  limit?: number;
}

/** What a shared receive queue is made from, with its defaults. Throws VERBS_INVALID for an unknown option or one out of range. */
export function checkedSrqInit(init: SrqInit): Required<SrqInit> {
  const { maxWr = 256, maxSge = 3, limit = 0, ...unknown } = init;
  for (const name of Object.keys(unknown)) {
    throw new VerbsError('VERBS_INVALID', `createSrq has no option '${name}': it has maxWr, maxSge, limit`);
  }
  for (const [name, value, low, high] of [
    ['maxWr', maxWr, 1, 65536],
    ['maxSge', maxSge, 1, 64],
    ['limit', limit, 0, 65536],
  ] as const) {
    if (!Number.isInteger(value) || value < low || value > high) {
      throw new VerbsError('VERBS_INVALID', `${name} must be ${low} to ${high}: got ${String(value)}`);
    }
  }
  return { maxWr, maxSge, limit };
}

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
