/**
 * The memory of the demonstration's target, which the initiator reads, writes and counts in while the target's thread is busy.
 *
 * ```
 *   0     greeting   64 bytes of text, written by the target before it blocks
 *   64    reply      64 bytes of text, written by the initiator while it is blocked
 *   128   counter    64-bit word, added to by the initiator
 *   136   turns      64-bit word: turns of the target's event loop; it stands still while the thread is blocked
 *   144   clock      float64: milliseconds that the target has been in its loop, written by the loop itself
 *   152   primes     float64: what the loop has found so far
 *   160   released   32-bit word, set by the initiator when it has seen enough: the loop may end
 * ```
 */

export const TARGET_BYTES = 4096;
export const TEXT_BYTES = 64;
export const GREETING = 0;
export const REPLY = 64;
export const COUNTER = 128;
export const TURNS = 136;
export const CLOCK = 144;
export const PRIMES = 152;
export const RELEASED = 160;

/** Text of a fixed field, without the padding. */
export function readText(bytes: Uint8Array, offset: number): string {
  const field = bytes.slice(offset, offset + TEXT_BYTES);
  const end = field.indexOf(0);
  return new TextDecoder().decode(end < 0 ? field : field.subarray(0, end));
}

export function writeText(bytes: Uint8Array, offset: number, text: string): void {
  const field = new Uint8Array(TEXT_BYTES);
  new TextEncoder().encodeInto(text, field);
  bytes.set(field, offset);
}
