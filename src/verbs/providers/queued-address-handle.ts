/** An address handle of a device whose packets the transport makes: a number that stands for the destination. */

import type { AddressHandle } from '../address-handle.js';
import type { AddressVector } from '../qp-state.js';

export class QueuedAddressHandle implements AddressHandle {
  readonly av: AddressVector;
  readonly device: object;
  /** What the transport calls the destination. */
  readonly destination: number;
  isClosed = false;

  constructor(device: object, av: AddressVector, destination: number) {
    this.device = device;
    this.av = av;
    this.destination = destination;
  }

  close(): void {
    this.isClosed = true;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
