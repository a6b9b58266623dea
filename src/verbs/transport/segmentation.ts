/**
 * How a message becomes packets: all of them full but the last, at least one, and the opcode by position.
 *
 *     3,000 bytes at MTU 1024:   First 1024 | Middle 1024 | Last 952
 *     1,024 bytes:               Only 1024              0 bytes:  Only 0
 */

import { PATH_MTUS } from '../qp-state.js';
import { Op } from './opcode.js';

/** The longest message: 2^30 bytes, so that even at MTU 256 it spans less than half the PSN circle. */
export const MAX_MESSAGE_BYTES = 2 ** 30;

/** The code 1 to 5 of a path MTU; throws for anything but 256, 512, 1024, 2048, 4096. */
export function mtuCode(mtuBytes: number): number {
  const code = PATH_MTUS.indexOf(mtuBytes) + 1;
  if (code < 1) throw new RangeError(`path MTU ${mtuBytes}: must be 256, 512, 1024, 2048 or 4096`);
  return code;
}

/** How many packets carry `length` bytes; one for an empty message. */
export function packetCount(length: number, mtuBytes: number): number {
  return length <= mtuBytes ? 1 : Math.ceil(length / mtuBytes);
}

/** How many bytes packet `index` of a message carries. */
export function packetBytes(length: number, mtuBytes: number, index: number): number {
  return Math.min(mtuBytes, length - index * mtuBytes);
}

/** SEND operation bits for packet `index` of `count`. */
export function sendOp(index: number, count: number, withImmediate: boolean): number {
  if (index < count - 1) return index === 0 ? Op.sendFirst : Op.sendMiddle;
  if (count === 1) return withImmediate ? Op.sendOnlyImm : Op.sendOnly;
  return withImmediate ? Op.sendLastImm : Op.sendLast;
}

/** RDMA WRITE operation bits for packet `index` of `count`. */
export function writeOp(index: number, count: number, withImmediate: boolean): number {
  if (index < count - 1) return index === 0 ? Op.writeFirst : Op.writeMiddle;
  if (count === 1) return withImmediate ? Op.writeOnlyImm : Op.writeOnly;
  return withImmediate ? Op.writeLastImm : Op.writeLast;
}

/** READ response operation bits for packet `index` of `count`; a replay that starts in the middle counts from its start. */
export function readResponseOp(index: number, count: number): number {
  if (count === 1) return Op.readResponseOnly;
  if (index === 0) return Op.readResponseFirst;
  return index === count - 1 ? Op.readResponseLast : Op.readResponseMiddle;
}
