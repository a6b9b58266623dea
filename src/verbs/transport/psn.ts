/**
 * Packet sequence numbers: 24 bits that wrap. "Before" and "after" are defined for numbers less than half the circle apart
 * (2^23), which the requester guarantees by never having more than that outstanding.
 */

export const PSN_MASK = 0xffffff;

/** The largest distance two outstanding PSNs may have: half the circle, less one. */
export const PSN_HALF = 0x7fffff;

/** `psn + n` on the circle; `n` may be negative. */
export function psnAdd(psn: number, n: number): number {
  return (psn + n) & PSN_MASK;
}

/** How far `a` is after `b`: negative when before, in [-2^23, 2^23). */
export function psnDiff(a: number, b: number): number {
  return ((a - b) << 8) >> 8;
}
