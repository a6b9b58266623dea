/**
 * An address handle of the sim provider: the index of a device, or the number of a multicast group with the top bit set.
 */

import type { AddressHandle } from '../../address-handle.js';
import { VerbsError } from '../../errors.js';
import type { AddressVector } from '../../qp-state.js';
import type { SimDevice } from './device.js';
import { gidKey, parseGid } from './gid.js';

export const GROUP_BIT = 0x80000000;

export class SimAddressHandle implements AddressHandle {
  readonly av: AddressVector;
  /** What the transport calls the destination. */
  readonly destination: number;
  isClosed = false;

  constructor(device: SimDevice, av: AddressVector) {
    this.av = av;
    this.destination = destinationOf(device, av);
  }

  close(): void {
    this.isClosed = true;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** Throws VERBS_INVALID for an address that is none, VERBS_PEER_LOST when nobody is there. */
export function destinationOf(device: SimDevice, av: AddressVector): number {
  const known = device.fabric.deviceOf(av.gid);
  if (known !== undefined) return known.index;
  const bytes = parseGid(av.gid);
  if (bytes === undefined)
    throw new VerbsError('VERBS_INVALID', `'${String(av.gid)}' is no GID: give the av of a peer's address()`);
  if (bytes[0] === 0xff) return (GROUP_BIT | device.fabric.groupOf(gidKey(bytes))) >>> 0;
  const same = device.fabric.devices.find((other) => gidKey(other.gidBytes) === gidKey(bytes));
  if (same !== undefined) return same.index;
  throw new VerbsError('VERBS_PEER_LOST', `no device of this fabric has the GID ${av.gid}: open it in the same fabric`);
}
