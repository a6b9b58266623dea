/**
 * An address handle of a RoCE device: the engine's number of an IP address and port.
 */

import type { AddressHandle } from '../../address-handle.js';
import type { AddressVector } from '../../qp-state.js';
import { endFrom } from './address.js';
import type { RoceDevice } from './device.js';

export class RoceAddressHandle implements AddressHandle {
  readonly av: AddressVector;
  /** What the transport calls the destination. */
  readonly destination: number;
  isClosed = false;

  constructor(device: RoceDevice, av: AddressVector) {
    this.av = av;
    this.destination = device.call({ kind: 'path', end: endFrom(av, device.address.length) }) as number;
  }

  close(): void {
    this.isClosed = true;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
