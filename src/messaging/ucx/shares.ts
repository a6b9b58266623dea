/**
 * Large tagged messages out of memory that UCX shares (`context.alloc`) with peers of this host: the receiver copies them out of it. UCX's own rendezvous would let the
 * kernel copy, page by page.
 *
 * ```
 *   SHARE  number and key of the memory, once          ──>   keeps the key
 *   OFFER  tag; number, request, offset, length        ──>   waits for its receive, which copies
 *                                       the send ends  <──   FETCHED request
 *   UNSHARE  number, when the memory is given back     ──>   lets the key go
 * ```
 */

import type { Payload } from '../payload.js';
import type { RequestRow } from '../requests.js';
import type { Arrival } from './arrival.js';
import type { UcxEndpoint } from './endpoint.js';
import { UcxExposedMemory, UcxRemoteMemory } from './remote-memory.js';
import { DATA_OFFER } from './rings.js';
import { FETCHED, OFFER, SHARE, UNSHARE, W_LO } from './wire.js';
import type { UcxWorker } from './worker.js';

/** Shorter messages UCX carries in its buffers; longer ones it copies in pieces, so that no call takes long. */
const SHORTEST_BYTES = 16_384;
const LONGEST_BYTES = 1 << 24;

const OFFER_BYTES = 20;
/** UCS_ERR_INVALID_ADDR: the sender gave the memory back before the message was received. */
const GONE = -7;
const HIGH = 2 ** 32;

export class UcxShares {
  readonly #worker: UcxWorker;
  // Offers that have not been fetched, by slots that are used again: number of the memory, request of the sender, offset.
  readonly #numbers: number[] = [];
  readonly #requests: number[] = [];
  readonly #offsets: number[] = [];
  readonly #free: number[] = [];

  constructor(worker: UcxWorker) {
    this.#worker = worker;
    worker.fabric.freed.add(this.#unshare);
  }

  close(): void {
    this.#worker.fabric.freed.delete(this.#unshare);
  }

  readonly #unshare = (number: number): void => {
    for (const endpoint of this.#worker.live) if (endpoint.shared.delete(number)) endpoint.control(UNSHARE, number);
  };

  /** Number of the memory that a message can be offered in; 0: it goes another way. */
  numberFor(endpoint: UcxEndpoint, payload: Payload): number {
    const { length, pieces } = payload;
    if (length < SHORTEST_BYTES || length > LONGEST_BYTES || pieces !== undefined || !endpoint.isNear) return 0;
    return this.#worker.fabric.numberOf(payload.bytes.buffer);
  }

  /** Offers the tagged message of a request, which ends when it was fetched. */
  offer(endpoint: UcxEndpoint, row: RequestRow, number: number, context: number, lo: number, hi: number): void {
    const { rings, fabric } = this.#worker;
    const { bytes, length } = row.payload as Payload;
    if (!endpoint.shared.has(number)) {
      endpoint.shared.add(number);
      const key = new UcxExposedMemory(fabric, new Uint8Array(bytes.buffer)).pack();
      endpoint.address(SHARE, number, 0);
      rings.commandBytes.set(key, rings.inlineAt(0));
      rings.sendInline(endpoint.way, 0, key.length);
    }
    endpoint.address(OFFER | (context << 16), lo, hi);
    const { commandWords } = rings;
    const at = rings.inlineAt(0) >> 2;
    commandWords[at] = number;
    commandWords[at + 1] = row.handle;
    commandWords[at + 2] = bytes.byteOffset;
    commandWords[at + 3] = bytes.byteOffset / HIGH;
    commandWords[at + 4] = length;
    const result = rings.sendInline(endpoint.way, 0, OFFER_BYTES);
    if (result < 0) this.#worker.finish(row.handle, result);
  }

  /** The peer has told the key of its memory. */
  learn(endpoint: UcxEndpoint, { words, header, bytes, at, length }: Arrival): void {
    endpoint.offered.set(words[header + W_LO], new UcxRemoteMemory(endpoint, bytes.slice(at, at + length)));
  }

  /** In words, for `explain`. */
  explain(endpoint: UcxEndpoint): string {
    return endpoint.isNear
      ? `memory of context.alloc, ${SHORTEST_BYTES} to ${LONGEST_BYTES} bytes: the receiver copies it out of shared memory`
      : '';
  }

  /** The peer gives its memory back. */
  unlearn(endpoint: UcxEndpoint, number: number): void {
    endpoint.offered.get(number)?.release();
    endpoint.offered.delete(number);
  }

  /** Makes an arrived offer look as any message whose data lies elsewhere. */
  read(arrival: Arrival): void {
    const { words, at } = arrival;
    const word = at >> 2;
    const slot = this.#free.pop() ?? this.#numbers.length;
    this.#numbers[slot] = words[word];
    this.#requests[slot] = words[word + 1];
    this.#offsets[slot] = (words[word + 2] >>> 0) + (words[word + 3] >>> 0) * HIGH;
    arrival.length = words[word + 4];
    arrival.dataKind = DATA_OFFER;
    arrival.data = slot;
  }

  /** Copies an offered message to an address. Returns as a command does. */
  copy(endpoint: UcxEndpoint, slot: number, address: number, length: number): number {
    return endpoint.offered.get(this.#numbers[slot])?.read(this.#offsets[slot], address, length) ?? GONE;
  }

  /** An offer was fetched, or nobody wants it: the send is over. */
  over(endpoint: UcxEndpoint, slot: number): void {
    this.#free.push(slot);
    if (endpoint.state === 'ready') endpoint.control(FETCHED, this.#requests[slot]);
  }
}
