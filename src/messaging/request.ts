/**
 * A request of the callback and promise forms: an object over a row of the request table. The synchronous form needs none.
 */

import type { Endpoint } from './endpoint.js';
import { MessagingError } from './errors.js';
import { KIND_RECV, KIND_SEND, type RequestOwner, type RequestRow } from './requests.js';
import { tagOf } from './tag/tag.js';
import type { Worker } from './worker.js';

/** Options of every call that waits. */
export interface CallOptions {
  /** Gives up with MSG_TIMEOUT. Default: the worker's `timeoutMs`. Milliseconds; Infinity: never. */
  readonly timeoutMs?: number;
  /** Gives up with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** What a receive got. */
export interface Received {
  /** Bytes of the message. */
  readonly length: number;
  readonly tag: number | bigint;
  /** Number of the peer within the worker; `worker.endpointOf(source)` leads to it. */
  readonly source: number;
}

/** Hears of calls that wait: what they are, for whom (undefined: whoever comes), a tag where they have one. Returns what is called when the wait is over. */
export type WaitObserver = (what: string, endpoint: Endpoint | undefined, tag?: number | bigint) => () => void;

/** A timer that gives up with MSG_TIMEOUT; none for Infinity. */
export function late(timeoutMs: number, what: string, giveUp: (error: MessagingError) => void): NodeJS.Timeout | undefined {
  if (timeoutMs === Number.POSITIVE_INFINITY) return undefined;
  return setTimeout(() => giveUp(new MessagingError('MSG_TIMEOUT', `${what} within ${timeoutMs} ms`)), timeoutMs);
}

export class Request implements RequestOwner {
  readonly worker: Worker;
  /** Handle of the row while it is under way. */
  readonly handle: number;
  done = false;
  error: Error | undefined;
  received: Received | undefined;
  #callback: ((error: Error | undefined, received: Received | undefined) => void) | undefined;
  #settle: (() => void) | undefined;

  constructor(worker: Worker, handle: number, callback?: (error: Error | undefined, received: Received | undefined) => void) {
    this.worker = worker;
    this.handle = handle;
    this.#callback = callback;
  }

  completed(row: RequestRow): void {
    this.done = true;
    this.error = row.error;
    this.received = {
      length: row.length,
      tag: tagOf(row.tagLo, row.tagHi),
      source: row.source,
    };
    this.worker.driver.leave();
    const callback = this.#callback;
    this.#callback = undefined;
    callback?.(this.error, this.received);
    this.#settle?.();
  }

  /** Cancels a receive that has not matched. False when it is too late. */
  cancel(): boolean {
    return this.worker.cancel(this.handle);
  }

  /** Waits for the end. Throws the request's error, MSG_TIMEOUT (the request goes on unless it can be cancelled), or the signal's reason. */
  async wait(options: CallOptions = {}): Promise<Received> {
    const { signal, timeoutMs = this.worker.timeoutMs } = options;
    signal?.throwIfAborted();
    if (!this.done) this.worker.driver.spin(this);
    if (!this.done) await this.#sleep(timeoutMs, signal);
    if (this.error !== undefined) throw this.error;
    return this.received as Received;
  }

  /** Says that this request waits, and for whom. */
  #observe(): (() => void) | undefined {
    const { onWait, requests, endpoints } = this.worker;
    if (onWait === undefined) return undefined;
    const row = requests.find(this.handle - 1) as RequestRow;
    const isReceive = row.kind === KIND_RECV;
    const from = isReceive ? this.worker.endpointOf(row.source) : endpoints[row.endpoint];
    const isTagged = isReceive || row.kind === KIND_SEND;
    return onWait(requests.what(row), from, isTagged ? tagOf(row.tagLo, row.tagHi) : undefined);
  }

  #sleep(timeoutMs: number, signal: AbortSignal | undefined): Promise<void> {
    const observed = this.#observe();
    return new Promise((resolve, reject) => {
      const end = () => {
        observed?.();
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        this.#settle = undefined;
      };
      const giveUp = (reason: unknown) => {
        end();
        this.cancel();
        reject(reason);
      };
      const abort = () => giveUp(signal?.reason);
      const timer = late(timeoutMs, 'nothing happened', giveUp);
      signal?.addEventListener('abort', abort, { once: true });
      this.#settle = () => {
        end();
        resolve();
      };
      this.worker.driver.start();
    });
  }
}
