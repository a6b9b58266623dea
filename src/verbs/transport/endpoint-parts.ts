/** What an endpoint works on: the queues of its queue pair, the memory of its protection domain, and who hears of it. */

import type { TransportCounters, TransportHost } from './host.js';
import type { TransportMemory } from './memory.js';
import type { ReceiveQueue } from './receive-queue.js';
import type { SendQueue } from './send-queue.js';

export interface EndpointParts {
  readonly sendQueue: SendQueue;
  readonly receiveQueue: ReceiveQueue;
  /** The receive queue is a shared one: its requests survive this endpoint. Default: false. */
  readonly isShared?: boolean;
  readonly memory: TransportMemory;
  readonly host: TransportHost;
  readonly counters: TransportCounters;
}
