/** Handlers of active messages by number, and what they are given. */

import type { Endpoint } from '../endpoint.js';
import { MessagingError, PeerLost } from '../errors.js';
import type { Data } from '../payload.js';
import type { Worker } from '../worker.js';

/** Handler numbers: 0..MOST_HANDLERS-1. */
const MOST_HANDLERS = 65_536;

/** What a handler is given. `header` and `data` are views of the ring: they are valid until the handler returns or first awaits. */
export interface ActiveMessage {
  readonly endpoint: Endpoint;
  readonly header: Uint8Array;
  /** The payload, when it came with the message; undefined when it is to be fetched with `receive`. */
  readonly data: Uint8Array | undefined;
  /** Bytes of the payload. */
  readonly length: number;
  /**
   * Fetches the payload into memory of the receiver; also works for one that came with the message. Call it before the handler returns or first
   * awaits: a large payload that nobody asked for by then is dropped. Throws MSG_TRUNCATED, PeerLost.
   */
  receive(into: Data): Promise<void>;
}

/** Called for each active message that names its number. */
export type ActiveMessageHandler = (message: ActiveMessage) => void | Promise<void>;

export class Handlers {
  readonly #worker: Worker;
  readonly #handlers = new Map<number, ActiveMessageHandler>();

  constructor(worker: Worker) {
    this.#worker = worker;
  }

  /** Installs a handler; undefined takes it away. */
  install(id: number, handler: ActiveMessageHandler | undefined): void {
    if (!Number.isInteger(id) || id < 0 || id >= MOST_HANDLERS) {
      throw new MessagingError('MSG_INVALID', `a handler number is 0 to ${MOST_HANDLERS - 1}: got ${String(id)}`);
    }
    const had = this.#handlers.has(id);
    if (handler === undefined) {
      this.#handlers.delete(id);
      if (had) this.#worker.driver.leave();
      return;
    }
    this.#handlers.set(id, handler);
    if (had) return;
    this.#worker.driver.join();
    this.#worker.driver.start();
  }

  /** Ends the interest of all handlers: the worker closes. */
  close(): void {
    for (const id of [...this.#handlers.keys()]) this.install(id, undefined);
  }

  /** Calls the handler of a number. */
  run(id: number, message: ActiveMessage): void {
    const handler = this.#handlers.get(id);
    if (handler === undefined) {
      this.#worker.unhandled(new PeerLost(message.endpoint.peer, 'an active message', `there is no handler ${id} here`));
      return;
    }
    try {
      const result = handler(message);
      if (result instanceof Promise) result.catch((error: unknown) => this.#worker.unhandled(error));
    } catch (error) {
      this.#worker.unhandled(error);
    }
  }
}

export function tooLong(length: number, room: number): MessagingError {
  return new MessagingError('MSG_TRUNCATED', `the payload has ${length} bytes, the memory for it ${room}`);
}
