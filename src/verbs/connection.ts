/**
 * Connection management in the manner of rdma-cm: listen under a name, connect to it, exchange private data, accept or reject.
 *
 * ```
 *   initiator                                   listener
 *   connect(name, qp, privateData) ──REQ──>     request.privateData
 *                                               request.accept(qp, privateData)  or  request.reject(privateData)
 *   Connection / VERBS_REFUSED     <─REP/REJ─
 *                                  ──RTU──>     Connection
 *   disconnect()                   ──DREQ──>    connection.closed resolves
 * ```
 */

import type { WaitOptions } from './completion-queue.js';
import type { ConnectAttributes, QueuePair } from './queue-pair.js';

/** Longest private data, bytes, in every message. */
export const MAX_PRIVATE_DATA = 196;

export interface ConnectOptions {
  /** Bytes for the other side, at most MAX_PRIVATE_DATA. Default: empty. */
  privateData?: Uint8Array;
  /** Gives up with VERBS_TIMEOUT. Default 5000, milliseconds. */
  timeoutMs?: number;
  /** Gives up when aborted, with its reason. Default: none. */
  signal?: AbortSignal;
  /** Attributes of the queue pair. */
  attributes?: ConnectAttributes;
}

/** An established connection. */
export interface Connection {
  readonly qp: QueuePair;
  /** What the other side sent with its request or reply. */
  readonly privateData: Uint8Array;
  /** Resolves when either side disconnected or the peer is gone, with the reason in words. */
  readonly closed: Promise<string>;
  /** Tells the peer and moves the queue pair to ERR, so that outstanding requests flush. */
  disconnect(): void;
  [Symbol.dispose](): void;
}

/** A request that waits for an answer. Unanswered it is rejected when the initiator's timeout ends. */
export interface ConnectionRequest {
  readonly privateData: Uint8Array;
  /** Connects `qp` to the initiator. Throws VERBS_TIMEOUT when the initiator has given up. */
  accept(qp: QueuePair, options?: ConnectOptions): Promise<Connection>;
  /** Refuses: the initiator gets VERBS_REFUSED with this private data. */
  reject(privateData?: Uint8Array): void;
}

/** How a listener waits. */
export interface AcceptOptions extends WaitOptions {
  /** Whether the process stays while this waits and nothing else goes on. Default true. */
  keepAlive?: boolean;
}

/** Takes connection requests under a name. */
export interface Listener extends AsyncIterable<ConnectionRequest> {
  readonly name: string;
  /** What anyone who can reach this device passes to `connect`: the name, on a network after address and port (`10.0.0.1:4791/name`). */
  readonly target: string;
  /** The next request. Throws VERBS_CLOSED, VERBS_TIMEOUT or the signal's reason. */
  accept(options?: AcceptOptions): Promise<ConnectionRequest>;
  /** Stops listening; requests not yet answered are rejected. */
  close(): void;
  [Symbol.dispose](): void;
}
