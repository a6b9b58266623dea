/** What every provider's protection domain does the same way: it ends after all that came from it. */

import type { Access } from '../access.js';
import type { AddressHandle } from '../address-handle.js';
import { VerbsError } from '../errors.js';
import type { MemoryRegion, Sge, StridedLayout } from '../memory-region.js';
import type { ProtectionDomain } from '../protection-domain.js';
import type { AddressVector } from '../qp-state.js';
import { type QpInit, QueuePair } from '../queue-pair.js';
import type { SharedReceiveQueue, SrqInit } from '../shared-receive-queue.js';

export abstract class ProvidedDomain implements ProtectionDomain {
  abstract readonly device: { assertOpen(): void };
  private readonly users = new Set<object>();
  private isClosed = false;

  abstract register(memory: ArrayBuffer | ArrayBufferView, access?: Access): MemoryRegion;
  abstract registerIndexed(parts: readonly Sge[], access?: Access): MemoryRegion;
  abstract registerStrided(layout: StridedLayout, access?: Access): MemoryRegion;
  abstract createQp(init: QpInit): QueuePair;
  abstract createSrq(init?: SrqInit): SharedReceiveQueue;
  abstract createAh(av: AddressVector): AddressHandle;

  /** Something of this domain is alive, or no longer. A queue pair uses its queues meanwhile. */
  adopt(user: object): void {
    this.users.add(user);
    if (user instanceof QueuePair) countUsers(user, 1);
  }

  release(user: object): void {
    this.users.delete(user);
    if (user instanceof QueuePair) countUsers(user, -1);
  }

  close(): void {
    if (this.isClosed) return;
    if (this.users.size > 0) {
      const words = `${this.users.size} regions and queues of the protection domain are alive: close them first`;
      throw new VerbsError('VERBS_BUSY', words);
    }
    this.destroy();
    this.shut();
  }

  /** Takes the domain from the device. */
  protected destroy(): void {}

  /** Closes without asking: the device is going. */
  shut(): void {
    this.isClosed = true;
  }

  protected assertOpen(): void {
    this.device.assertOpen();
    if (this.isClosed) throw new VerbsError('VERBS_CLOSED', 'the protection domain is closed');
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function countUsers({ sendCq, recvCq, srq }: QueuePair, by: number): void {
  for (const queue of [sendCq, recvCq, srq]) if (queue) (queue as object as { users: number }).users += by;
}
