/**
 * A protection domain: regions and queue pairs that may work together. A key of another domain is refused.
 */

import type { Access } from './access.js';
import type { AddressHandle } from './address-handle.js';
import type { CompletionQueue } from './completion-queue.js';
import { VerbsError } from './errors.js';
import type { MemoryRegion, StridedLayout } from './memory-region.js';
import type { QpType } from './opcode.js';
import type { AddressVector } from './qp-state.js';
import type { QueuePair } from './queue-pair.js';
import type { SharedReceiveQueue } from './shared-receive-queue.js';
import type { Sge } from './work-request.js';

/** What a queue pair is made from. */
export interface QpInit {
  /** The transport. */
  type: QpType;
  /** Where completions of sends go. */
  sendCq: CompletionQueue;
  /** Where completions of receives go; may be the same as sendCq. */
  recvCq: CompletionQueue;
  /** Receive requests come from here instead of the queue pair's own queue. A DCT must have one. */
  srq?: SharedReceiveQueue;
  /** Send requests outstanding at most. Default 128, range 1..65536. */
  maxSendWr?: number;
  /** Receive requests outstanding at most. Default 128, range 1..65536. Ignored with an srq. */
  maxRecvWr?: number;
  /** Elements of a send list. Default 4, range 1..64. */
  maxSendSge?: number;
  /** Elements of a receive list. Default 3, range 1..64. */
  maxRecvSge?: number;
  /** Bytes that can be sent inline. Default 256, range 0..4096. */
  maxInline?: number;
  /** Make a completion for every send, whatever the request says. Default: false. */
  sqSigAll?: boolean;
  /** Key that initiators of a DCT must name. Default 0. */
  dcKey?: number;
}

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

export interface ProtectionDomain {
  /**
   * Registers memory of the process or of the device. Arena and file memory can be everything; other ArrayBuffers ("private memory")
   * cannot be the target of atomics. Throws VERBS_INVALID for a detached, resizable or WebAssembly buffer, VERBS_UNSUPPORTED for a right
   * the device cannot give to this memory.
   */
  register(memory: ArrayBuffer | ArrayBufferView, access?: Access): MemoryRegion;
  /** A region made of parts of other regions, end to end, under one key (UMR, indexed). At most 64 parts. */
  registerIndexed(parts: readonly Sge[], access?: Access): MemoryRegion;
  /** A region made of equal blocks at equal distances, under one key (UMR, strided). */
  registerStrided(layout: StridedLayout, access?: Access): MemoryRegion;
  /** Throws VERBS_INVALID for options out of range, VERBS_UNSUPPORTED for a type the device lacks, VERBS_NO_MEMORY. */
  createQp(init: QpInit): QueuePair;
  createSrq(init?: SrqInit): SharedReceiveQueue;
  /** Throws VERBS_INVALID for an address that is none, VERBS_PEER_LOST when nobody is there, VERBS_REFUSED for another user's process. */
  createAh(av: AddressVector): AddressHandle;
  /** Throws VERBS_BUSY while regions or queues of the domain are alive. */
  close(): void;
  [Symbol.dispose](): void;
}
