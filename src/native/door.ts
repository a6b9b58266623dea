/**
 * The addon with its command block as typed arrays: one object per thread, shared by everything that calls it often.
 */

import type { Addon } from './addon.js';
import { loadAddon } from './load.js';
import { TSO } from './ordering.js';

/** Arguments 0..3 and result 4 in `command`; 64-bit operands as 32-bit halves in `words` (10, 11 add or compare; 12, 13 old; 14, 15 swap). */
export interface Door {
  readonly addon: Addon;
  readonly command: Float64Array;
  readonly words: Int32Array;
  /** This process takes part in asymmetric barriers (ordering.ts). */
  readonly asymmetric: boolean;
}

let door: Door | undefined;

/** The door of this thread. Throws what `loadAddon` throws. */
export function openDoor(): Door {
  if (!door) {
    const addon = loadAddon();
    const block = addon.command();
    const asymmetric = TSO && addon.registerBarrier() === 0;
    door = { addon, command: new Float64Array(block), words: new Int32Array(block), asymmetric };
  }
  return door;
}
