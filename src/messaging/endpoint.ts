/**
 * An endpoint: the way to one peer, whatever the engine. It is made at once and connected at the first use: what is sent before that waits in line. An
 * endpoint is also what a peer's connection becomes at the accepting side, so both sides can send.
 *
 * ```
 *   idle ──first use──> connecting ──> ready ──close()──> closing ──peer answered──> closed
 *                            └───────────┴── peer died, connection broke ──> failed
 * ```
 */

import { MessagingError, PeerLost } from './errors.js';
import type { Data, Payload } from './payload.js';
import type { Explanation } from './protocols/explanation.js';
import { type CallOptions, late, type Request } from './request.js';
import type { RemoteMemory } from './rma/remote-memory.js';
import { EndpointStream } from './stream/endpoint-stream.js';
import type { Tag } from './tag/tag.js';
import type { Worker } from './worker.js';

/** Where an endpoint stands; 'failed' and 'closed' are final. */
export type EndpointState = 'idle' | 'connecting' | 'ready' | 'closing' | 'closed' | 'failed';

/** A one-sided request that begins now or after a fence. */
export interface RemoteStart {
  begin(): void;
}

/** Stands in line where a fence was asked for behind another. */
const FENCE: RemoteStart = { begin: () => {} };

export abstract class Endpoint {
  /** Number within the worker. */
  readonly id: number;
  abstract readonly worker: Worker;
  state: EndpointState = 'idle';
  /** Who is at the other side. */
  peer: string;
  /** Number of the peer within the worker: the source of its messages. */
  source = -1;
  /** The peer said that it closes: it takes nothing more. */
  closedByPeer = false;
  failure: Error | undefined;
  /** True while something waits for room. */
  waiting = false;
  /** Stream writes that wait for the window or for room. */
  readonly streamQueue: number[] = [];
  /** Starts the connection; nothing once started. */
  connect: (() => void) | undefined;
  /** Resolvers of `ready()`. */
  readonly whenReady: { resolve: () => void; reject: (error: Error) => void }[] = [];
  readonly whenClosed: (() => void)[] = [];
  /** One-sided requests under way, and those that wait behind a fence. */
  #remoteOutstanding = 0;
  #isFenced = false;
  readonly #fenced: RemoteStart[] = [];
  readonly #flushers: (() => void)[] = [];
  #stream: EndpointStream | undefined;

  constructor(id: number, peer: string) {
    this.id = id;
    this.peer = peer;
  }

  /** What carries it: 'shm', 'roce', 'ucx'. */
  abstract get provider(): string;

  // ---- what the stream needs of an engine ----

  /** Most bytes of a stream that go at once. */
  abstract get streamPiece(): number;
  /** Sends a piece of a stream; it is copied. False when there is no room. */
  abstract sendStream(payload: Payload, offset: number, count: number, isEnd: boolean): boolean;
  /** Tells the peer that this side has read so much. */
  abstract creditStream(count: number): void;

  // ---- remote memory ----

  /** Memory of this peer, from the bytes that it packed. Throws MSG_INVALID for other bytes. The endpoint must be connected (`await ready()`). */
  abstract unpack(packed: Uint8Array): RemoteMemory;

  /** A one-sided request begins, ends: for those who count. */
  protected abstract remoteBegan(): void;
  protected abstract remoteEnded(): void;
  /** Begins what tells that all puts so far are there, if there were any that do not tell themselves. */
  protected abstract beginFlush(): void;

  /** Begins a one-sided request now, or after the fence. */
  beginRemote(start: RemoteStart): void {
    if (this.#isFenced) {
      this.#fenced.push(start);
      return;
    }
    this.#remoteOutstanding++;
    this.remoteBegan();
    start.begin();
  }

