/**
 * What an engine is: the parts that stand behind a worker. There are two, and a program does not see which.
 *
 * ```
 *                 Worker, Endpoint, Listener, Request, streams, handlers: what a program calls          (worker.ts, endpoint.ts, ...)
 *   verbs         rings in the receiver's memory, protocols by cost, any verbs device                   (verbs-worker.ts and what it is made of)
 *   ucx           libucp: its active messages and rendezvous, its put, get and atomics                  (ucx/)
 * ```
 */

import type { ActiveMessageHandler } from './am/handlers.js';
import type { Endpoint } from './endpoint.js';
import type { Listener } from './listener.js';
import type { Payload } from './payload.js';
import type { CallOptions } from './request.js';
import type { RequestRow } from './requests.js';
import type { UnexpectedEntry } from './tag/match-queue.js';

/** A message found by `probe`. */
export interface Probed {
  readonly length: number;
  readonly tagLo: number;
  readonly tagHi: number;
  readonly source: number;
  /** The message itself, for a matched probe. */
  readonly entry: UnexpectedEntry;
}

/** Tagged messages. */
export interface Tags {
  /** Begins a send. Returns undefined when it is complete, else its request. Throws PeerLost, MSG_CLOSED. */
  send(endpoint: Endpoint, payload: Payload, context: number, lo: number, hi: number): RequestRow | undefined;
  /** Begins a receive; returns its request, which may be complete already. */
  receive(payload: Payload, context: number, lo: number, hi: number, maskLo: number, maskHi: number, source: number): RequestRow;
  /** The oldest unexpected message that a receive would take, or undefined. */
  probe(context: number, lo: number, hi: number, maskLo: number, maskHi: number, source: number): Probed | undefined;
  /** Takes a probed message out of the queue, so that nobody else gets it. Returns what `receiveClaimed` wants. */
  claim(probed: Probed): number;
  receiveClaimed(payload: Payload, probed: Probed, kept: number): RequestRow;
  /** Takes a receive back; it ends with MSG_CANCELLED, or this error. False when it has matched already. */
  cancel(row: RequestRow, error?: Error): boolean;
}

/** Active messages. */
export interface Messages {
  install(id: number, handler: ActiveMessageHandler | undefined): void;
  /** Begins a send. Returns undefined when it is complete, else its request. */
  send(endpoint: Endpoint, id: number, header: Uint8Array, payload: Payload): RequestRow | undefined;
  /** Ends the interest of all handlers: the worker closes. */
  close(): void;
}

/** Who a worker is connected to. */
export interface Connecting {
  readonly address: Uint8Array;
  connect(to: string | Uint8Array): Endpoint;
  listen(name: string): Promise<Listener>;
  endpointOf(source: number): Endpoint | undefined;
  closeListeners(): void;
}

/** How endpoints end. */
export interface Ending {
  close(endpoint: Endpoint, options: CallOptions & { force?: boolean }): Promise<void>;
  /** The worker closes. */
  stop(): void;
}

/** What makes everything happen, and how a worker sleeps. */
export interface Progress {
  /** True while `poll` runs: a poll from within a handler does nothing. */
  readonly isPolling: boolean;
  poll(): number;
  /** Prepares to sleep. False when there is something to do after all. */
  arm(): boolean;
  /** Something was begun while the worker sleeps. */
  kick(): void;
  disarm(): void;
  /** Sleeps until there is something to do. */
  asleep(): Promise<void>;
}
