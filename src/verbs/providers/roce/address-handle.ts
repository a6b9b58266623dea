/**
 * An address handle of a RoCE device: the engine's number of an IP address and port.
 */

import type { AddressHandle } from '../../address-handle.js';
import { VerbsError } from '../../errors.js';
import type { AddressVector } from '../../qp-state.js';
import { endOf } from './address.js';
import type { RoceDevice } from './device.js';

export class RoceAddressHandle implements AddressHandle {
  readonly av: AddressVector;
  /** What the transport calls the destination. */
  readonly destination: number;
  isClosed = false;

  constructor(device: RoceDevice, av: AddressVector) {
    const end = endOf(av);
    if (end.address.length === 16 && end.address[0] === 0xff) {
      throw new VerbsError('VERBS_UNSUPPORTED', 'a RoCE device has no multicast yet: send to each member');
    }
    this.av = av;
    this.destination = device.call({ kind: 'path', end }) as number;
  }

  close(): void {
    this.isClosed = true;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
