/** What the conformance suite needs of a provider. */

import type { Device, DeviceOptions } from '../../src/verbs/index.js';

/** What the verbs suite is run on: a provider. */
export interface VerbsFactory {
  /** Shown in the test names. */
  readonly name: string;
  /** Opens a device. Two calls give two devices that can reach each other, in one process. */
  open(options?: DeviceOptions): Promise<Device>;
  /** Shrinks sizes and counts for a slow fabric, 0 to 1. Default 1. It also stretches the time limits of the tests. */
  readonly scale?: number;
  /** Tests that this provider cannot pass, each with the reason. A test is named 'chapter: sentence', or by its chapter alone. */
  readonly skip?: readonly { readonly reason: string; readonly tests: readonly string[] }[];
  /** Virtual time only: moves the clock on by at most this many microseconds and does what falls due. The suite calls it while it waits. */
  advance?(microseconds: number): void | Promise<void>;
  /** Virtual time only: the clock that attributes such as timeouts refer to, microseconds. Default: the real one. */
  nowUs?(): number;
}
