/**
 * The table of requests: what is under way, a row each. Rows are used again, so beginning and ending a request allocates nothing.
 *
 * ```
 *   handle = generation << 20 | index        names a request to the user and to peers; that of an ended one is found no more
 *
 *   rows   [ PENDING RECV ] [ FREE ] [ DONE SEND ] [ FREE ] ...
 *                               └──────── next free ──┘
 * ```
 * Most small sends are complete at once and never get a row. A row is an object, because the engine stores into a field of an object with one instruction, where an element of a typed array takes
 * six; its numbers stay small integers, which need no memory of their own. A receive that waits stands in the matching queue by its row.
 */

import { MessagingError } from './errors.js';
import type { Payload } from './payload.js';
import { MatchEntry } from './tag/match-queue.js';

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
  completed(row: RequestRow): void;
}

const INDEX_BITS = 20;
const MOST = 1 << INDEX_BITS;
const INDEX_MASK = MOST - 1;
const GENERATION = 1 << INDEX_BITS;
const MOST_HANDLE = 2 ** 31 - 1;
const NONE = -1;
/** Rows made with the table: as old as the queues that point to them, they are stored there without telling the garbage collector. */
const FIRST = 128;

/** A request. The tag is the message's; context, masks and source are what a receive asks for, and its source who sent the message once it is done. */
export class RequestRow extends MatchEntry {
  readonly index: number;
  /** The number that names this request to others. */
  handle: number;
  state: number = FREE;
  kind = 0;
  flags = 0;
  /** Rails for which the payload is registered, as bits. */
  pinned = 0;
  /** Endpoint that the request depends on, or -1: it fails with the endpoint. */
  endpoint = -1;
  /** Bytes of the message. */
  length = 0;
  /** Bytes moved so far. */
  moved = 0;
  /** Request at the peer, or -1. */
  peerRequest = -1;
  payload: Payload | undefined;
  /** The object of the callback and promise forms; the synchronous form has none and asks with `test`. */
  owner: RequestOwner | undefined;
  error: Error | undefined;
  /** Of a free row: the index of the next one, or -1. */
  nextFree: number = NONE;

  constructor(index: number) {
    super();
    this.index = index;
    this.handle = index;
  }
}

export class RequestTable {
  readonly #rows: RequestRow[] = [];
  #free = NONE;

  constructor() {
    for (let i = 0; i < FIRST; i++) this.release(this.#add());
  }

  /** Rows in use. */
  get live(): number {
    return this.#rows.filter(({ state }) => state !== FREE).length;
  }

  /** A row for a request that begins. */
  begin(kind: number, payload: Payload | undefined): RequestRow {
    const index = this.#free;
    const row = index === NONE ? this.#add() : this.#rows[index];
    this.#free = row.nextFree;
    row.state = PENDING;
    row.kind = kind;
    row.payload = payload;
    row.flags = 0;
    row.pinned = 0;
    row.endpoint = -1;
    row.moved = 0;
    row.peerRequest = -1;
    return row;
  }

  #add(): RequestRow {
    const index = this.#rows.length;
    if (index === MOST) throw new MessagingError('MSG_INVALID', `more than ${MOST} requests are outstanding: wait for some`);
    const row = new RequestRow(index);
    this.#rows.push(row);
    return row;
  }

  /** The row of a handle, or undefined when that request is over. */
  find(handle: number): RequestRow | undefined {
    const index = handle & INDEX_MASK;
    if (index >= this.#rows.length) return undefined;
    const row = this.#rows[index];
    return row.handle === handle && row.state !== FREE ? row : undefined;
  }

  /** Ends a request well. */
  complete(row: RequestRow): void {
    row.state = DONE;
    if (row.owner !== undefined) this.#tell(row, row.owner);
  }

  /** Ends a request with an error. */
  fail(row: RequestRow, error: Error): void {
    row.state = FAILED;
    row.error = error;
    if (row.owner !== undefined) this.#tell(row, row.owner);
  }

  #tell(row: RequestRow, owner: RequestOwner): void {
    row.owner = undefined;
    owner.completed(row);
    this.release(row);
  }

  /** Frees the row. */
  release(row: RequestRow): void {
    row.state = FREE;
    row.handle = (row.handle + GENERATION) & MOST_HANDLE;
    row.payload = undefined;
    row.owner = undefined;
    row.error = undefined;
    row.nextFree = this.#free;
    this.#free = row.index;
  }

  /** 'tag send of 1024 bytes'. */
  describe(row: RequestRow): string {
    return `${this.what(row)} of ${row.payload?.length ?? row.length} bytes`;
  }

  /** What kind of call a request is. */
  what(row: RequestRow): string {
    return KIND_WORDS[row.kind];
  }

  /** Requests that are not over, by index: for failing and closing. */
  pending(): RequestRow[] {
    return this.#rows.filter(({ state }) => state === PENDING);
  }
}
