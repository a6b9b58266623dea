/**
 * A lane: one queue pair of an endpoint, with the requests that are under way on it. Lane 0 also carries the rings; the others only large transfers.
 *
 * Requests beyond the depth of the send queue wait here. When the queue pair fails every request hears of it, and whoever posted it decides
 * whether another lane takes over.
 */

import type { Connection, MemoryRegion, PreparedRecv, PreparedSend, QueuePair, SendWorkRequest } from '../verbs/index.js';

/** Requests of lanes under way at most; ring traffic has the rest of the send queue. */
const MOST_OUTSTANDING = 128;

/** Whoever waits for a completion. */
export interface Waiting {
  /** Called once. `status` 0 is success; else `words` say why not. */
  done(status: number, words: string): void;
}

/** A one-sided request that the lane posts. */
export interface Operation extends Waiting {
  /** The request without its id. */
  readonly request: SendWorkRequest;
}

export class Lane {
  readonly index: number;
  readonly qp: QueuePair;
  /** Share of a split transfer, relative to the other lanes. */
  readonly speed: number;
  alive = true;
  /** Bytes of transfers that went over it. */
  counted = 0;
  connection: Connection | undefined;
  /** Wakes the peer's event loop; made when connected. */
  wake: PreparedSend | undefined;
  readonly #receive: PreparedRecv;
  readonly #operations = new Map<number, Waiting>();
  readonly #waiting: Operation[] = [];
  #nextId = 1;

  constructor(index: number, qp: QueuePair, scratch: MemoryRegion, speed: number) {
    this.index = index;
    this.qp = qp;
    this.speed = speed;
    this.#receive = qp.prepareRecv(scratch);
  }

  /** Requests that have not come back. */
  get outstanding(): number {
    return this.#operations.size + this.#waiting.length;
  }

  /** Posts empty receive requests for immediates. */
  postReceives(count: number): void {
    for (let i = 0; i < count; i++) this.#receive.post(0, 0, 0);
  }

  /** An id for a request that the caller posts itself, with a prepared one. */
  track(waiting: Waiting): number {
    const id = this.#nextId++;
    this.#operations.set(id, waiting);
    return id;
  }

  post(operation: Operation): void {
    if (this.#operations.size >= MOST_OUTSTANDING) {
      this.#waiting.push(operation);
      return;
    }
    const id = this.#nextId++;
    this.#operations.set(id, operation);
    try {
      this.qp.postSend({ ...operation.request, id });
    } catch (error) {
      this.#operations.delete(id);
      operation.done(-1, error instanceof Error ? error.message : String(error));
    }
  }

  /** A completion with an id came. */
  completed(id: number, status: number, words: string): void {
    const operation = this.#operations.get(id);
    if (operation === undefined) return;
    this.#operations.delete(id);
    const next = this.#waiting.shift();
    if (next !== undefined) this.post(next);
    operation.done(status, words);
  }

  /** The queue pair is gone: nothing that was posted will come back. */
  fail(words: string): void {
    if (!this.alive) return;
    this.alive = false;
    const lost = [...this.#operations.values(), ...this.#waiting.splice(0)];
    this.#operations.clear();
    for (const operation of lost) operation.done(-1, words);
  }
}
