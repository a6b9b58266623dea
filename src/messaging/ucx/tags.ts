/**
 * Tagged messages over UCX's active messages: matching is done here, because UCX's own tags have 64 bits and ours stand beside a context and a source. What is
 * large comes as an announcement of UCX's rendezvous and is fetched straight into the memory of its receive.
 *
 * What comes before its receive is kept, up to a bound of the worker and a window of each endpoint. A message that finds the window full is announced, whatever its
 * size: its bytes stay with the sender, who waits, and every receive finds its message all the same.
 */

import { truncated } from '../errors.js';
import type { Payload } from '../payload.js';
import { KIND_SEND, type RequestRow } from '../requests.js';
import { TagMatching } from '../tag/tag-matching.js';
import type { Arrival } from './arrival.js';
import type { UcxEndpoint } from './endpoint.js';
import {
  DATA_INLINE,
  DATA_OFFER,
  DATA_RENDEZVOUS,
  EVENT_HEADER,
  EVENT_HEADER_BYTES,
  EVENT_LENGTH,
  HEADER_BYTES,
  HEADER_WORDS,
  SEND_RENDEZVOUS,
  WORD_COPY_BYTES,
} from './rings.js';
import { COUNTED, TAG, W_ENDPOINT, W_HI, W_KIND, W_LO, W_SEQUENCE } from './wire.js';
import type { UcxWorker } from './worker.js';

/** The bytes of a message are still with its sender. */
const isElsewhere = (dataKind: number): boolean => dataKind === DATA_RENDEZVOUS || dataKind === DATA_OFFER;

/** A message that came before its receive. */
interface Kept {
  readonly endpoint: UcxEndpoint;
  readonly length: number;
  readonly dataKind: number;
  readonly data: number;
  readonly bytes: Uint8Array | undefined;
  /** Its bytes count as stored. */
  readonly isStored: boolean;
  /** It takes part of the endpoint's window until it is received. */
  readonly isOwed: boolean;
}

export class UcxTags extends TagMatching<UcxEndpoint> {
  readonly #worker: UcxWorker;
  readonly #kept = new Map<number, Kept>();
  #nextKept = 0;
  /** Messages that were kept within the bound of the worker. */
  readonly store = { bytes: 0, count: 0 };
  readonly #mostBytes: number;
  readonly #mostMessages: number;

  constructor(worker: UcxWorker) {
    super(worker.requests);
    this.#worker = worker;
    this.#mostBytes = worker.options.unexpectedBytes ?? 8 << 20;
    this.#mostMessages = worker.options.unexpectedMessages ?? 4096;
  }

  send(endpoint: UcxEndpoint, payload: Payload, context: number, lo: number, hi: number): RequestRow | undefined {
    if (endpoint.state === 'ready' && !endpoint.closedByPeer) {
      const { words, length } = payload;
      const isSmall = length <= WORD_COPY_BYTES && words.length << 2 === length;
      if (isSmall && endpoint.count(length)) return this.#sendWords(endpoint, payload, TAG | COUNTED | (context << 16), lo, hi);
      return this.#send(endpoint, payload, context, lo, hi, undefined);
    }
    return this.#worker.postWhenReady(endpoint, KIND_SEND, payload, (row) => this.#send(endpoint, payload, context, lo, hi, row));
  }

