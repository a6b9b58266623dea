/** An address handle of an RDMA device. */

import type { AddressHandle } from '../../address-handle.js';
import { VerbsError } from '../../errors.js';
import type { AddressVector } from '../../qp-state.js';
import { systemError } from '../../system-error.js';
import type { IbverbsProtectionDomain } from './protection-domain.js';

export class IbverbsAddressHandle implements AddressHandle {
  readonly av: AddressVector;
  readonly object: number;
  isClosed = false;
  readonly pd: IbverbsProtectionDomain;

  constructor(pd: IbverbsProtectionDomain, av: AddressVector) {
    const { device } = pd;
    device.writeAddress(av);
    const object = device.addon.createAh(device.handle, pd.object);
    if (object < 0) {
      if (object === -22)
        throw new VerbsError(
          'VERBS_INVALID',
          `${av.gid} cannot be reached from ${device.gid}: another address family, or no route`,
        );
      throw systemError(object, `no way to ${av.gid}`);
    }
    this.pd = pd;
    this.av = av;
    this.object = object;
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    const { device } = this.pd;
    if (!device.isClosed) device.addon.destroy(device.handle, this.object);
    this.pd.forgetHandle(this);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
