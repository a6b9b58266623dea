/**
 * A packet on its way, and the pool it goes back to: a fabric that has run for a while makes no new ones.
 */

import type { Happening } from './fabric.js';

export class Frame implements Happening {
  readonly bytes: Uint8Array;
  /** BTH to padding. */
  length = 0;
  /** Indices of devices. */
  from = 0;
  to = 0;
  /** Number of the multicast group it was sent to, or -1. */
  group = -1;
  isCorrupt = false;
  /** Links it has passed, and what the fault plan adds to its time. */
  hop = 0;
  delayNs = 0;
  private readonly arrived: (frame: Frame) => void;

  constructor(capacity: number, arrived: (frame: Frame) => void) {
    this.bytes = new Uint8Array(capacity);
    this.arrived = arrived;
  }

  happen(): void {
    this.arrived(this);
  }
}

/** Small packets are most of them; they get small buffers. */
export const SMALL_FRAME = 320;

export class FramePool {
  private readonly capacity: number;
  private readonly arrived: (frame: Frame) => void;
  private readonly large: Frame[] = [];
  private readonly small: Frame[] = [];

  constructor(capacity: number, arrived: (frame: Frame) => void) {
    this.capacity = capacity;
    this.arrived = arrived;
  }

  /** A frame that holds a packet of any length. */
  take(): Frame {
    const frame = this.large.pop() ?? new Frame(this.capacity, this.arrived);
    frame.isCorrupt = false;
    frame.group = -1;
    return frame;
  }

  /** The same packet in a frame of its own, as small as it may be. */
  copy(frame: Frame): Frame {
    const isSmall = frame.length + 4 <= SMALL_FRAME;
    const pool = isSmall ? this.small : this.large;
    const other = pool.pop() ?? new Frame(isSmall ? SMALL_FRAME : this.capacity, this.arrived);
    other.length = frame.length;
    other.from = frame.from;
    other.to = frame.to;
    other.group = frame.group;
    other.isCorrupt = frame.isCorrupt;
    const n = frame.length + 4;
    if (n < 96) for (let i = 0; i < n; i++) other.bytes[i] = frame.bytes[i];
    else other.bytes.set(frame.bytes.subarray(0, n));
    return other;
  }

  give(frame: Frame): void {
    if (frame.bytes.length === SMALL_FRAME) this.small.push(frame);
    else this.large.push(frame);
  }
}
