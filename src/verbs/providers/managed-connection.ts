/**
 * The user's side of connection management: connection, request and listener. How the messages travel is the provider's connection manager.
 *
 *     manager: a request came ── listener.offer ──> accept() ──> request.accept(qp) ── manager.accept ──> connection
 */

import type { AcceptOptions, Connection, ConnectionRequest, ConnectOptions, Listener } from '../connection.js';
import { VerbsError } from '../errors.js';
import type { QueuePair } from '../queue-pair.js';
import { type Waiter, type WaitHost, waitOn } from './waiting.js';

/** How long `connect` and `accept` wait, milliseconds. */
export const CONNECT_TIMEOUT_MS = 5000;

/** A queue pair that a connection can stop. */
export interface ManagedQueuePair extends QueuePair {
  /** To the error state, where it is not there yet. */
  stop(): void;
}

export class ManagedConnection implements Connection {
  readonly qp: ManagedQueuePair;
  readonly privateData: Uint8Array;
  readonly closed: Promise<string>;
  private readonly tell: () => void;
  private end!: (reason: string) => void;

  /** `tell` tells the peer of the end. */
  constructor(qp: ManagedQueuePair, privateData: Uint8Array, tell: () => void) {
    this.qp = qp;
    this.privateData = privateData;
    this.tell = tell;
    this.closed = new Promise((resolve) => {
      this.end = resolve;
    });
  }

  disconnect(): void {
    this.tell();
    this.over('this side disconnected');
  }

  over(reason: string): void {
    this.qp.stop();
    this.end(reason);
  }

  [Symbol.dispose](): void {
    this.disconnect();
  }
}

/** What answers requests. `D` is what the provider keeps of a request. */
interface Answering<D> {
  accept(request: ManagedRequest<D>, qp: QueuePair, options: ConnectOptions): Promise<Connection>;
  reject(request: ManagedRequest<D>, privateData?: Uint8Array): void;
}

export class ManagedRequest<D> implements ConnectionRequest {
  readonly privateData: Uint8Array;
  /** The manager's number for it. */
  readonly id: number;
  readonly detail: D;
  readonly listener: ManagedListener<D>;
  private readonly manager: Answering<D>;

  constructor(manager: Answering<D>, listener: ManagedListener<D>, id: number, privateData: Uint8Array, detail: D) {
    this.manager = manager;
    this.listener = listener;
    this.id = id;
    this.privateData = privateData;
    this.detail = detail;
  }

  accept(qp: QueuePair, options: ConnectOptions = {}): Promise<Connection> {
    return this.manager.accept(this, qp, options);
  }

  reject(privateData?: Uint8Array): void {
    this.manager.reject(this, privateData);
  }
}

export class ManagedListener<D> implements Listener {
  readonly name: string;
  readonly target: string;
  private readonly host: WaitHost;
  private readonly unlisten: () => void;
  /** Requests that nobody has taken, and all that nobody has answered. */
  private readonly waiting: ManagedRequest<D>[] = [];
  private readonly open = new Set<ManagedRequest<D>>();
  private readonly acceptors = new Set<Waiter<ConnectionRequest>>();
  private isClosed = false;

  constructor(host: WaitHost, name: string, target: string, unlisten: () => void) {
    this.host = host;
    this.name = name;
    this.target = target;
    this.unlisten = unlisten;
  }

  /** A request came in. */
  offer(request: ManagedRequest<D>): void {
    this.open.add(request);
    const [acceptor] = this.acceptors;
    if (acceptor) acceptor.resolve(request);
    else this.waiting.push(request);
  }

  /** A request was answered, or given up. */
  forget(request: ManagedRequest<D>): void {
    this.open.delete(request);
    const at = this.waiting.indexOf(request);
    if (at >= 0) this.waiting.splice(at, 1);
  }

  accept(options: AcceptOptions = {}): Promise<ConnectionRequest> {
    if (this.isClosed) return Promise.reject(new VerbsError('VERBS_CLOSED', `the listener '${this.name}' is closed`));
    const request = this.waiting.shift();
    if (request) return Promise.resolve(request);
    return waitOn<ConnectionRequest>(this.host, options, 'no connection request', (acceptor) => {
      this.acceptors.add(acceptor);
      return () => this.acceptors.delete(acceptor);
    });
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ConnectionRequest, void, undefined> {
    for (;;) {
      try {
        yield await this.accept();
      } catch (error) {
        if (this.isClosed) return;
        throw error;
      }
    }
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    for (const request of [...this.open]) request.reject();
    this.unlisten();
    for (const acceptor of [...this.acceptors]) {
      acceptor.reject(new VerbsError('VERBS_CLOSED', `the listener '${this.name}' was closed`));
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
