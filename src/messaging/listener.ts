/** A listener: a name under which a worker takes connections, on each of its devices. */

import type { Endpoint } from './endpoint.js';
import { MessagingError } from './errors.js';
import type { CallOptions } from './request.js';

/** A name that was taken, by one device or engine. */
export interface Taken {
  readonly target: string;
  close(): void;
}

export class Listener implements AsyncIterable<Endpoint> {
  readonly name: string;
  readonly #taken: readonly Taken[];
  readonly #arrived: Endpoint[] = [];
  readonly #takers: ((endpoint: Endpoint | undefined) => void)[] = [];
  readonly #timeoutMs: number;
  #closed = false;

  constructor(name: string, taken: readonly Taken[], timeoutMs: number) {
    this.name = name;
    this.#taken = taken;
    this.#timeoutMs = timeoutMs;
  }

  /** What `worker.connect` takes on another machine, for each device: the name, on a network with address and port. */
  get targets(): string[] {
    return this.#taken.map(({ target }) => target);
  }

  /** Called by the worker: somebody is connected. */
  push(endpoint: Endpoint): void {
    const taker = this.#takers.shift();
    if (taker === undefined) this.#arrived.push(endpoint);
    else taker(endpoint);
  }

  /** The next endpoint. Throws MSG_CLOSED, MSG_TIMEOUT, or the signal's reason. */
  accept(options: CallOptions = {}): Promise<Endpoint> {
    const { signal, timeoutMs = this.#timeoutMs } = options;
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const ready = this.#arrived.shift();
      if (ready !== undefined) {
        resolve(ready);
        return;
      }
      const closed = () => new MessagingError('MSG_CLOSED', `nobody listens as '${this.name}' any more`);
      if (this.#closed) {
        reject(closed());
        return;
      }
      const end = (act: () => void) => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        const at = this.#takers.indexOf(taker);
        if (at >= 0) this.#takers.splice(at, 1);
        act();
      };
      const taker = (endpoint: Endpoint | undefined) =>
        end(() => (endpoint === undefined ? reject(closed()) : resolve(endpoint)));
      const abort = () => end(() => reject(signal?.reason));
      const late = () => new MessagingError('MSG_TIMEOUT', `nobody connected to '${this.name}' within ${timeoutMs} ms`);
      const timer = timeoutMs === Number.POSITIVE_INFINITY ? undefined : setTimeout(() => end(() => reject(late())), timeoutMs);
      signal?.addEventListener('abort', abort, { once: true });
      this.#takers.push(taker);
    });
  }

  /** Endpoints until the listener is closed. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Endpoint, void, undefined> {
    while (!this.#closed) {
      try {
        yield await this.accept({ timeoutMs: Number.POSITIVE_INFINITY });
      } catch (error) {
        if (MessagingError.is(error) && error.code === 'MSG_CLOSED') return;
        throw error;
      }
    }
  }

  /** Stops listening. Endpoints that were accepted stay. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const taken of this.#taken) taken.close();
    for (const taker of this.#takers.splice(0)) taker(undefined);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
