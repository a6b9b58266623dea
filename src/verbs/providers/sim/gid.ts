/**
 * GIDs of simulated devices: addresses of a private IPv6 prefix, the index of the device in the last bytes.
 */

import { parseGid } from '../../ip-address.js';

const PREFIX = [0xfd, 0x76, 0x65, 0x72, 0x62, 0x65, 0x6e, 0x61];

/** The sixteen bytes of the GID of a device. */
export function gidBytesOf(index: number): Uint8Array {
  const b = new Uint8Array(16);
  b.set(PREFIX);
  b[12] = index >>> 24;
  b[13] = index >>> 16;
  b[14] = index >>> 8;
  b[15] = index;
  return b;
}

/** The text of a GID as addresses carry it. */
export function gidOf(index: number): string {
  const low = index & 0xffff;
  const high = index >>> 16;
  return `fd76:6572:6265:6e61::${high === 0 ? '' : `${high.toString(16)}:`}${low.toString(16)}`;
}

/** The sixteen bytes of a GID of the fabric in text; undefined when it is none: an IPv4 address or one with a scope is of a host's network, not of this. */
export function parseFabricGid(text: unknown): Uint8Array | undefined {
  return typeof text === 'string' && /[%.]/.test(text) ? undefined : parseGid(text);
}

/** A normal form of a GID, so that two spellings are one key. */
export function gidKey(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
