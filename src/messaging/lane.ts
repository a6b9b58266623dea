/**
 * A lane: one queue pair of an endpoint, with the requests that are under way on it. Lane 0 also carries the rings; the others only large transfers.
 * Each lane belongs to one path of its endpoint: a port of this worker and the one of the peer that it is connected to.
 *
 * ```
 *   id          1    2    3    4    5 ...        position = id & (WINDOW - 1)
 *   #posted   [ -  | op | op | -  | op | ... ]   an id is given out when its position is free, so nothing is looked up and nothing is allocated
 * ```
 * What finds no free position waits in line. When the queue pair fails every request hears of it, and whoever posted it decides whether another
 * lane takes over.
 */

import type { Connection, PreparedRecv, PreparedSend, QueuePair } from '../verbs/index.js';
import type { Registration } from './memory/registration-cache.js';
import type { Port } from './port.js';

/** Requests of a lane under way at most; ring traffic has the rest of the send queue. */
const WINDOW = 256;
/** Prepared requests that a lane keeps, for as many pairs of local and remote memory. */
const PREPARED = 8;

/** A request on a lane. */
export interface Posted {
  /** Posts it under an id. Throws when the queue pair does not take it. */
  post(lane: Lane, id: number): void;
  /** Called once. `status` 0 is success; else `words` say why not. */
  done(lane: Lane, status: number, words: string): void;
}

interface PreparedPair {
  readonly registration: Registration;
  readonly rkey: number;
  /** The remote address that offsets of posts count from. */
  readonly base: number;
  readonly request: PreparedSend;
}

export class Lane {
  readonly index: number;
  readonly qp: QueuePair;
  readonly port: Port;
  /** Number of the path within the endpoint. */
  readonly path: number;
  alive = true;
  /** Bytes of transfers that went over it. */
  counted = 0;
  /** Fragments of transfers under way. */
  fragments = 0;
  connection: Connection | undefined;
  /** Wakes the peer's event loop; made when connected. */
  wake: PreparedSend | undefined;
  readonly #receive: PreparedRecv;
  readonly #posted: (Posted | undefined)[] = new Array<Posted | undefined>(WINDOW).fill(undefined);
  readonly #queue: Posted[] = [];
  readonly #reads: (PreparedPair | undefined)[] = new Array<PreparedPair | undefined>(PREPARED).fill(undefined);
  readonly #writes: (PreparedPair | undefined)[] = new Array<PreparedPair | undefined>(PREPARED).fill(undefined);
  #victim = 0;
  #nextId = 1;

  constructor(index: number, qp: QueuePair, port: Port, path: number) {
    this.index = index;
    this.qp = qp;
    this.port = port;
    this.path = path;
    this.#receive = qp.prepareRecv(port.scratch);
  }

  /** Posts empty receive requests for immediates. */
  postReceives(count: number): void {
    for (let i = 0; i < count; i++) this.#receive.post(0, 0, 0);
  }

  /** Whether `submit` would post at once. */
  get hasRoom(): boolean {
    return this.alive && this.#queue.length === 0 && this.#posted[this.#nextId & (WINDOW - 1)] === undefined;
  }

  /** Posts a request now, or when there is room. */
  submit(request: Posted): void {
    if (!this.alive) request.done(this, -1, 'the lane is closed');
    else if (this.hasRoom) this.#start(request);
    else this.#queue.push(request);
  }

  #start(request: Posted): void {
    const id = this.#nextId++;
    this.#posted[id & (WINDOW - 1)] = request;
    try {
      request.post(this, id);
    } catch (error) {
      this.#posted[id & (WINDOW - 1)] = undefined;
      request.done(this, -1, error instanceof Error ? error.message : String(error));
    }
  }

  /** Posts a READ or WRITE between registered memory and an address of the peer. */
  move(reads: boolean, local: Registration, offset: number, length: number, id: number, address: number, rkey: number): void {
    const known = reads ? this.#reads : this.#writes;
    let pair: PreparedPair | undefined;
    for (let i = 0; i < PREPARED; i++) {
      const one = known[i];
      if (one !== undefined && one.rkey === rkey && one.registration === local) {
        pair = one;
        break;
      }
    }
    pair ??= this.#prepare(known, reads, local, address, rkey);
    pair.request.post(offset, length, id, address - pair.base);
  }

  #prepare(
    known: (PreparedPair | undefined)[],
    reads: boolean,
    registration: Registration,
    base: number,
    rkey: number,
  ): PreparedPair {
    const request = this.qp.prepare({
      opcode: reads ? 'RDMA_READ' : 'RDMA_WRITE',
      local: registration.region,
      remote: { addr: base, length: Number.MAX_SAFE_INTEGER - base, rkey },
    });
    const pair = { registration, rkey, base, request };
    known[this.#victim++ & (PREPARED - 1)] = pair;
    return pair;
  }

  /** A completion with an id came. */
  completed(id: number, status: number, words: string): void {
    const at = id & (WINDOW - 1);
    const request = this.#posted[at];
    if (request === undefined) return;
    this.#posted[at] = undefined;
    if (this.#queue.length > 0 && this.#posted[this.#nextId & (WINDOW - 1)] === undefined) {
      this.#start(this.#queue.shift() as Posted);
    }
    request.done(this, status, words);
  }

  /** Forgets prepared requests of memory that is not registered any more. */
  forget(registration: Registration): void {
    for (const known of [this.#reads, this.#writes]) {
      for (let i = 0; i < PREPARED; i++) if (known[i]?.registration === registration) known[i] = undefined;
    }
  }

  /** The queue pair is gone: nothing that was posted will come back. */
  fail(words: string): void {
    if (!this.alive) return;
    this.alive = false;
    const lost = [...this.#posted.filter((request) => request !== undefined), ...this.#queue.splice(0)];
    this.#posted.fill(undefined);
    for (const request of lost) request.done(this, -1, words);
  }
}
