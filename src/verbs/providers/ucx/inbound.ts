/** A request of the peer that arrived: its header and where its data is, until it is carried out. */

import { DATA_INLINE, DATA_RENDEZVOUS, type Rings } from './rings.js';

const WORDS = 8;

export class Inbound {
  readonly words: Int32Array;
  readonly dataKind: number;
  /** UCX's handle of data that is not here; 0 when it was given back. */
  data: number;
  readonly length: number;
  /** Small data. */
  readonly bytes: Uint8Array | undefined;
  isStarted = false;
  isDone = false;
  receiveId = 0;
  /** What follows when the data is here. */
  after: (() => void) | undefined;

  constructor(words: Int32Array, at: number, dataKind: number, data: number, length: number, bytes: Uint8Array, dataAt: number) {
    this.words = words.slice(at, at + WORDS);
    this.dataKind = dataKind;
    this.data = data;
    this.length = length;
    this.bytes = dataKind === DATA_INLINE ? bytes.slice(dataAt, dataAt + length) : undefined;
  }

  get isRendezvous(): boolean {
    return this.dataKind === DATA_RENDEZVOUS;
  }

  /** Gives the data back unread. */
  drop(rings: Rings): void {
    if (this.data !== 0 && !this.isStarted) rings.discard(this.dataKind, this.data);
    else if (this.data !== 0 && this.dataKind !== DATA_INLINE) rings.discard(this.dataKind, this.data);
    this.data = 0;
  }
}
