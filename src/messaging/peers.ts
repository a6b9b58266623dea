/**
 * The peers of a worker by number: all endpoints to one worker have the same, and it is the source of its messages.
 *
 * Two workers that connect to each other by address in the same moment get one endpoint each, not two, so that their streams are one: the connection that the
 * worker with the lower id began goes on, and the endpoint of the other takes it as its own.
 */

import type { Endpoint } from './endpoint.js';

export class Peers<E extends Endpoint> {
  readonly #sources = new Map<string, number>();
  readonly #bySource: (E | undefined)[] = [];
  /** What connecting by address gave last, by worker. */
  readonly #byWorker = new Map<string, E>();

  /** An endpoint to the address of a worker is made. */
  expect(endpoint: E, workerId: string): void {
    this.#byWorker.set(workerId, endpoint);
  }

  /** Gives an endpoint the number of the worker behind it. */
  identify(endpoint: E, workerId: string): void {
    let source = this.#sources.get(workerId);
    if (source === undefined) {
      source = this.#bySource.length;
      this.#sources.set(workerId, source);
      this.#bySource.push(endpoint);
    } else if (this.#bySource[source]?.state !== 'ready') {
      this.#bySource[source] = endpoint;
    }
    endpoint.source = source;
  }

  endpointOf(source: number): E | undefined {
    return this.#bySource[source];
  }

  /** An endpoint to a worker that can be used, connected or not, if there is one already. */
  known(workerId: string): E | undefined {
    const made = this.#byWorker.get(workerId);
    if (made !== undefined && isOpen(made)) return made;
    const source = this.#sources.get(workerId);
    const endpoint = source === undefined ? undefined : this.#bySource[source];
    return endpoint !== undefined && isOpen(endpoint) ? endpoint : undefined;
  }

  /** An endpoint is out of use: another one to the same peer takes its place. False when there is none. */
  replace(endpoint: E, others: readonly E[]): boolean {
    if (endpoint.source < 0) return true;
    if (this.#bySource[endpoint.source] === endpoint) {
      this.#bySource[endpoint.source] = others.find((other) => other.source === endpoint.source);
    }
    return this.#bySource[endpoint.source] !== undefined;
  }
}

function isOpen({ state, closedByPeer }: Endpoint): boolean {
  return (state === 'idle' || state === 'connecting' || state === 'ready') && !closedByPeer;
}