  /** The shortest way of a few words. */
  #sendWords(endpoint: UcxEndpoint, payload: Payload, kind: number, lo: number, hi: number): RequestRow | undefined {
    const { sent } = endpoint;
    endpoint.sent = (sent + 1) | 0;
    const worker = this.#worker;
    const result = worker.rings.sendWords(endpoint.way, kind, endpoint.peerId, lo, hi, sent, payload.words);
    return result === 0 ? undefined : worker.posted(result, endpoint, KIND_SEND, payload, undefined, undefined);
  }

  #send(
    endpoint: UcxEndpoint,
    payload: Payload,
    context: number,
    lo: number,
    hi: number,
    begun: RequestRow | undefined,
  ): RequestRow | undefined {
    const memory = this.#worker.shares.numberFor(endpoint, payload);
    if (memory > 0) {
      const row = begun ?? this.#worker.begin(endpoint, KIND_SEND, payload);
      this.#worker.shares.offer(endpoint, row, memory, context, lo, hi);
      return row;
    }
    const isCounted = endpoint.count(payload.length);
    endpoint.address((isCounted ? TAG | COUNTED : TAG) | (context << 16), lo, hi);
    return this.#worker.post(endpoint, KIND_SEND, 0, payload, begun, isCounted ? 0 : SEND_RENDEZVOUS);
  }

  /**
   * The shortest way of a tagged message, the event at a word: a few whole words that came in their turn, and go straight to a receive that waits for them. False:
   * it goes the other way.
   */
  takeSmall(words: Int32Array, word: number): boolean {
    const header = word + EVENT_HEADER;
    const kind = words[header + W_KIND];
    const length = words[word + EVENT_LENGTH] - HEADER_BYTES;
    if ((kind & 0xff) !== TAG || words[word + EVENT_HEADER_BYTES] !== 0 || length > WORD_COPY_BYTES || (length & 3) !== 0)
      return false;
    const endpoint = this.#worker.endpoints[words[header + W_ENDPOINT]];
    if (endpoint === undefined || endpoint.state !== 'ready' || endpoint.early !== undefined) return false;
    if (words[header + W_SEQUENCE] !== endpoint.heard) return false;
    const { receives } = this;
    const lo = words[header + W_LO];
    const hi = words[header + W_HI];
    const row = receives.find(kind >>> 16, lo, hi, endpoint.source);
    if (row === receives.end) return false;
    const to = (row.payload as Payload).words;
    const count = length >> 2;
    if (to.length < count) return false;
    receives.remove(row);
    endpoint.heard = (endpoint.heard + 1) | 0;
    if (kind & COUNTED) endpoint.took(length);
    for (let w = 0, from = header + HEADER_WORDS; w < count; w++) to[w] = words[from + w];
    row.tagLo = lo;
    row.tagHi = hi;
    row.source = endpoint.source;
    row.length = length;
    this.requests.complete(row);
    return true;
  }

  /** A message came: it goes to its receive, or waits for one. */
  arrived(endpoint: UcxEndpoint, arrival: Arrival): void {
    const { words, header } = arrival;
    const context = words[header + W_KIND] >>> 16;
    const isCounted = (words[header + W_KIND] & COUNTED) !== 0;
    const lo = words[header + W_LO];
    const hi = words[header + W_HI];
    const row = this.match(context, lo, hi, endpoint.source);
    if (row === undefined) {
      const { bytes, at, length, dataKind, data } = arrival;
      const number = this.#nextKept;
      this.#nextKept = (number + 1) | 0;
      const copy = dataKind === DATA_INLINE ? bytes.slice(at, at + length) : undefined;
      const isHere = !isElsewhere(dataKind);
      const isStored = isHere && this.#hasRoom(length);
      if (isStored) {
        this.store.bytes += length;
        this.store.count++;
      }
      const isOwed = isCounted && isHere && !isStored;
      if (isCounted && !isOwed) endpoint.took(length);
      this.#kept.set(number, { endpoint, length, dataKind, data, bytes: copy, isStored, isOwed });
      this.unexpected.keep(context, lo, hi, endpoint.source, number);
      return;
    }
    if (isCounted) endpoint.took(arrival.length);
    this.#deliver(endpoint, row, arrival.dataKind, arrival.data, arrival.length, arrival.bytes, arrival.at);
  }

  #hasRoom(bytes: number): boolean {
    return this.store.count < this.#mostMessages && this.store.bytes + bytes <= this.#mostBytes;
  }

  protected takeKept(row: RequestRow, number: number): void {
    const { endpoint, dataKind, data, length, bytes, isStored, isOwed } = this.#kept.get(number) as Kept;
    this.#kept.delete(number);
    if (isStored) {
      this.store.bytes -= length;
      this.store.count--;
    }
    if (isOwed) endpoint.took(length);
    this.#deliver(endpoint, row, dataKind, data, length, bytes, 0);
  }

  #deliver(
    endpoint: UcxEndpoint,
    row: RequestRow,
    dataKind: number,
    data: number,
    length: number,
    bytes: Uint8Array | undefined,
    at: number,
  ): void {
    const { requests } = this;
    const payload = row.payload as Payload;
    row.source = endpoint.source;
    row.length = length;
    if (length > payload.length) {
      this.#worker.discard(endpoint, dataKind, data);
      requests.fail(row, truncated(length, payload.length));
    } else if (dataKind === DATA_INLINE) {
      payload.unpack(0, length, bytes as Uint8Array, at);
      requests.complete(row);
    } else {
      row.endpoint = endpoint.id;
      this.#worker.fetch(endpoint, row, dataKind, data, payload, length);
    }
  }

  protected lengthOf(kept: number): number {
    return (this.#kept.get(kept) as Kept).length;
  }

  protected isAnnouncedBy(kept: number, endpoint: UcxEndpoint): boolean {
    const { endpoint: from, dataKind } = this.#kept.get(kept) as Kept;
    return from === endpoint && isElsewhere(dataKind);
  }

  protected dropKept(kept: number): void {
    const { endpoint, dataKind, data } = this.#kept.get(kept) as Kept;
    this.#kept.delete(kept);
    this.#worker.discard(endpoint, dataKind, data);
  }

  /** The worker closes: what UCX holds for us goes back. */
  close(): void {
    for (const { endpoint, dataKind, data } of this.#kept.values()) this.#worker.discard(endpoint, dataKind, data);
    this.#kept.clear();
  }
}
