/**
 * Where datagrams of the sim provider go: the index of a device, or the number of a multicast group with the top bit set.
 */

import { VerbsError } from '../../errors.js';
import type { AddressVector } from '../../qp-state.js';
import type { SimDevice } from './device.js';
import { gidKey, parseFabricGid } from './gid.js';

export const GROUP_BIT = 0x80000000;

/** Throws VERBS_INVALID for an address that is none, VERBS_PEER_LOST when nobody is there. */
export function destinationOf(device: SimDevice, av: AddressVector): number {
  const known = device.fabric.deviceOf(av.gid);
  if (known !== undefined) return known.index;
  const bytes = parseFabricGid(av.gid);
  if (bytes === undefined)
    throw new VerbsError('VERBS_INVALID', `'${String(av.gid)}' is no GID: give the av of a peer's address()`);
  if (bytes[0] === 0xff) return (GROUP_BIT | device.fabric.groupOf(gidKey(bytes))) >>> 0;
  const same = device.fabric.devices.find((other) => gidKey(other.gidBytes) === gidKey(bytes));
  if (same !== undefined) return same.index;
  throw new VerbsError('VERBS_PEER_LOST', `no device of this fabric has the GID ${av.gid}: open it in the same fabric`);
}
