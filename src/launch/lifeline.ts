/**
 * Frames of the lifeline, the connection between the native thread of a rank and the coordinator. native/liveness.h draws the same: four 32-bit
 * words (type, rank, code, length of the text), then the text. Fixed and small, because the other side is C that must work while JavaScript
 * does not run.
 */

/** ATTACH to WAITING go to the coordinator, LEFT to REPORT come from it, BEAT goes both ways. */
export const FRAME = {
  attach: 1,
  beat: 2,
  leave: 3,
  stall: 4,
  waiting: 5,
  left: 6,
  lost: 7,
  where: 8,
  bye: 9,
  report: 10,
} as const;

/** Longest text that a rank sends, bytes. */
const MAX_TEXT_BYTES = 1024;
/** Longest text that a rank takes, bytes: room for a stall report. */
const MAX_REPORT_BYTES = 8192;
const HEAD_BYTES = 16;

export interface LifelineFrame {
  readonly type: number;
  readonly rank: number;
  readonly code: number;
  readonly text: string;
}

export function encodeLifeline(type: number, rank = -1, code = 0, text = ''): Buffer {
  const body = Buffer.from(text).subarray(0, MAX_REPORT_BYTES);
  const out = Buffer.allocUnsafe(HEAD_BYTES + body.length);
  out.writeInt32LE(type, 0);
  out.writeInt32LE(rank, 4);
  out.writeInt32LE(code, 8);
  out.writeInt32LE(body.length, 12);
  out.set(body, HEAD_BYTES);
  return out;
}

/** Cuts the bytes of a rank's lifeline into frames. */
export class LifelineReader {
  #held: Buffer = Buffer.alloc(0);

  /** The frames that are complete, or undefined for bytes that are no lifeline. */
  push(chunk: Buffer): LifelineFrame[] | undefined {
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    const frames: LifelineFrame[] = [];
    while (this.#held.length >= HEAD_BYTES) {
      const length = this.#held.readInt32LE(12);
      if (length < 0 || length > MAX_TEXT_BYTES) return undefined;
      if (this.#held.length < HEAD_BYTES + length) break;
      frames.push({
        type: this.#held.readInt32LE(0),
        rank: this.#held.readInt32LE(4),
        code: this.#held.readInt32LE(8),
        text: this.#held.toString('utf8', HEAD_BYTES, HEAD_BYTES + length),
      });
      this.#held = this.#held.subarray(HEAD_BYTES + length);
    }
    return frames;
  }
}
