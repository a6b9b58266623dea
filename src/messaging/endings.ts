/** How endpoints end: a lane that breaks, a peer that dies or falls silent, closing by either side; and what that means for the requests under way. */

import type { Ending } from './engine.js';
import { MessagingError, PeerLost } from './errors.js';
import type { Lane } from './lane.js';
import type { CallOptions } from './request.js';
import { KIND_RECV, PENDING } from './requests.js';
import type { VerbsEndpoint } from './verbs-endpoint.js';
import type { VerbsWorker } from './verbs-worker.js';
import { CLOSE, PING } from './wire/slot.js';
import type { WireUp } from './wire-up.js';

/** How long a closing endpoint waits for the peer's answer; without it the memory of its rings is kept until the peer says that it is done. */
const CLOSE_ANSWER_MS = 250;

export class Endings implements Ending {
  readonly #worker: VerbsWorker;
  readonly #wireUp: WireUp;
  #keepalive: NodeJS.Timeout | undefined;
  #askEveryMs = Number.POSITIVE_INFINITY;
  #nextAsk = 0;

  constructor(worker: VerbsWorker, wireUp: WireUp) {
    this.#worker = worker;
    this.#wireUp = wireUp;
  }

  /** Closed endpoints whose ring memory is kept, because the peer has not said that it writes no more. */
  get retiredRings(): number {
    return this.#wireUp.retired;
  }

  /** A lane is gone. The first takes the endpoint with it, a further one only its share. */
  laneClosed(endpoint: VerbsEndpoint, lane: Lane, reason: string): void {
    if (!lane.alive) return;
    if (lane.index === 0) this.#worker.poller.takeRest(endpoint);
    lane.fail(reason);
    if (lane.index > 0) return;
    if (endpoint.state === 'closed' || endpoint.state === 'failed') return;
    if (endpoint.state === 'closing' || endpoint.closedByPeer) {
      for (const wake of endpoint.whenClosed.splice(0)) wake();
      if (endpoint.closedByPeer) this.fail(endpoint, new PeerLost(endpoint.peer, 'an open endpoint', 'it closed the endpoint'));
      return;
    }
    this.fail(endpoint, new PeerLost(endpoint.peer, 'an open endpoint', reason));
  }

