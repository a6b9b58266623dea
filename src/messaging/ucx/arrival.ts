/** The message that is being looked at: its header, and where its data is. One object serves for all; what is kept copies out of it. */

import { DATA_INLINE, EVENT_HEADER, HEADER_BYTES, headerBytes } from './rings.js';
import { MESSAGE, W_HI, W_KIND } from './wire.js';

export class Arrival {
  words!: Int32Array;
  bytes!: Uint8Array;
  /** Word where the header begins. */
  header = 0;
  /** How UCX holds the data, and its handle. */
  dataKind = DATA_INLINE;
  data = 0;
  length = 0;
  /** Bytes of the user's header, behind the words. */
  extra = 0;
  /** Where inline data begins in `bytes`. */
  at = 0;

  /** Reads the event at a word. */
  read(words: Int32Array, doubles: Float64Array, bytes: Uint8Array, word: number): void {
    const header = word + EVENT_HEADER;
    this.words = words;
    this.bytes = bytes;
    this.header = header;
    const dataKind = words[word + 2];
    this.dataKind = dataKind;
    this.length = dataKind === DATA_INLINE ? words[word + 6] : doubles[(word >> 1) + 2];
    this.data = dataKind === DATA_INLINE ? 0 : doubles[(word >> 1) + 3];
    this.extra = (words[header + W_KIND] & 0xff) === MESSAGE ? words[header + W_HI] : 0;
    const skip = headerBytes(this.extra);
    if (words[word + 3] === 0) this.length -= skip;
    this.at = (header << 2) + skip;
  }

  /** The user's header. */
  get userHeader(): Uint8Array {
    const at = (this.header << 2) + HEADER_BYTES;
    return this.bytes.subarray(at, at + this.extra);
  }

  get isInline(): boolean {
    return this.dataKind === DATA_INLINE;
  }
}
