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
import type { MemoryRegion } from '../../memory-region.js';
import type { QpInit, SrqInit } from '../../protection-domain.js';
import type { AddressVector } from '../../qp-state.js';
import { bytesOf, refuseMovable } from '../registrable.js';
import { TableDomain } from '../table-domain.js';
import type { TableRegion } from '../table-region.js';
import { RoceAddressHandle } from './address-handle.js';
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
    const { device } = this;
    const bytes = bytesOf(memory);
    const buffer = bytes.buffer as ArrayBuffer;
    const bits = accessBits(access);
    const kind = device.memory.kindOf(buffer);
    if (device.memory.isReadOnly(buffer) && bits & ~(ACCESS_REMOTE_READ | ACCESS_ON_DEMAND)) {
      throw new VerbsError(
        'VERBS_INVALID',
        `the file is mapped for reading: it cannot give ${accessWords(bits)}; map it with { writable: true }`,
      );
    }
    if (kind === 'private') {
      if (bits & ACCESS_REMOTE_ATOMIC) {
        throw new VerbsError('VERBS_UNSUPPORTED', 'ordinary memory cannot be the target of atomics: take memory of device.alloc');
      }
      refuseMovable(buffer, device.memory.addressOf(new Uint8Array(buffer)));
      markAsUntransferable(buffer);
    }
    return new RoceMemoryRegion(this, kind, bits, [bytes], device.memory.addressOf(bytes));
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

  createAh(av: AddressVector): RoceAddressHandle {
    this.assertOpen();
    return new RoceAddressHandle(this.device, av);
  }
}
