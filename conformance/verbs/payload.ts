/**
 * Test data: a pseudo-random pattern that depends on a seed and the position, so that a shifted, repeated or missing byte shows.
 */

import assert from 'node:assert/strict';

/** Byte that stands where nothing may be written. */
export const CANARY = 0xc5;

/** Fills `bytes` with the pattern of `seed`. */
export function fillPattern(bytes: Uint8Array, seed: number): Uint8Array {
  let state = (Math.imul(seed, 0x9e3779b1) ^ 0x85ebca6b) | 1;
  for (let i = 0; i < bytes.length; i++) {
    if ((i & 3) === 0) {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
    }
    bytes[i] = state >>> ((i & 3) << 3);
  }
  return bytes;
}

/** `length` bytes of the pattern of `seed`. */
export function patternOf(length: number, seed: number): Uint8Array {
  return fillPattern(new Uint8Array(length), seed);
}

/** Fails with the first differing position. */
export function assertBytes(actual: Uint8Array, expected: Uint8Array, what: string): void {
  assert.equal(actual.length, expected.length, `${what}: length`);
  if (Buffer.compare(actual, expected) === 0) return;
  const at = actual.findIndex((byte, i) => byte !== expected[i]);
  assert.fail(`${what}: byte ${at} of ${actual.length} is ${actual[at]}, expected ${expected[at]}`);
}

/** Fails unless every byte is the canary. */
export function assertUntouched(bytes: Uint8Array, what: string): void {
  const at = bytes.findIndex((byte) => byte !== CANARY);
  if (at >= 0) assert.fail(`${what}: byte ${at} of ${bytes.length} was written (${bytes[at]})`);
}
