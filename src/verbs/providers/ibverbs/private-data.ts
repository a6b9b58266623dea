/**
 * Private data of connections as librdmacm carries it. Ports of others get the bytes as they are. Between ourselves, under names, an answer is preceded by
 * its length, because the wire carries a fixed number of bytes; and a request may be longer than the wire's 56 bytes:
 *
 *     [ last part 1 byte | length of this part 1 | sender 4 | bytes up to 50 ]      parts before the last are refused with PART_TAKEN
 */

import { randomInt } from 'node:crypto';
import { MAX_PRIVATE_DATA } from '../../connection.js';
import { VerbsError } from '../../errors.js';

const REQUEST_BYTES = 56;
/** What an answer and a refusal carry. */
export const REPLY_BYTES = 196;
export const REJECT_BYTES = 148;

const HEAD_BYTES = 6;
const PART_BYTES = REQUEST_BYTES - HEAD_BYTES;
const MARK = [0x56, 0x62, 0x70, 0x61, 0x72, 0x74];

/** A refusal that means: noted, go on. Its first byte is no length that an answer can have. */
export const PART_TAKEN: Uint8Array = Uint8Array.of(0xff, ...MARK);

export function isPartTaken(data: Uint8Array): boolean {
  return PART_TAKEN.every((byte, i) => data[i] === byte);
}

function tooLong(length: number, most: number): VerbsError {
  return new VerbsError('VERBS_INVALID', `${length} bytes of private data: at most ${most} fit here`);
}

/** The requests that carry private data. Throws VERBS_INVALID when it is too long. */
export function requestFrames(data: Uint8Array, isRaw: boolean): Uint8Array[] {
  const most = isRaw ? REQUEST_BYTES : MAX_PRIVATE_DATA;
  if (data.length > most) throw tooLong(data.length, most);
  if (isRaw) return [data];
  const sender = randomInt(2 ** 32);
  const frames: Uint8Array[] = [];
  for (let at = 0; at === 0 || at < data.length; at += PART_BYTES) {
    const part = data.subarray(at, at + PART_BYTES);
    const frame = new Uint8Array(HEAD_BYTES + part.length);
    frame[0] = at + PART_BYTES >= data.length ? 1 : 0;
    frame[1] = part.length;
    new DataView(frame.buffer).setUint32(2, sender);
    frame.set(part, HEAD_BYTES);
    frames.push(frame);
  }
  return frames;
}

/** What one request carries. */
export function readPart(frame: Uint8Array): { isLast: boolean; sender: number; bytes: Uint8Array } {
  if (frame.length < HEAD_BYTES) return { isLast: true, sender: 0, bytes: new Uint8Array(0) };
  const sender = new DataView(frame.buffer, frame.byteOffset).getUint32(2);
  return { isLast: frame[0] !== 0, sender, bytes: frame.slice(HEAD_BYTES, HEAD_BYTES + frame[1]) };
}

/** Private data of an answer. Throws VERBS_INVALID when it is too long. */
export function answerFrame(data: Uint8Array, limit: number, isRaw: boolean): Uint8Array {
  const most = isRaw ? limit : limit - 1;
  if (data.length > most) throw tooLong(data.length, most);
  return isRaw ? data : Uint8Array.of(data.length, ...data);
}

export function readAnswer(data: Uint8Array, isRaw: boolean): Uint8Array {
  return isRaw ? data : data.slice(1, 1 + (data[0] ?? 0));
}
