/**
 * A protection domain of a simulated device.
 */

import { ACCESS_REMOTE_ATOMIC, type Access, accessBits, accessWords } from '../../access.js';
import { VerbsError } from '../../errors.js';
import type { MemoryRegion, StridedLayout } from '../../memory-region.js';
import type { ProtectionDomain, QpInit, SrqInit } from '../../protection-domain.js';
import type { AddressVector } from '../../qp-state.js';
import type { DomainMemory } from '../../transport/region-table.js';
import type { Sge } from '../../work-request.js';
import { SimAddressHandle } from './address-handle.js';
import type { SimDevice } from './device.js';
import { SimMemoryRegion } from './memory-region.js';
import { SimQueuePair } from './queue-pair.js';
import { SimSharedReceiveQueue } from './shared-receive-queue.js';

const MAX_PARTS = 64;

export class SimProtectionDomain implements ProtectionDomain {
  readonly device: SimDevice;
  readonly number: number;
  readonly memory: DomainMemory;
  private readonly regions = new Map<number, SimMemoryRegion>();
  private readonly users = new Set<object>();
  private isClosed = false;

  constructor(device: SimDevice, number: number) {
    this.device = device;
    this.number = number;
    this.memory = device.regions.view(number);
  }

  register(memory: ArrayBuffer | ArrayBufferView, access: Access = {}): MemoryRegion {
    this.assertOpen();
    const bytes = bytesOf(memory);
    const bits = accessBits(access);
    const isArena = this.device.isOwn(bytes.buffer as ArrayBuffer);
    if (!isArena && bits & ACCESS_REMOTE_ATOMIC) {
      throw new VerbsError('VERBS_UNSUPPORTED', 'ordinary memory cannot be the target of atomics: take memory of device.alloc');
    }
    return new SimMemoryRegion(this, isArena ? 'arena' : 'private', bits, [bytes], this.device.addressOf(bytes));
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
    return new SimMemoryRegion(this, 'umr', bits, views, this.device.newAddress(length), bases);
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
    return new SimMemoryRegion(this, 'umr', bits, views, this.device.newAddress(count * blockLength), [base]);
  }

  private baseOf(part: Sge, bits: number): SimMemoryRegion {
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

  createQp(init: QpInit): SimQueuePair {
    this.assertOpen();
    return new SimQueuePair(this, init);
  }

  createSrq(init: SrqInit = {}): SimSharedReceiveQueue {
    this.assertOpen();
    return new SimSharedReceiveQueue(this, init);
  }

  createAh(av: AddressVector): SimAddressHandle {
    this.assertOpen();
    return new SimAddressHandle(this.device, av);
  }

  /** Something of this domain is alive, or no longer. */
  adopt(user: object): void {
    this.users.add(user);
    if (user instanceof SimMemoryRegion) {
      this.regions.set(user.lkey, user);
      this.device.adoptRegion(user);
    }
  }

  release(user: object): void {
    this.users.delete(user);
    if (user instanceof SimMemoryRegion) {
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

/** The bytes of what may be registered. Throws VERBS_INVALID for what may not. */
function bytesOf(memory: ArrayBuffer | ArrayBufferView): Uint8Array {
  if (ArrayBuffer.isView(memory)) {
    assertUsable(memory.buffer as ArrayBuffer);
    return new Uint8Array(memory.buffer, memory.byteOffset, memory.byteLength);
  }
  if (!(memory instanceof ArrayBuffer)) throw new VerbsError('VERBS_INVALID', 'register takes an ArrayBuffer or a view of one');
  assertUsable(memory);
  return new Uint8Array(memory);
}

function assertUsable(buffer: ArrayBuffer): void {
  const { resizable, detached } = buffer as ArrayBuffer & { resizable?: boolean; detached?: boolean };
  if (resizable) throw new VerbsError('VERBS_INVALID', 'a resizable ArrayBuffer cannot be registered: its memory may move');
  let isDetached = detached ?? false;
  if (detached === undefined) {
    try {
      new Uint8Array(buffer);
    } catch {
      isDetached = true;
    }
  }
  if (isDetached) throw new VerbsError('VERBS_INVALID', 'a detached ArrayBuffer has no memory to register');
}
