/** How endpoints on UCX end: a way that breaks, closing by either side; and what that means for the requests under way. */

import type { Ending } from '../engine.js';
import { MessagingError, PeerLost } from '../errors.js';
import type { CallOptions } from '../request.js';
import { PENDING } from '../requests.js';
import type { UcxEndpoint } from './endpoint.js';
import { CLOSE, CLOSED } from './wire.js';
import type { UcxWorker } from './worker.js';

/** How long a closing endpoint waits for the peer's answer. */
const CLOSE_ANSWER_MS = 250;

export class UcxEndings implements Ending {
  readonly #worker: UcxWorker;

  constructor(worker: UcxWorker) {
    this.#worker = worker;
  }

  /** Takes an endpoint out of use and fails everything that depends on it. */
  fail(endpoint: UcxEndpoint, error: Error): void {
    if (endpoint.state === 'failed' || endpoint.state === 'closed') return;
    endpoint.state = 'failed';
    endpoint.failure = error;
    this.#retire(endpoint, (index) => {
      if (!(error instanceof PeerLost)) return error;
      return new PeerLost(error.peer, this.#worker.requests.describe(index), error.message);
    });
    endpoint.failStream(error);
    for (const waiter of endpoint.whenReady.splice(0)) waiter.reject(error);
    for (const wake of endpoint.whenClosed.splice(0)) wake();
  }

  #retire(endpoint: UcxEndpoint, errorOf: (index: number) => Error): void {
    const { requests, tags, live, connections } = this.#worker;
    const at = live.indexOf(endpoint);
    if (at >= 0) live.splice(at, 1);
    endpoint.pending.length = 0;
    endpoint.streamQueue.length = 0;
    endpoint.early = undefined;
    tags.dropRendezvousOf(endpoint);
    const orphans = connections.peers.replace(endpoint, live) ? [] : tags.receivesFrom(endpoint.source);
    for (const index of [...requests.rows().filter((row) => requests.endpoint[row] === endpoint.id), ...orphans]) {
      if (requests.state[index] === PENDING) requests.fail(index, errorOf(index));
    }
  }

  /** The peer closes: it sends and takes nothing more. */
  closedByPeer(endpoint: UcxEndpoint): void {
    endpoint.closedByPeer = true;
    endpoint.control(CLOSED);
    if (endpoint.state === 'closing') for (const wake of endpoint.whenClosed.splice(0)) wake();
    else this.fail(endpoint, new PeerLost(endpoint.peer, 'an open endpoint', 'it closed the endpoint'));
  }

  async close(endpoint: UcxEndpoint, options: CallOptions & { force?: boolean }): Promise<void> {
    const { force = false, timeoutMs = this.#worker.timeoutMs } = options;
    if (endpoint.state === 'closed' || endpoint.state === 'failed') return;
    if (endpoint.state === 'connecting' && !force) await endpoint.ready(options).catch(() => undefined);
    if (!force && endpoint.state === 'ready') await this.#drain(endpoint, options);
    if (endpoint.state === 'ready') {
      endpoint.state = 'closing';
      endpoint.control(CLOSE);
      if (!force && !endpoint.closedByPeer) {
        await this.#worker
          .waitFor('close', endpoint, { timeoutMs: Math.min(CLOSE_ANSWER_MS, timeoutMs) }, (settle) => {
            endpoint.whenClosed.push(settle);
          })
          .catch(() => undefined);
      }
    }
    this.#finish(endpoint);
  }

  /** Waits until everything that was begun on an endpoint is over. */
  async #drain(endpoint: UcxEndpoint, options: CallOptions): Promise<void> {
    const { requests, poller } = this.#worker;
    const deadline = performance.now() + (options.timeoutMs ?? this.#worker.timeoutMs);
    for (;;) {
      poller.poll();
      if (endpoint.state !== 'ready') return;
      if (!requests.rows().some((index) => requests.endpoint[index] === endpoint.id)) return;
      options.signal?.throwIfAborted();
      if (performance.now() > deadline) {
        throw new MessagingError(
          'MSG_TIMEOUT',
          `the endpoint to ${endpoint.peer} has unfinished requests, or messages that the peer has not taken: close it with force`,
        );
      }
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }

  #finish(endpoint: UcxEndpoint): void {
    if (endpoint.state === 'failed' || endpoint.state === 'closed') return;
    endpoint.state = 'closed';
    const error = new MessagingError('MSG_CLOSED', `the endpoint to ${endpoint.peer} was closed`);
    this.#retire(endpoint, () => error);
    for (const waiter of endpoint.whenReady.splice(0)) waiter.reject(error);
  }

  stop(): void {}
}
