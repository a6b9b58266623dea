/** A protection domain of an RDMA device. */

import { constants } from 'node:os';
import type { Access } from '../../access.js';
import { VerbsError } from '../../errors.js';
import type { MemoryRegion } from '../../memory-region.js';
import type { AddressVector } from '../../qp-state.js';
import type { QpInit } from '../../queue-pair.js';
import type { SrqInit } from '../../shared-receive-queue.js';
import { systemError } from '../../system-error.js';
import { ProvidedDomain } from '../provided-domain.js';
import { IbverbsAddressHandle } from './address-handle.js';
import type { IbverbsDevice } from './device.js';
import { lockedMemoryWords } from './memory-lock.js';
import { IbverbsMemoryRegion } from './memory-region.js';
import { IbverbsQueuePair } from './queue-pair.js';
import { IbverbsSharedReceiveQueue } from './shared-receive-queue.js';

const { ENOMEM, EPERM, EFAULT, EOPNOTSUPP, EINVAL } = constants.errno;

export class IbverbsProtectionDomain extends ProvidedDomain {
  readonly device: IbverbsDevice;
  readonly object: number;
  private readonly handles = new Set<IbverbsAddressHandle>();

  constructor(device: IbverbsDevice) {
    super();
    this.device = device;
    this.object = device.addon.allocPd(device.handle);
    if (this.object < 0) throw systemError(this.object, 'the device gives no protection domain', 'VERBS_NO_MEMORY');
  }

  register(memory: ArrayBuffer | ArrayBufferView, access: Access = {}): MemoryRegion {
    this.assertOpen();
    const { device } = this;
    if (access.onDemand && !device.capabilities.onDemand) {
      throw new VerbsError(
        'VERBS_UNSUPPORTED',
        `${device.choice.device.name} has no on-demand paging: register without onDemand`,
      );
    }
    const { bytes, bits, kind, addr } = device.memory.registrable(memory, access);
    const keys = device.addon.register(device.handle, this.object, addr, bytes.length, bits);
    if (typeof keys === 'number') throw this.refusal(-keys, bytes.length, kind, device.memory.isReadOnly(bytes));
    return new IbverbsMemoryRegion(this, kind, bits, bytes, addr, keys);
  }

  /** Why memory could not be registered. */
  private refusal(errno: number, length: number, kind: string, isReadOnly: boolean): VerbsError {
    if (errno === ENOMEM || errno === EPERM) {
      const { isLow, words } = lockedMemoryWords();
      const why = isLow ? words : `${words}; the device's own tables or the machine's memory may be used up`;
      return new VerbsError('VERBS_NO_MEMORY', `${length} bytes cannot be registered: ${why}`);
    }
    if (kind === 'file' && (errno === EFAULT || errno === EOPNOTSUPP || errno === EINVAL)) {
      return new VerbsError(
        'VERBS_UNSUPPORTED',
        isReadOnly
          ? 'this kernel pins only memory that may be written (Linux before 6.2): map the file with { writable: true }'
          : 'the kernel pins no pages of this file system: copy through device.alloc, or put the file into a tmpfs',
      );
    }
    return systemError(errno, `${length} bytes cannot be registered`);
  }

  registerIndexed(): MemoryRegion {
    return this.refuseIndexed();
  }

  registerStrided(): MemoryRegion {
    return this.refuseIndexed();
  }

  private refuseIndexed(): never {
    this.assertOpen();
    throw new VerbsError('VERBS_UNSUPPORTED', 'this device has no indexed or strided regions: use scatter/gather lists');
  }

  createQp(init: QpInit): IbverbsQueuePair {
    this.assertOpen();
    return new IbverbsQueuePair(this, init);
  }

  createSrq(init: SrqInit = {}): IbverbsSharedReceiveQueue {
    this.assertOpen();
    return new IbverbsSharedReceiveQueue(this, init);
  }

  createAh(av: AddressVector): IbverbsAddressHandle {
    this.assertOpen();
    const handle = new IbverbsAddressHandle(this, av);
    this.handles.add(handle);
    return handle;
  }

  forgetHandle(handle: IbverbsAddressHandle): void {
    this.handles.delete(handle);
  }

  protected override destroy(): void {
    for (const handle of this.handles) handle.close();
    const { device } = this;
    if (device.isClosed) return;
    const errno = device.addon.destroy(device.handle, this.object);
    if (errno !== 0) throw systemError(errno, 'the protection domain is still used', 'VERBS_BUSY');
  }
}
