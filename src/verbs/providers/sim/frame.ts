/**
 * A packet on its way, and the pool it goes back to: a fabric that has run for a while makes no new ones.
 *
 *     slab   [ packet | packet | packet | ... ]      bytes and words are views of the same slab; a frame is a place in it
 */

/** Something that happens at a time: a frame arrives, or a timer calls. */
export interface Happening {
  happen(): void;
}

export class Frame implements Happening {
  /** The slab that the packet stands in, from `at` on, a multiple of 4. */
  readonly bytes: Uint8Array;
  readonly words: Int32Array;
  readonly at: number;
  /** Bytes from BTH to padding, a multiple of 4; the ICRC has room behind them. */
  length = 0;
  /** Indices of devices. */
  from = 0;
  to = 0;
  /** Number of the multicast group it was sent to, or -1. */
  group = -1;
  isCorrupt = false;
  /** It has waited in a long queue. */
  isMarked = false;
  /** Links it has passed, and what the fault plan adds to its time. */
  hop = 0;
  delayNs = 0;
  private readonly pool: FramePool;

  constructor(bytes: Uint8Array, words: Int32Array, at: number, pool: FramePool) {
    this.bytes = bytes;
    this.words = words;
    this.at = at;
    this.pool = pool;
  }

  happen(): void {
    this.pool.arrived(this);
  }

  /** To where it came from. */
  give(): void {
    this.pool.free.push(this);
  }
}

const SLAB_BYTES = 1 << 18;

/** Frames of one size. */
export class FramePool {
  readonly free: Frame[] = [];
  /** Bytes of a packet with its ICRC. */
  readonly capacity: number;
  readonly arrived: (frame: Frame) => void;

  /** @param capacity bytes, a multiple of 4. */
  constructor(capacity: number, arrived: (frame: Frame) => void) {
    this.capacity = capacity;
    this.arrived = arrived;
  }

  take(): Frame {
    const frame = this.free.pop() ?? this.grow();
    frame.isCorrupt = false;
    frame.isMarked = false;
    frame.group = -1;
    return frame;
  }

  /** The same packet in a frame of this pool, where it must fit. */
  copy(frame: Frame): Frame {
    const other = this.take();
    other.length = frame.length;
    other.from = frame.from;
    other.to = frame.to;
    other.group = frame.group;
    other.isCorrupt = frame.isCorrupt;
    const from = frame.at >> 2;
    const to = other.at >> 2;
    const n = (frame.length >> 2) + 1;
    const { words } = other;
    if (n < 64) for (let i = 0; i < n; i++) words[to + i] = frame.words[from + i];
    else words.set(frame.words.subarray(from, from + n), to);
    return other;
  }

  /** A new slab; all of its frames but one are free. */
  private grow(): Frame {
    const slab = new ArrayBuffer(SLAB_BYTES);
    const bytes = new Uint8Array(slab);
    const words = new Int32Array(slab);
    for (let at = this.capacity; at + this.capacity <= SLAB_BYTES; at += this.capacity) {
      this.free.push(new Frame(bytes, words, at, this));
    }
    return new Frame(bytes, words, 0, this);
  }
}
