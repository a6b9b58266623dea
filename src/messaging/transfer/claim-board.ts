/**
 * The board on which both sides of a large transfer take fragments, where the receiver's memory is mapped by the sender.
 *
 * The receiver reads from the front, the sender writes from the back, and each takes the next fragment when it has finished one: a side that computes or
 * sleeps takes none, and the other carries everything.
 *
 * ```
 *   fragments   | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |        claim word of the entry:  back << 16 | front
 *                 receiver >>>         <<< sender        taken by compare-and-swap while front + back < fragments
 * ```
 * An entry is used again only after the sender has said that it is done with it, so a late claim never meets another transfer.
 */

const ENTRIES = 32;
const ENTRY_WORDS = 16;
const FRONT = 0xffff;
const BACK_ONE = 0x10000;
/** Fragments of one transfer at most. */
export const MOST_FRAGMENTS = 0x7fff;
export const BOARD_BYTES: number = ENTRIES * ENTRY_WORDS * 4;

export class ClaimBoard {
  readonly #words: Int32Array;
  readonly #free: number[] = [];

  /** @param memory BOARD_BYTES bytes, 64-byte aligned, in memory of the receiver. */
  constructor(memory: Uint8Array) {
    this.#words = new Int32Array(memory.buffer, memory.byteOffset, BOARD_BYTES >> 2);
    for (let entry = ENTRIES - 1; entry >= 0; entry--) this.#free.push(entry);
  }

  /** Receiver: an entry with nothing claimed, or -1. */
  open(): number {
    const entry = this.#free.pop();
    if (entry === undefined) return -1;
    Atomics.store(this.#words, entry * ENTRY_WORDS, 0);
    return entry;
  }

  /** Receiver: the sender is done with the entry. */
  close(entry: number): void {
    this.#free.push(entry);
  }

  /** The next fragment from the front (receiver) or from the back (sender) of `fragments`, or -1 when all are taken. */
  claim(entry: number, fragments: number, fromBack: boolean): number {
    const at = entry * ENTRY_WORDS;
    let seen = Atomics.load(this.#words, at);
    for (;;) {
      const front = seen & FRONT;
      const back = seen >>> 16;
      if (front + back >= fragments) return -1;
      const found = Atomics.compareExchange(this.#words, at, seen, seen + (fromBack ? BACK_ONE : 1));
      if (found === seen) return fromBack ? fragments - 1 - back : front;
      seen = found;
    }
  }
}
