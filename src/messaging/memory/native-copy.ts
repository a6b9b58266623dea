/**
 * memcpy by address, for runs that are too long for a loop in JavaScript and whose addresses are known: half the price of `TypedArray.set`, which also
 * needs a view of its source. Where there is no addon nothing has an address, and this is never called.
 */

import { type Door, openDoor } from '../../native/door.js';

/** From this many bytes on a call into the addon pays. */
export const NATIVE_COPY_BYTES = 192;

let door: Door | undefined;

/** Address of the first byte of a buffer, or 0 where there is no addon. */
export function addressOfBuffer(buffer: ArrayBufferLike): number {
  try {
    door ??= openDoor();
    return door.addon.addressOf(buffer as ArrayBuffer);
  } catch {
    return 0;
  }
}

/** Copies bytes between addresses that `addressOfBuffer` or a region gave. */
export function copyByAddress(to: number, from: number, length: number): void {
  const { command, addon } = door as Door;
  command[0] = to;
  command[1] = from;
  command[2] = length;
  addon.copy();
}
