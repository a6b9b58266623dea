/**
 * A protection domain: regions and queue pairs that may work together. A key of another domain is refused.
 */

import type { Access } from './access.js';
import type { AddressHandle } from './address-handle.js';
import type { MemoryRegion, Sge, StridedLayout } from './memory-region.js';
import type { AddressVector } from './qp-state.js';
import type { QpInit, QueuePair } from './queue-pair.js';
import type { SharedReceiveQueue, SrqInit } from './shared-receive-queue.js';

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
