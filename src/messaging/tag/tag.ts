/**
 * Tags at the edge: 64 bits, given as a number, a bigint or two halves, held as two 32-bit words inside.
 */

import { MessagingError } from '../errors.js';

/** A 64-bit tag: a safe integer from 0, a bigint of 64 bits, or two 32-bit halves. */
export type Tag = number | bigint | { readonly hi: number; readonly lo: number };

const TWO_32 = 0x100000000;

/** Lower half of a tag as a signed word. Throws MSG_INVALID for what is no tag. */
export function tagLow(tag: Tag): number {
  if (typeof tag === 'number') {
    if ((tag | 0) === tag && tag >= 0) return tag;
    if (Number.isSafeInteger(tag) && tag >= 0) return (tag % TWO_32) | 0;
  } else if (typeof tag === 'bigint') {
    if (tag >= 0n && tag < 1n << 64n) return Number(BigInt.asIntN(32, tag));
  } else if (Number.isInteger(tag?.lo) && Number.isInteger(tag?.hi)) {
    return tag.lo | 0;
  }
  throw new MessagingError(
    'MSG_INVALID',
    `a tag is a safe integer from 0, a bigint of 64 bits or { hi, lo }: got ${String(tag)}`,
  );
}

/** Upper half of a tag as a signed word. */
export function tagHigh(tag: Tag): number {
  if (typeof tag === 'number') return (tag | 0) === tag ? 0 : Math.floor(tag / TWO_32) | 0;
  return typeof tag === 'bigint' ? Number(BigInt.asIntN(32, tag >> 32n)) : tag.hi | 0;
}

/** The tag of two words: a number where that is exact, else a bigint. */
export function tagOf(lo: number, hi: number): number | bigint {
  return hi >>> 21 === 0 ? (hi >>> 0) * TWO_32 + (lo >>> 0) : (BigInt(hi >>> 0) << 32n) | BigInt(lo >>> 0);
}
