/**
 * Sequence numbers of rings: 30 bits that wrap, so that they stay small integers for V8 however long a queue lives.
 */

const SEQ_MASK = 0x3fffffff;

export function seqAdd(seq: number, n: number): number {
  return (seq + n) & SEQ_MASK;
}

/** How many steps from `from` forward to `to`. */
export function seqDistance(from: number, to: number): number {
  return (to - from) & SEQ_MASK;
}

/** The smallest power of two that is at least n: the capacity of a ring, so that a mask finds the slot. */
export function powerOfTwo(n: number): number {
  let p = 1;
  while (p < n) p *= 2;
  return p;
}
