/** How endpoints end, whatever the engine: failing, closing by this side, and what that means for the requests under way. */

import type { Endpoint } from './endpoint.js';
import type { Connecting, Ending } from './engine.js';
import { MessagingError, PeerLost } from './errors.js';
import type { Peers } from './peers.js';
import type { CallOptions } from './request.js';
import { PENDING, type RequestRow } from './requests.js';
import type { TagMatching } from './tag/tag-matching.js';
import type { Worker } from './worker.js';

/** How long a closing endpoint waits for the peer's answer; a peer that does not look answers later. */
const CLOSE_ANSWER_MS = 250;

/** A worker of an engine, as far as endings are concerned. */
interface EngineWorker<E extends Endpoint> extends Worker {
  readonly tags: TagMatching<E>;
  readonly connections: Connecting & { readonly peers: Peers<E> };
}

export abstract class Closing<E extends Endpoint, W extends EngineWorker<E>> implements Ending {
  protected readonly worker: W;

  constructor(worker: W) {
    this.worker = worker;
  }

  /** Endpoints that are connected. */
  protected abstract readonly live: E[];
  /** Tells the peer that this side sends and takes nothing more. */
  protected abstract sayClose(endpoint: E): void;
  /** Whether everything that was sent lies in the peer's memory, but for what requests wait for. */
  protected abstract isDelivered(endpoint: E): boolean;
  /** The endpoint is out of progress: nothing waits on it any more. */
  protected abstract retire(endpoint: E, wasLive: boolean): void;
  /** A request of an endpoint that has ended is over. */
  protected abstract letGo(row: RequestRow): void;
  /** Gives back what an endpoint that has ended held. */
  protected abstract release(endpoint: E): void;
  abstract stop(): void;

  /** Takes an endpoint out of use and fails everything that depends on it. */
  fail(endpoint: E, error: Error): void {
    if (endpoint.state === 'failed' || endpoint.state === 'closed') return;
    endpoint.state = 'failed';
    endpoint.failure = error;
    const { requests } = this.worker;
    this.#end(endpoint, error, (row) =>
      error instanceof PeerLost ? new PeerLost(error.peer, requests.describe(row), error.message) : error,
    );
  }

  /** See Endpoint.close. */
  async close(endpoint: E, options: CallOptions & { force?: boolean }): Promise<void> {
    const { force = false, timeoutMs = this.worker.timeoutMs } = options;
    if (endpoint.state === 'connecting' && !force) await endpoint.ready(options).catch(() => undefined);
    if (endpoint.state === 'ready' && !force) await this.#drain(endpoint, options);
    if (endpoint.state === 'ready') {
      endpoint.state = 'closing';
      this.sayClose(endpoint);
      if (!force && !endpoint.closedByPeer) {
        await this.worker
          .waitFor('close', endpoint, { timeoutMs: Math.min(CLOSE_ANSWER_MS, timeoutMs) }, (settle) => {
            endpoint.whenClosed.push(settle);
          })
          .catch(() => undefined);
      }
    }
    if (endpoint.state === 'failed' || endpoint.state === 'closed') return;
    endpoint.state = 'closed';
    const error = new MessagingError('MSG_CLOSED', `the endpoint to ${endpoint.peer} was closed`);
    this.#end(endpoint, error, () => error);
  }

  /** Waits until everything that was begun on an endpoint is over and lies in the peer's memory: whether the peer has looked there is its own affair. */
  async #drain(endpoint: E, options: CallOptions): Promise<void> {
    const { requests, timeoutMs } = this.worker;
    const deadline = performance.now() + (options.timeoutMs ?? timeoutMs);
    for (;;) {
      this.worker.poll();
      if (endpoint.state !== 'ready' || endpoint.closedByPeer) return;
      const isBusy = requests.pending().some((row) => row.endpoint === endpoint.id);
      if (!isBusy && this.isDelivered(endpoint)) return;
      options.signal?.throwIfAborted();
      if (performance.now() > deadline) {
        throw new MessagingError('MSG_TIMEOUT', `the endpoint to ${endpoint.peer} has unfinished requests: close it with force`);
      }
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }

  #end(endpoint: E, error: Error, errorOf: (row: RequestRow) => Error): void {
    const { requests, tags, connections } = this.worker;
    const at = this.live.indexOf(endpoint);
    if (at >= 0) this.live.splice(at, 1);
    this.retire(endpoint, at >= 0);
    tags.dropRendezvousOf(endpoint);
    const own = requests.pending().filter((row) => row.endpoint === endpoint.id);
    const orphans = connections.peers.replace(endpoint, this.live) ? [] : tags.receivesFrom(endpoint.source);
    for (const row of [...own, ...orphans]) {
      this.letGo(row);
      if (row.state === PENDING) requests.fail(row, errorOf(row));
    }
    endpoint.streamQueue.length = 0;
    endpoint.waiting = false;
    endpoint.failStream(error);
    for (const waiter of endpoint.whenReady.splice(0)) waiter.reject(error);
    for (const wake of endpoint.whenClosed.splice(0)) wake();
    this.release(endpoint);
  }
}
