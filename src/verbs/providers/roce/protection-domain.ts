/**
 * A protection domain of a RoCE device.
 */

import type { Access } from '../../access.js';
import type { MemoryRegion } from '../../memory-region.js';
import type { AddressVector } from '../../qp-state.js';
import type { QpInit } from '../../queue-pair.js';
import type { SrqInit } from '../../shared-receive-queue.js';
import { QueuedAddressHandle } from '../queued-address-handle.js';
import { TableDomain } from '../table-domain.js';
import type { TableRegion } from '../table-region.js';
import { endFrom } from './address.js';
import type { RoceDevice } from './device.js';
import { RoceMemoryRegion } from './memory-region.js';
import { RoceQueuePair } from './queue-pair.js';
import { RoceSharedReceiveQueue } from './shared-receive-queue.js';

export class RoceProtectionDomain extends TableDomain {
  readonly device: RoceDevice;

  constructor(device: RoceDevice, number: number) {
    super(device.regions, number);
    this.device = device;
  }

  register(memory: ArrayBuffer | ArrayBufferView, access: Access = {}): MemoryRegion {
    this.assertOpen();
    const { bytes, bits, kind, addr } = this.device.memory.registrable(memory, access);
    return new RoceMemoryRegion(this, kind, bits, [bytes], addr);
  }

  protected compose(bits: number, views: readonly Uint8Array[], addr: number, bases: readonly TableRegion[]): TableRegion {
    return new RoceMemoryRegion(this, 'umr', bits, views, addr, bases);
  }

  createQp(init: QpInit): RoceQueuePair {
    this.assertOpen();
    return new RoceQueuePair(this, init);
  }

  createSrq(init: SrqInit = {}): RoceSharedReceiveQueue {
    this.assertOpen();
    return new RoceSharedReceiveQueue(this, init);
  }

  createAh(av: AddressVector): QueuedAddressHandle {
    this.assertOpen();
    const { device } = this;
    const destination = device.call({ kind: 'path', end: endFrom(av, device.address.length) }) as number;
    return new QueuedAddressHandle(device, av, destination);
  }
}
