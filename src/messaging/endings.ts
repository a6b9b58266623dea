/** How endpoints of the verbs engine end: a lane that breaks, a peer that dies or falls silent, closing by the peer; closing by this side stands in closing.ts. */

import { Closing } from './closing.js';
import { PeerLost } from './errors.js';
import type { Lane } from './lane.js';
import { KIND_RECV, type RequestRow } from './requests.js';
import type { VerbsEndpoint } from './verbs-endpoint.js';
import type { VerbsWorker } from './verbs-worker.js';
import { CLOSE, PING } from './wire/slot.js';
import type { WireUp } from './wire-up.js';

export class Endings extends Closing<VerbsEndpoint, VerbsWorker> {
  readonly #wireUp: WireUp;
  #keepalive: NodeJS.Timeout | undefined;
  #askEveryMs = Number.POSITIVE_INFINITY;
  #nextAsk = 0;

  constructor(worker: VerbsWorker, wireUp: WireUp) {
    super(worker);
    this.#wireUp = wireUp;
  }

  protected get live(): VerbsEndpoint[] {
    return this.worker.poller.live;
  }

  protected sayClose(endpoint: VerbsEndpoint): void {
    endpoint.control(CLOSE, 0, 0);
  }

  protected isDelivered(endpoint: VerbsEndpoint): boolean {
    return !endpoint.waiting && endpoint.isDelivered;
  }

  /** Closed endpoints whose ring memory is kept, because the peer has not said that it writes no more. */
  get retiredRings(): number {
    return this.#wireUp.retired;
  }

  /** A lane is gone. The first takes the endpoint with it, a further one only its share. */
  laneClosed(endpoint: VerbsEndpoint, lane: Lane, reason: string): void {
    if (!lane.alive) return;
    if (lane.index === 0) this.worker.poller.takeRest(endpoint);
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

  protected retire(endpoint: VerbsEndpoint, wasLive: boolean): void {
    const { tags, rendezvous, atomics } = this.worker;
    if (wasLive && !endpoint.mapped) endpoint.port.counted--;
    endpoint.ringCompleted(true);
    tags.forgetStuck(endpoint);
    this.worker.forgetProtocols(endpoint);
    rendezvous.carrier.abandon(endpoint);
    atomics.abandon(endpoint);
    endpoint.pending.length = 0;
    endpoint.pendingHead = 0;
    endpoint.transferQueue.length = 0;
    endpoint.controls.length = 0;
  }

  protected letGo(row: RequestRow): void {
    this.worker.rendezvous.unpin(row);
  }

  protected release(endpoint: VerbsEndpoint): void {
    if (endpoint.ringRegion !== undefined) this.#wireUp.tearDown(endpoint, endpoint.peerIsDone || endpoint.closedByPeer);
  }

  /** The peer will send nothing more, and what is still to be sent cannot arrive. */
  closedByPeer(endpoint: VerbsEndpoint): void {
    const { requests, rendezvous } = this.worker;
    for (const row of requests.pending()) {
      if (row.endpoint === endpoint.id && row.kind !== KIND_RECV) {
        rendezvous.unpin(row);
        requests.fail(row, new PeerLost(endpoint.peer, requests.describe(row), 'it closed the endpoint'));
      }
    }
    endpoint.pending.length = 0;
    endpoint.pendingHead = 0;
    endpoint.failStream(new PeerLost(endpoint.peer, 'a stream', 'it closed the endpoint'));
  }

  /** From now on asks peers whose death their device does not notice for a sign of life. */
  keepAlive(): void {
    const { poller, options } = this.worker;
    const limit = options.keepaliveMs ?? 10_000;
    poller.isTiming = true;
    if (this.#keepalive !== undefined) return;
    this.#askEveryMs = limit / 4;
    this.#nextAsk = performance.now() + this.#askEveryMs;
    this.#keepalive = setInterval(() => {
      const now = performance.now();
      for (const endpoint of [...poller.live]) {
        if (endpoint.port.rail.device.capabilities.peerDeath || now - endpoint.lastHeard <= limit) continue;
        if (this.worker.vouchesFor?.(endpoint)) continue;
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
    for (const endpoint of [...this.worker.poller.live]) {
      if (!endpoint.port.rail.device.capabilities.peerDeath) endpoint.control(PING, 0, 0);
    }
  }

  /** The worker closes. */
  stop(): void {
    clearInterval(this.#keepalive);
    this.#wireUp.close();
  }
}
