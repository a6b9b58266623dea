/** How endpoints on UCX end: closing by the peer; closing by this side stands in closing.ts. */

import { Closing } from '../closing.js';
import { PeerLost } from '../errors.js';
import type { UcxEndpoint } from './endpoint.js';
import { CLOSE, CLOSED } from './wire.js';
import type { UcxWorker } from './worker.js';

export class UcxEndings extends Closing<UcxEndpoint, UcxWorker> {
  protected get live(): UcxEndpoint[] {
    return this.worker.live;
  }

  protected sayClose(endpoint: UcxEndpoint): void {
    endpoint.control(CLOSE);
  }

  protected isDelivered(): boolean {
    return true; // what UCX has taken without a request it delivers
  }

  protected retire(endpoint: UcxEndpoint): void {
    endpoint.pending.length = 0;
    endpoint.early = undefined;
    for (const memory of endpoint.offered.values()) memory.release();
    endpoint.offered.clear();
  }

  protected letGo(): void {}

  protected release(): void {}

  /** The peer closes: it sends and takes nothing more. */
  closedByPeer(endpoint: UcxEndpoint): void {
    endpoint.closedByPeer = true;
    endpoint.control(CLOSED);
    if (endpoint.state === 'closing') for (const wake of endpoint.whenClosed.splice(0)) wake();
    else this.fail(endpoint, new PeerLost(endpoint.peer, 'an open endpoint', 'it closed the endpoint'));
  }

  stop(): void {}
}