  /** A one-sided request is over. */
  endRemote(): void {
    this.remoteEnded();
    if (--this.#remoteOutstanding > 0) return;
    this.#isFenced = false;
    if (this.#fenced.length > 0) for (const start of this.#fenced.splice(0)) this.#resume(start);
    if (this.#remoteOutstanding === 0) for (const wake of this.#flushers.splice(0)) wake();
  }

  #resume(start: RemoteStart): void {
    if (start === FENCE) this.fence();
    else this.beginRemote(start);
  }

  /** Puts, gets and atomics begun after this take effect after all that were begun before. */
  fence(): void {
    this.beginFlush();
    if (this.#fenced.length > 0) this.#fenced.push(FENCE);
    else if (this.#remoteOutstanding > 0) this.#isFenced = true;
  }

  /** Resolves when all puts, gets and atomics begun so far are complete at the peer. Throws MSG_TIMEOUT, the signal's reason. */
  async flush(options: CallOptions = {}): Promise<void> {
    const { worker } = this;
    this.beginFlush();
    worker.poll();
    if (this.#remoteOutstanding + this.#fenced.length === 0) return;
    await worker.waitFor('flush', this, options, (settle) => {
      this.#flushers.push(settle);
    });
  }

  /** Whether small puts must wait. */
  get isFenced(): boolean {
    return this.#isFenced;
  }

  // ---- the user's side ----

  /** The byte stream of this endpoint. */
  get stream(): EndpointStream {
    this.#stream ??= new EndpointStream(this, this.worker.options.streamWindowBytes ?? 1 << 18);
    return this.#stream;
  }

  /** Ends the stream with an error, if there is one. */
  failStream(error: Error): void {
    this.#stream?.fail(error);
  }

  /** Sends an active message; resolves when the memory may be used again. Throws as `send`, and MSG_INVALID for a header that is too long for the engine. */
  am(handler: number, header: Uint8Array, data: Data, options?: CallOptions): Promise<void> {
    return this.worker.am(this, handler, header, data, options);
  }

  /** Throws when the endpoint cannot be used any more. */
  check(): void {
    if (this.state === 'failed') throw this.failure ?? new PeerLost(this.peer, 'connecting', 'the endpoint failed');
    if (this.state === 'closed' || this.state === 'closing') {
      throw new MessagingError('MSG_CLOSED', `the endpoint to ${this.peer} is closed`);
    }
    if (this.closedByPeer) throw new PeerLost(this.peer, 'sending', 'it closed the endpoint');
  }

  /** Resolves when connected. Throws what connecting throws, MSG_TIMEOUT, or the signal's reason. */
  async ready(options: CallOptions = {}): Promise<void> {
    const { signal, timeoutMs = this.worker.timeoutMs } = options;
    signal?.throwIfAborted();
    if (this.state === 'ready') return;
    if (this.state !== 'connecting') this.check();
    const observed = this.worker.onWait?.('connect', this);
    await new Promise<void>((resolve, reject) => {
      const end = (act: () => void) => {
        observed?.();
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        const at = this.whenReady.indexOf(waiter);
        if (at >= 0) this.whenReady.splice(at, 1);
        act();
      };
      const waiter = { resolve: () => end(resolve), reject: (error: Error) => end(() => reject(error)) };
      const abort = () => end(() => reject(signal?.reason));
      const timer = late(timeoutMs, `no connection to ${this.peer}`, (error) => end(() => reject(error)));
      signal?.addEventListener('abort', abort, { once: true });
      this.whenReady.push(waiter);
      this.connect?.();
    });
  }

  /** Sends a tagged message; resolves when the memory may be used again. Throws PeerLost, MSG_CLOSED, MSG_TIMEOUT, the signal's reason. */
  send(tag: Tag, data: Data, options?: CallOptions): Promise<void> {
    return this.worker.send(this, tag, data, options);
  }

  /**
   * The callback form: begins a send and returns its request, or undefined when it is complete already (then `done` was not called).
   */
  sendBegin(tag: Tag, data: Data, done?: (error: Error | undefined) => void): Request | undefined {
    return this.worker.sendBegin(this, tag, data, done);
  }

  /** How a message of this size would go, and why. Operation: 'tag' or 'am'. Throws until connected (`await ep.ready()`). */
  explain(operation: 'tag' | 'am', bytes: number): Explanation {
    return this.worker.explain(this, operation, bytes);
  }

  /**
   * Closes the endpoint. Graceful (default): what was sent arrives first. Forced: outstanding requests fail with MSG_CLOSED at once. Idempotent.
   */
  close(options: CallOptions & { force?: boolean } = {}): Promise<void> {
    return this.worker.closeEndpoint(this, options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
