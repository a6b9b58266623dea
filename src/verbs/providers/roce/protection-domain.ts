/**
 * A protection domain of a RoCE device.
 */

import { markAsUntransferable } from 'node:worker_threads';
import {
  ACCESS_ON_DEMAND,
  ACCESS_REMOTE_ATOMIC,
  ACCESS_REMOTE_READ,
  type Access,
  accessBits,
  accessWords,
} from '../../access.js';
import { VerbsError } from '../../errors.js';
import type { MemoryRegion, StridedLayout } from '../../memory-region.js';
import type { ProtectionDomain, QpInit, SrqInit } from '../../protection-domain.js';
import type { AddressVector } from '../../qp-state.js';
import type { DomainMemory } from '../../transport/region-table.js';
import type { Sge } from '../../work-request.js';
import { bytesOf, refuseMovable } from '../registrable.js';
import { RoceAddressHandle } from './address-handle.js';
import type { RoceDevice } from './device.js';
import { RoceMemoryRegion } from './memory-region.js';
import { RoceQueuePair } from './queue-pair.js';
import { RoceSharedReceiveQueue } from './shared-receive-queue.js';

const MAX_PARTS = 64;

export class RoceProtectionDomain implements ProtectionDomain {
  readonly device: RoceDevice;
  readonly number: number;
  readonly memory: DomainMemory;
  private readonly regions = new Map<number, RoceMemoryRegion>();
  private readonly users = new Set<object>();
  private isClosed = false;

  constructor(device: RoceDevice, number: number) {
    this.device = device;
    this.number = number;
    this.memory = device.regions.view(number);
  }

  register(memory: ArrayBuffer | ArrayBufferView, access: Access = {}): MemoryRegion {
    this.assertOpen();
    const { device } = this;
    const bytes = bytesOf(memory);
    const buffer = bytes.buffer as ArrayBuffer;
    const bits = accessBits(access);
    const kind = device.kindOf(buffer);
    if (device.isReadOnly(buffer) && bits & ~(ACCESS_REMOTE_READ | ACCESS_ON_DEMAND)) {
      throw new VerbsError(
        'VERBS_INVALID',
        `the file is mapped for reading: it cannot give ${accessWords(bits)}; map it with { writable: true }`,
      );
    }
    if (kind === 'private') {
      if (bits & ACCESS_REMOTE_ATOMIC) {
        throw new VerbsError('VERBS_UNSUPPORTED', 'ordinary memory cannot be the target of atomics: take memory of device.alloc');
      }
      refuseMovable(buffer, device.addressOf(new Uint8Array(buffer)));
      markAsUntransferable(buffer);
    }
    return new RoceMemoryRegion(this, kind, bits, [bytes], device.addressOf(bytes));
  }

  registerIndexed(parts: readonly Sge[], access: Access = {}): MemoryRegion {
    this.assertOpen();
    if (parts.length === 0 || parts.length > MAX_PARTS) {
      throw new VerbsError('VERBS_INVALID', `an indexed region has 1 to ${MAX_PARTS} parts: got ${parts.length}`);
    }
    const bits = accessBits(access);
    const bases = parts.map((part) => this.baseOf(part, bits));
    const views = parts.flatMap((part) => this.viewsOf(part));
    const length = views.reduce((sum, view) => sum + view.length, 0);
    return new RoceMemoryRegion(this, 'umr', bits, views, this.device.newAddress(length), bases);
  }

  registerStrided(layout: StridedLayout, access: Access = {}): MemoryRegion {
    this.assertOpen();
    const { region, offset = 0, blockLength, stride, count } = layout;
    for (const [name, value, low] of [
      ['offset', offset, 0],
      ['blockLength', blockLength, 1],
      ['stride', stride, blockLength],
      ['count', count, 1],
    ] as const) {
      if (!Number.isInteger(value) || value < low) {
        throw new VerbsError('VERBS_INVALID', `${name} must be an integer of at least ${low}: got ${String(value)}`);
      }
    }
    const end = offset + (count - 1) * stride + blockLength;
    if (end > region.length) {
      throw new VerbsError('VERBS_INVALID', `the last block ends at byte ${end}, the region at ${region.length}`);
    }
    const bits = accessBits(access);
    const base = this.baseOf(region.slice(), bits);
    const blocks = Array.from({ length: count }, (_, i) => region.slice(offset + i * stride, blockLength));
    const views = blocks.flatMap((block) => this.viewsOf(block));
    return new RoceMemoryRegion(this, 'umr', bits, views, this.device.newAddress(count * blockLength), [base]);
  }

  private baseOf(part: Sge, bits: number): RoceMemoryRegion {
    const base = this.regions.get(part.lkey);
    this.viewsOf(part);
    if (base === undefined) throw new VerbsError('VERBS_INVALID', `key ${part.lkey} is not of this protection domain`);
    const missing = bits & ~base.access;
    if (missing !== 0) {
      throw new VerbsError('VERBS_INVALID', `a part of the region does not have the right of ${accessWords(missing)}`);
    }
    return base;
  }

  private viewsOf(part: Sge): Uint8Array[] {
    const views = this.memory.views(part.lkey, part.addr, part.length, 0);
    if (views === undefined) {
      throw new VerbsError('VERBS_INVALID', `a part of ${part.length} bytes is no range of a region of this protection domain`);
    }
    return views;
  }

  createQp(init: QpInit): RoceQueuePair {
    this.assertOpen();
    return new RoceQueuePair(this, init);
  }

  createSrq(init: SrqInit = {}): RoceSharedReceiveQueue {
    this.assertOpen();
    return new RoceSharedReceiveQueue(this, init);
  }

  createAh(av: AddressVector): RoceAddressHandle {
    this.assertOpen();
    return new RoceAddressHandle(this.device, av);
  }

  /** Something of this domain is alive, or no longer. */
  adopt(user: object): void {
    this.users.add(user);
    if (user instanceof RoceMemoryRegion) {
      this.regions.set(user.lkey, user);
      this.device.adoptRegion(user);
    }
  }

  release(user: object): void {
    this.users.delete(user);
    if (user instanceof RoceMemoryRegion) {
      this.regions.delete(user.lkey);
      this.device.releaseRegion(user);
    }
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

  /** Closes without asking: the device is going. */
  shut(): void {
    this.isClosed = true;
    for (const region of this.regions.values()) this.device.regions.revoke(region.lkey);
  }

  private assertOpen(): void {
    this.device.assertOpen();
    if (this.isClosed) throw new VerbsError('VERBS_CLOSED', 'the protection domain is closed');
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
