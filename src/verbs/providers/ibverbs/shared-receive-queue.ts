/** A shared receive queue of an RDMA device. */

import { VerbsError } from '../../errors.js';
import type { MemoryRegion } from '../../memory-region.js';
import { checkedSrqInit, type SrqInit } from '../../protection-domain.js';
import type { SharedReceiveQueue } from '../../shared-receive-queue.js';
import { systemError } from '../../system-error.js';
import { QueuedReceive } from '../../transport/receive-poster.js';
import type { PreparedRecv, RecvWorkRequest } from '../../work-request.js';
import { COMMAND_SRQ } from './command-block.js';
import type { IbverbsProtectionDomain } from './protection-domain.js';
import { ReceiveCommands } from './receive-commands.js';

export class IbverbsSharedReceiveQueue implements SharedReceiveQueue {
  readonly maxWr: number;
  readonly maxSge: number;
  readonly object: number;
  users = 0;
  private readonly pd: IbverbsProtectionDomain;
  private readonly commands: ReceiveCommands;
  private isClosed = false;

  constructor(pd: IbverbsProtectionDomain, init: SrqInit) {
    const { maxWr, maxSge, limit } = checkedSrqInit(init);
    const { device } = pd;
    const object = device.capabilities.srq ? device.addon.createSrq(device.handle, pd.object, maxWr, maxSge) : -95;
    if (object < 0) {
      throw systemError(
        object,
        `${device.choice.device.name} makes no shared receive queue of ${maxWr} requests`,
        'VERBS_UNSUPPORTED',
      );
    }
    this.pd = pd;
    this.maxWr = maxWr;
    this.maxSge = maxSge;
    this.object = object;
    this.commands = new ReceiveCommands(device.block, COMMAND_SRQ, object, maxWr, maxSge);
    pd.adopt(this);
    if (limit > 0) this.arm(limit);
  }

  postRecv(wr: RecvWorkRequest | readonly RecvWorkRequest[]): void {
    this.assertOpen();
    this.commands.post(wr);
  }

  postRange(addr: number, length: number, lkey: number, id: number): void {
    this.assertOpen();
    this.commands.postRange(addr, length, lkey, id);
  }

  prepareRecv(region: MemoryRegion): PreparedRecv {
    this.assertOpen();
    return new QueuedReceive(this, region);
  }

  setLimit(limit: number): void {
    if (!Number.isInteger(limit) || limit < 0 || limit > 65536) {
      throw new VerbsError('VERBS_INVALID', `limit must be 0 to 65536: got ${String(limit)}`);
    }
    this.assertOpen();
    this.arm(limit);
  }

  /** Devices raise the event when a request is taken; when fewer are left already it is due now. */
  private arm(limit: number): void {
    const { device } = this.pd;
    const left = device.addon.countSrq(device.handle, this.object);
    if (limit > 0 && left < limit && left > 0) {
      device.raise({ type: 'SRQ_LIMIT_REACHED', words: `a shared receive queue has only ${left} requests left` });
      return;
    }
    const errno = device.addon.limitSrq(device.handle, this.object, limit);
    if (errno !== 0) throw systemError(errno, 'the device cannot watch the queue');
  }

  close(): void {
    if (this.isClosed) return;
    if (this.users > 0) throw new VerbsError('VERBS_BUSY', `${this.users} queue pairs use this shared receive queue`);
    const { device } = this.pd;
    if (!device.isClosed) device.addon.destroy(device.handle, this.object);
    this.isClosed = true;
    this.pd.release(this);
  }

  private assertOpen(): void {
    if (this.isClosed || this.pd.device.isClosed) {
      throw new VerbsError('VERBS_CLOSED', 'the shared receive queue is closed', { badIndex: 0 });
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
