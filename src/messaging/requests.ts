/**
 * The table of requests: what is under way, as columns of integers. Beginning and ending a request allocates nothing.
 *
 * ```
 *   handle = generation << 20 | index        0 stands for "complete already": most small sends never get a row
 *
 *   index   state    kind   tagLo tagHi  source  length  total   payload  owner
 *     0     PENDING  RECV     7     0     -1       0       0     [bytes]  Request
 *     1     FREE
 * ```
 * `owner` is the object of the callback and promise forms; the synchronous form has none and asks with `test`.
 */

import { MessagingError } from './errors.js';
import type { Payload } from './payload.js';

const FREE = 0;
export const PENDING = 1;
export const DONE = 2;
export const FAILED = 3;

export const KIND_SEND = 1;
export const KIND_RECV = 2;
export const KIND_AM = 3;
export const KIND_AM_RECV = 4;
export const KIND_STREAM = 5;
export const KIND_RMA = 6;

const KIND_WORDS = [
  '',
  'tag send',
  'tag receive',
  'active message',
  'active message payload',
  'stream send',
  'remote memory access',
  'flush',
];

/** Whoever wants to hear of the end of a request. */
export interface RequestOwner {
  /** Called once, when the row still holds the outcome; the row is freed afterwards. */
  completed(table: RequestTable, index: number): void;
}

const INDEX_BITS = 20;
const INDEX_MASK = (1 << INDEX_BITS) - 1;
const MOST = 1 << INDEX_BITS;
const GENERATIONS = 1 << 11;

export class RequestTable {
  state = new Uint8Array(64);
  kind = new Uint8Array(64);
  generation = new Uint16Array(64);
  tagLo = new Int32Array(64);
  tagHi = new Int32Array(64);
  context = new Int32Array(64);
  /** Source number of a receive: asked for while it waits, found when it is done. */
  source = new Int32Array(64);
  /** Endpoint that the request depends on, or -1: it fails with the endpoint. */
  endpoint = new Int32Array(64);
  /** Bytes of the message. */
  length = new Float64Array(64);
  /** Bytes moved so far. */
  moved = new Float64Array(64);
  /** Row of the matching queue, request at the peer, or what else the kind needs. */
  aux = new Float64Array(64);
  flags = new Int32Array(64);
  /** Rails for which the payload is registered, as bits. */
  pinned = new Uint8Array(64);
  readonly payload: (Payload | undefined)[] = [];
  readonly owner: (RequestOwner | undefined)[] = [];
  readonly error: (Error | undefined)[] = [];
  /** Rows in use. */
  live = 0;
  #free = new Int32Array(64);
  #freeCount = 0;
  #size = 0;

  /** A row for a request that begins. */
  begin(kind: number, payload: Payload | undefined): number {
    let index: number;
    if (this.#freeCount > 0) {
      index = this.#free[--this.#freeCount];
    } else {
      if (this.#size === this.state.length) this.#grow();
      index = this.#size++;
      this.payload.push(undefined);
      this.owner.push(undefined);
      this.error.push(undefined);
    }
    this.live++;
    this.state[index] = PENDING;
    this.kind[index] = kind;
    this.payload[index] = payload;
    this.moved[index] = 0;
    this.aux[index] = -1;
    this.flags[index] = 0;
    this.pinned[index] = 0;
    this.endpoint[index] = -1;
    return index;
  }

  /** The number that names this request to others. */
  handle(index: number): number {
    return (this.generation[index] << INDEX_BITS) | index;
  }

  /** The row of a handle, or -1 when that request is over. */
  find(handle: number): number {
    const index = handle & INDEX_MASK;
    return index < this.#size && this.state[index] !== FREE && this.generation[index] === handle >>> INDEX_BITS ? index : -1;
  }

  /** Ends a request well. */
  complete(index: number): void {
    this.state[index] = DONE;
    const owner = this.owner[index];
    if (owner !== undefined) this.#tell(owner, index);
  }

  /** Ends a request with an error. */
  fail(index: number, error: Error): void {
    this.state[index] = FAILED;
    this.error[index] = error;
    const owner = this.owner[index];
    if (owner !== undefined) this.#tell(owner, index);
  }

  #tell(owner: RequestOwner, index: number): void {
    this.owner[index] = undefined;
    owner.completed(this, index);
    this.release(index);
  }

  /** Frees the row. */
  release(index: number): void {
    this.state[index] = FREE;
    this.generation[index] = (this.generation[index] + 1) % GENERATIONS;
    this.payload[index] = undefined;
    this.owner[index] = undefined;
    this.error[index] = undefined;
    this.live--;
    this.#free[this.#freeCount++] = index;
  }

  /** 'tag send of 1024 bytes'. */
  describe(index: number): string {
    return `${this.what(index)} of ${this.payload[index]?.length ?? this.length[index]} bytes`;
  }

  /** What kind of call a request is. */
  what(index: number): string {
    return KIND_WORDS[this.kind[index]];
  }

  /** Rows in use, oldest row first: for failing and closing. */
  rows(): number[] {
    const found: number[] = [];
    for (let index = 0; index < this.#size; index++) if (this.state[index] === PENDING) found.push(index);
    return found;
  }

  #grow(): void {
    const size = this.state.length * 2;
    if (size > MOST) throw new MessagingError('MSG_INVALID', `more than ${MOST} requests are outstanding: wait for some`);
    const wider = <T extends Uint8Array | Uint16Array | Int32Array | Float64Array>(old: T, make: (n: number) => T): T => {
      const next = make(size);
      next.set(old);
      return next;
    };
    this.state = wider(this.state, (n) => new Uint8Array(n));
    this.kind = wider(this.kind, (n) => new Uint8Array(n));
    this.generation = wider(this.generation, (n) => new Uint16Array(n));
    this.tagLo = wider(this.tagLo, (n) => new Int32Array(n));
    this.tagHi = wider(this.tagHi, (n) => new Int32Array(n));
    this.context = wider(this.context, (n) => new Int32Array(n));
    this.source = wider(this.source, (n) => new Int32Array(n));
    this.endpoint = wider(this.endpoint, (n) => new Int32Array(n));
    this.length = wider(this.length, (n) => new Float64Array(n));
    this.moved = wider(this.moved, (n) => new Float64Array(n));
    this.aux = wider(this.aux, (n) => new Float64Array(n));
    this.flags = wider(this.flags, (n) => new Int32Array(n));
    this.pinned = wider(this.pinned, (n) => new Uint8Array(n));
    this.#free = wider(this.#free, (n) => new Int32Array(n));
  }
}