  /** Takes an endpoint out of use and fails everything that depends on it. */
  fail(endpoint: VerbsEndpoint, error: Error): void {
    if (endpoint.state === 'failed' || endpoint.state === 'closed') return;
    endpoint.state = 'failed';
    endpoint.failure = error;
    this.#retire(endpoint, (index) => {
      const operation = this.#worker.requests.describe(index);
      if (!(error instanceof PeerLost)) return error;
      return new PeerLost(error.peer, operation, error.message);
    });
    endpoint.failStream(error);
    for (const waiter of endpoint.whenReady.splice(0)) waiter.reject(error);
    for (const wake of endpoint.whenClosed.splice(0)) wake();
    if (endpoint.ringRegion !== undefined) this.#wireUp.tearDown(endpoint, endpoint.peerIsDone || endpoint.closedByPeer);
  }

  /** Removes an endpoint from progress and ends its requests. */
  #retire(endpoint: VerbsEndpoint, errorOf: (index: number) => Error): void {
    const { requests, tags, rendezvous, poller, connections } = this.#worker;
    const at = poller.live.indexOf(endpoint);
    if (at >= 0) {
      poller.live.splice(at, 1);
      if (!endpoint.mapped) endpoint.port.counted--;
    }
    endpoint.ringCompleted(true);
    tags.forgetStuck(endpoint);
    this.#worker.forgetProtocols(endpoint);
    tags.dropRendezvousOf(endpoint);
    rendezvous.carrier.abandon(endpoint);
    this.#worker.atomics.abandon(endpoint);
    const orphans = connections.peers.replace(endpoint, poller.live) ? [] : tags.receivesFrom(endpoint.source);
    for (const index of [...requests.rows().filter((row) => requests.endpoint[row] === endpoint.id), ...orphans]) {
      rendezvous.unpin(index);
      if (requests.state[index] === PENDING) requests.fail(index, errorOf(index));
    }
    endpoint.pending.length = 0;
    endpoint.pendingHead = 0;
    endpoint.transferQueue.length = 0;
    endpoint.streamQueue.length = 0;
    endpoint.controls.length = 0;
    endpoint.waiting = false;
  }

  /** The peer will send nothing more, and what is still to be sent cannot arrive. */
  closedByPeer(endpoint: VerbsEndpoint): void {
    const { requests, rendezvous } = this.#worker;
    for (const index of requests.rows()) {
      if (requests.endpoint[index] === endpoint.id && requests.kind[index] !== KIND_RECV) {
        rendezvous.unpin(index);
        requests.fail(index, new PeerLost(endpoint.peer, requests.describe(index), 'it closed the endpoint'));
      }
    }
    endpoint.pending.length = 0;
    endpoint.pendingHead = 0;
    endpoint.failStream(new PeerLost(endpoint.peer, 'a stream', 'it closed the endpoint'));
  }

  /** See Endpoint.close. */
  async close(endpoint: VerbsEndpoint, options: CallOptions & { force?: boolean }): Promise<void> {
    const { force = false, timeoutMs = this.#worker.timeoutMs } = options;
    if (endpoint.state === 'closed' || endpoint.state === 'failed') return;
    if (endpoint.state === 'idle') {
      this.#finish(endpoint);
      return;
    }
    if (endpoint.state === 'connecting') await endpoint.ready(options).catch(() => undefined);
    if ((endpoint.state as string) === 'failed') return;
    if (!force) await this.#drain(endpoint, options);
    if (endpoint.state !== 'ready') return;
    endpoint.state = 'closing';
    endpoint.control(CLOSE, 0, 0);
    if (!force && !endpoint.closedByPeer) {
      await this.#worker
        .waitFor('close', endpoint, { timeoutMs: Math.min(CLOSE_ANSWER_MS, timeoutMs) }, (settle) => {
          endpoint.whenClosed.push(settle);
        })
        .catch(() => undefined);
    }
    this.#finish(endpoint);
  }

  /** Waits until everything that was begun on an endpoint is over and lies in the peer's memory: whether the peer has looked there is its own affair. */
  async #drain(endpoint: VerbsEndpoint, options: CallOptions): Promise<void> {
    const { requests, poller } = this.#worker;
    const isQuiet = () => {
      poller.poll();
      if (endpoint.state !== 'ready' || endpoint.closedByPeer) return true;
      const busy = requests.rows().some((index) => requests.endpoint[index] === endpoint.id);
      return !busy && !endpoint.waiting && endpoint.isDelivered;
    };
    const deadline = performance.now() + (options.timeoutMs ?? this.#worker.timeoutMs);
    while (!isQuiet()) {
      options.signal?.throwIfAborted();
      if (performance.now() > deadline) {
        throw new MessagingError('MSG_TIMEOUT', `the endpoint to ${endpoint.peer} has unfinished requests: close it with force`);
      }
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }

  #finish(endpoint: VerbsEndpoint): void {
    if (endpoint.state === 'failed' || endpoint.state === 'closed') return;
    endpoint.state = 'closed';
    this.#retire(endpoint, () => new MessagingError('MSG_CLOSED', `the endpoint to ${endpoint.peer} was closed`));
    if (endpoint.ringRegion !== undefined) this.#wireUp.tearDown(endpoint, endpoint.peerIsDone || endpoint.closedByPeer);
  }

  /** From now on asks peers whose death their device does not notice for a sign of life. */
  keepAlive(): void {
    const { poller, options } = this.#worker;
    const limit = options.keepaliveMs ?? 10_000;
    poller.isTiming = true;
    if (this.#keepalive !== undefined) return;
    this.#askEveryMs = limit / 4;
    this.#nextAsk = performance.now() + this.#askEveryMs;
    this.#keepalive = setInterval(() => {
      const now = performance.now();
      for (const endpoint of [...poller.live]) {
        if (endpoint.port.rail.device.capabilities.peerDeath || now - endpoint.lastHeard <= limit) continue;
        this.fail(endpoint, new PeerLost(endpoint.peer, 'an open endpoint', `nothing was heard for ${limit} ms`));
      }
      this.ask();
    }, this.#askEveryMs).unref();
  }

  /**
   * Asks, where that is due. A thread that is blocked in polls calls it too, since no timer runs there: a process that is dead does not acknowledge the question, which breaks the
   * lane; one that computes does, though it answers later.
   */
  ask(): void {
    const now = performance.now();
    if (now < this.#nextAsk) return;
    this.#nextAsk = now + 0.9 * this.#askEveryMs; // a timer's turn comes a little early now and then
    for (const endpoint of [...this.#worker.poller.live]) {
      if (!endpoint.port.rail.device.capabilities.peerDeath) endpoint.control(PING, 0, 0);
    }
  }

  /** The worker closes. */
  stop(): void {
    clearInterval(this.#keepalive);
    this.#wireUp.close();
  }
}
