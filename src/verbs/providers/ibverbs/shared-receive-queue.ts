/** A shared receive queue of an RDMA device. */

import { VerbsError } from '../../errors.js';
import type { SrqInit } from '../../shared-receive-queue.js';
import { systemError } from '../../system-error.js';
import { QueuedSharedReceiveQueue } from '../queued-shared-receive-queue.js';
import { COMMAND_SRQ } from './command-block.js';
import type { IbverbsProtectionDomain } from './protection-domain.js';
import { ReceiveCommands } from './receive-commands.js';

export class IbverbsSharedReceiveQueue extends QueuedSharedReceiveQueue {
  readonly pd: IbverbsProtectionDomain;
  readonly object: number;
  protected readonly receives: ReceiveCommands;

  constructor(pd: IbverbsProtectionDomain, init: SrqInit) {
    super(init);
    const { maxWr, maxSge } = this;
    const { device } = pd;
    const { name, maxSrqWr, maxSrqSge } = device.choice.device;
    if (!device.capabilities.srq) throw new VerbsError('VERBS_UNSUPPORTED', `${name} has no shared receive queues`);
    if (maxWr > maxSrqWr || maxSge > maxSrqSge) {
      throw new VerbsError(
        'VERBS_INVALID',
        `a shared receive queue of ${name} has at most ${maxSrqWr} requests of ${maxSrqSge} elements: got ${maxWr} of ${maxSge}`,
      );
    }
    const object = device.addon.createSrq(device.handle, pd.object, maxWr, maxSge);
    if (object < 0) {
      throw systemError(object, `${name} makes no shared receive queue of ${maxWr} requests`, 'VERBS_NO_MEMORY');
    }
    this.pd = pd;
    this.object = object;
    this.receives = new ReceiveCommands(device.block, COMMAND_SRQ, object, maxWr, maxSge);
    pd.adopt(this);
    if (init.limit) this.watch(init.limit);
  }

  /** Devices raise the event when a request is taken; when fewer are left already it is due now. */
  protected watch(limit: number): void {
    const { device } = this.pd;
    const left = device.addon.countSrq(device.handle, this.object);
    if (limit > 0 && left < limit && left > 0) {
      device.raise({ type: 'SRQ_LIMIT_REACHED', words: `a shared receive queue has only ${left} requests left` });
      return;
    }
    const errno = device.addon.limitSrq(device.handle, this.object, limit);
    if (errno !== 0) throw systemError(errno, 'the device cannot watch the queue');
  }

  protected destroy(): void {
    const { device } = this.pd;
    device.addon.destroy(device.handle, this.object);
  }
}
