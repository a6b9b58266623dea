/**
 * A protection domain of a simulated device.
 */

import { ACCESS_REMOTE_ATOMIC, type Access, accessBits } from '../../access.js';
import { VerbsError } from '../../errors.js';
import type { MemoryRegion } from '../../memory-region.js';
import type { AddressVector } from '../../qp-state.js';
import type { QpInit } from '../../queue-pair.js';
import type { SrqInit } from '../../shared-receive-queue.js';
import { QueuedAddressHandle } from '../queued-address-handle.js';
import { TableDomain } from '../table-domain.js';
import { TableRegion } from '../table-region.js';
import { destinationOf } from './destination.js';
import type { SimDevice } from './device.js';
import { SimQueuePair } from './queue-pair.js';
import { SimSharedReceiveQueue } from './shared-receive-queue.js';

export class SimProtectionDomain extends TableDomain {
  readonly device: SimDevice;

  constructor(device: SimDevice, number: number) {
    super(device.regions, number);
    this.device = device;
  }

  register(memory: ArrayBuffer | ArrayBufferView, access: Access = {}): MemoryRegion {
    this.assertOpen();
    const bytes = bytesOf(memory);
    const bits = accessBits(access);
    const isArena = this.device.memory.isOwn(bytes.buffer as ArrayBuffer);
    if (!isArena && bits & ACCESS_REMOTE_ATOMIC) {
      throw new VerbsError('VERBS_UNSUPPORTED', 'ordinary memory cannot be the target of atomics: take memory of device.alloc');
    }
    return new TableRegion(this, isArena ? 'arena' : 'private', bits, [bytes], this.device.memory.addressOf(bytes));
  }

  protected compose(bits: number, views: readonly Uint8Array[], addr: number, bases: readonly TableRegion[]): TableRegion {
    return new TableRegion(this, 'umr', bits, views, addr, bases);
  }

  createQp(init: QpInit): SimQueuePair {
    this.assertOpen();
    return new SimQueuePair(this, init);
  }

  createSrq(init: SrqInit = {}): SimSharedReceiveQueue {
    this.assertOpen();
    return new SimSharedReceiveQueue(this, init);
  }

  createAh(av: AddressVector): QueuedAddressHandle {
    this.assertOpen();
    return new QueuedAddressHandle(this.device, av, destinationOf(this.device, av));
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
