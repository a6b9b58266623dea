/**
 * The way to a peer as libibverbs takes it. RoCE and iWARP go by GID; an InfiniBand peer of the same subnet goes by LID alone, one of another subnet
 * by LID of the router and GID.
 */

import { VerbsError } from '../../errors.js';
import { parseGid } from '../../ip-address.js';
import type { AddressVector } from '../../qp-state.js';
import type { CommandBlock } from './command-block.js';

// Words of the arguments of modify and createAh: native/ibverbs/port.h.
const GLOBAL = 18;
const LID = 19;
const GID_INDEX = 20;
const HOPS = 21;
const SERVICE_LEVEL = 22;
const CLASS = 23;
const FLOW = 24;
const RATE = 25;
export const GID = 26;

const MOST_HOPS = 64;
const PREFIX_BYTES = 8;
/** LIDs of multicast groups start here. */
const FIRST_MULTICAST_LID = 0xc000;

export interface Route {
  /** GID of this port when it is InfiniBand; undefined for RoCE and iWARP. */
  readonly ownGid: Uint8Array | undefined;
  readonly gidIndex: number;
  readonly serviceLevel: number;
  readonly trafficClass: number;
}

/** The 16 bytes of a GID in text form. Throws VERBS_INVALID. */
export function gidOf(text: string): Uint8Array {
  const bytes = parseGid(text);
  if (bytes !== undefined) return bytes;
  throw new VerbsError('VERBS_INVALID', `'${String(text)}' is no GID: give the av of a peer's address()`);
}

/** Throws VERBS_INVALID for a LID that is not of a multicast group. */
export function checkGroupLid(lid: number): void {
  if (lid >= FIRST_MULTICAST_LID && lid < 0xffff) return;
  const words = `on InfiniBand a multicast group has a LID, ${FIRST_MULTICAST_LID} to 65534, which the subnet manager gives with a join`;
  throw new VerbsError('VERBS_INVALID', `${words}: got ${lid}`);
}

/** Puts the way to a peer into the arguments. Throws VERBS_INVALID for an address that is none. */
export function writeAddress(block: CommandBlock, av: AddressVector, route: Route): void {
  const gid = gidOf(av?.gid);
  const a = block.arguments;
  const { ownGid } = route;
  const isMulticast = gid[0] === 0xff;
  const isLocal = ownGid !== undefined && Buffer.compare(gid.subarray(0, PREFIX_BYTES), ownGid.subarray(0, PREFIX_BYTES)) === 0;
  if (ownGid !== undefined && !(Number.isInteger(av.lid) && (av.lid as number) > 0 && (av.lid as number) <= 0xffff)) {
    throw new VerbsError('VERBS_INVALID', `an InfiniBand peer is reached by its LID, 1 to 65535: got ${String(av.lid)}`);
  }
  if (ownGid !== undefined && isMulticast) checkGroupLid(av.lid as number);
  a[GLOBAL] = isLocal ? 0 : 1;
  a[LID] = av.lid ?? 0;
  a[GID_INDEX] = route.gidIndex;
  a[HOPS] = MOST_HOPS;
  a[SERVICE_LEVEL] = route.serviceLevel;
  a[CLASS] = route.trafficClass;
  a[FLOW] = 0;
  a[RATE] = 0;
  block.argumentBytes.set(gid, GID * 4);
}
