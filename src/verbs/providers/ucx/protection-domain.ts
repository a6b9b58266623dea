/** A protection domain of a UCX device. */

import { markAsUntransferable } from 'node:worker_threads';
import { ACCESS_REMOTE_ATOMIC, ACCESS_REMOTE_READ, type Access, accessBits, accessWords } from '../../access.js';
import type { AddressHandle } from '../../address-handle.js';
import { VerbsError } from '../../errors.js';
import type { MemoryRegion } from '../../memory-region.js';
import type { ProtectionDomain, QpInit } from '../../protection-domain.js';
import type { SharedReceiveQueue } from '../../shared-receive-queue.js';
import { bytesOf, refuseMovable } from '../registrable.js';
import type { UcxDevice } from './device.js';
import { UcxQueuePair } from './queue-pair.js';
import { UcxMemoryRegion } from './region.js';

export class UcxProtectionDomain implements ProtectionDomain {
  readonly device: UcxDevice;
  private readonly users = new Set<object>();
  private isClosed = false;

  constructor(device: UcxDevice) {
    this.device = device;
  }

  register(memory: ArrayBuffer | ArrayBufferView, access: Access = {}): MemoryRegion {
    this.assertOpen();
    const { device } = this;
    const bytes = bytesOf(memory);
    const buffer = bytes.buffer as ArrayBuffer;
    const bits = accessBits(access);
    const kind = device.kindOf(buffer);
    if (device.isReadOnly(buffer) && bits & ~ACCESS_REMOTE_READ) {
      throw new VerbsError('VERBS_INVALID', `the file is mapped for reading: it cannot give ${accessWords(bits)}`);
    }
    if (kind === 'private') {
      if (bits & ACCESS_REMOTE_ATOMIC) {
        throw new VerbsError('VERBS_UNSUPPORTED', 'ordinary memory cannot be the target of atomics: take memory of device.alloc');
      }
      refuseMovable(buffer, device.addressOf(new Uint8Array(buffer)));
      markAsUntransferable(buffer);
    }
    const region = new UcxMemoryRegion(this, kind, bits, bytes, device.addressOf(bytes), device.newKey());
    this.users.add(region);
    device.regions.set(region.rkey, region);
    return region;
  }

  releaseRegion(region: UcxMemoryRegion): void {
    this.users.delete(region);
    this.device.regions.delete(region.rkey);
  }

  registerIndexed(): MemoryRegion {
    return this.refuse('indexed or strided regions: use scatter/gather lists');
  }

  registerStrided(): MemoryRegion {
    return this.refuse('indexed or strided regions: use scatter/gather lists');
  }

  createQp(init: QpInit): UcxQueuePair {
    this.assertOpen();
    const qp = new UcxQueuePair(this, init);
    this.users.add(qp);
    return qp;
  }

  releaseQp(qp: UcxQueuePair): void {
    this.users.delete(qp);
  }

  createSrq(): SharedReceiveQueue {
    return this.refuse('shared receive queues: post receives to each queue pair');
  }

  createAh(): AddressHandle {
    return this.refuse('datagrams: use RC queue pairs');
  }

  private refuse(what: string): never {
    this.assertOpen();
    throw new VerbsError('VERBS_UNSUPPORTED', `a UCX device has no ${what}`);
  }

  close(): void {
    if (this.isClosed) return;
    if (this.users.size > 0) {
      throw new VerbsError(
        'VERBS_BUSY',
        `${this.users.size} regions and queues of the protection domain are alive: close them first`,
      );
    }
    this.isClosed = true;
  }

  private assertOpen(): void {
    this.device.assertOpen();
    if (this.isClosed) throw new VerbsError('VERBS_CLOSED', 'the protection domain is closed');
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
