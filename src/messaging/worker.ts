/**
 * A worker: the side of a program that sends and receives. It has endpoints and listeners, and `poll` makes everything happen; callbacks and promises are
 * built on it. This file is what a program calls; what does the work are the parts of an engine (engine.ts). A worker belongs to one thread.
 */

import type { ActiveMessageHandler } from './am/handlers.js';
import type { Context } from './context.js';
import type { Endpoint } from './endpoint.js';
import type { Connecting, Ending, Messages, Probed, Progress, Tags } from './engine.js';
import { MessagingError } from './errors.js';
import type { Listener } from './listener.js';
import { NATIVE_COPY_BYTES } from './memory/native-copy.js';
import { checkWorkerOptions, type WorkerOptions } from './options.js';
import { type Data, Payload, payloadOf } from './payload.js';
import { Driver } from './progress/driver.js';
import type { Explanation } from './protocols/explanation.js';
import { type CallOptions, late, type Received, Request, type WaitObserver } from './request.js';
import { DONE, FAILED, PENDING, type RequestRow, RequestTable } from './requests.js';
import type { ExposedMemory } from './rma/remote-memory.js';
import { ANY_SOURCE } from './tag/match-queue.js';
import { type Tag, tagHigh, tagLow, tagOf } from './tag/tag.js';

/** The context of user messages; libraries above use others. */
export const USER_CONTEXT = 0;

/** Options of a receive. */
export interface ReceiveOptions extends CallOptions {
  /** Bits of the tag that must agree. Default: all. */
  readonly mask?: Tag;
  /** Take messages of this peer only. Default: of everyone. */
  readonly from?: Endpoint;
}

/** What `probe` found. */
export interface ProbeResult {
  readonly length: number;
  readonly tag: number | bigint;
  readonly source: number;
}

/** A message taken out of the queue by `probeMatched`: only `recv` gets it. */
export interface MatchedMessage extends ProbeResult {
  /** Receives it. Throws as `worker.recv`. */
  recv(into: Data, options?: CallOptions): Promise<Received>;
}

/** Data that was given last, as a payload. */
interface LastPayload {
  data: unknown;
  payload: Payload | undefined;
}

export abstract class Worker {
  readonly context: Context;
  /** 16 hexadecimal digits that nobody else has. */
  readonly id: string;
  /** How peers name this worker in their errors. */
  readonly label: string;
  readonly timeoutMs: number;
  readonly options: WorkerOptions;
  readonly requests = new RequestTable();
  readonly driver: Driver;
  abstract readonly tags: Tags;
  abstract readonly messages: Messages;
  abstract readonly connections: Connecting;
  abstract readonly endings: Ending;
  abstract readonly poller: Progress;
  /** Errors of handlers and of messages nobody handles. Default: thrown as uncaught. */
  onError: ((error: unknown) => void) | undefined;
  /** By number. */
  readonly endpoints: Endpoint[] = [];
  /** Of the receive that `test` found complete last. */
  lastLength = 0;
  lastTagLo = 0;
  lastTagHi = 0;
  lastSource = -1;
  /** Called with every endpoint that a peer made by this worker's address, unless this worker asked for one to that peer too: then they share it. */
  onEndpoint: ((endpoint: Endpoint) => void) | undefined;
  /** Told when a call begins to wait; what it returns is called when the wait is over. Ranks show it in stall reports. */
  onWait: WaitObserver | undefined;
  /** Asked before a peer that was silent for `keepaliveMs` is given up: true when it is known to live, and only computes. Ranks of a world know it of each other. */
  vouchesFor: ((endpoint: Endpoint) => boolean) | undefined;
  #closed = false;
  readonly #sent: LastPayload = { data: undefined, payload: undefined };
  readonly #received: LastPayload = { data: undefined, payload: undefined };

  constructor(context: Context, options: WorkerOptions, id: string) {
    checkWorkerOptions(options);
    this.context = context;
    this.options = options;
    this.id = id;
    this.label = `${context.name} (process ${process.pid})`;
    this.timeoutMs = options.timeoutMs ?? 30_000;
    this.driver = new Driver(this, options.mode ?? 'adaptive', options.spinUs ?? 50);
  }

  // ---- what an engine adds ----

  /** See Endpoint.explain. */
  abstract explain(endpoint: Endpoint, operation: 'tag' | 'am', bytes: number): Explanation;

  /**
   * Lets peers reach memory: `pack()` the result and pass it on. Atomics: words of memory of `context.alloc` are changed without this worker's help, those of
   * other memory when it makes progress.
   */
  abstract expose(memory: ArrayBuffer | ArrayBufferView): ExposedMemory;

  /** Address of bytes that stay where they are as long as they are used, or 0. */
  protected abstract addressOf(bytes: Uint8Array): number;

  /** The last that closing does. */
  protected abstract release(): void;

  // ---- connecting ----

  /** What others need to connect to this worker: bytes, to be passed on by any means. The first byte is the version. */
  get address(): Uint8Array {
    return this.connections.address;
  }

  /**
   * An endpoint to whoever listens under a name, or to the worker of an address blob. Nothing happens until it is used (`ready()` counts as use). An
   * address that this worker has an endpoint to already gives that one. Throws MSG_INVALID for a bad address, MSG_CLOSED.
   */
  connect(to: string | Uint8Array): Endpoint {
    this.#check();
    return this.connections.connect(to);
  }

  /** Takes connections under a name, on every device. Throws VERBS_BUSY when it is taken. */
  async listen(name: string): Promise<Listener> {
    this.#check();
    return this.connections.listen(name);
  }

  /** An endpoint to the peer that a message came from, or undefined when there is none any more. */
  endpointOf(source: number): Endpoint | undefined {
    return this.connections.endpointOf(source);
  }

  // ---- progress ----

  /**
   * Makes progress; returns how many things happened. Never blocks. Everything else, callbacks and promises, is built on this call. Throws
   * VERBS_CLOSED on a closed worker.
   */
  poll(): number {
    return this.poller.poll();
  }

  /** True while `poll` runs: a poll from within a handler does nothing. */
  get polling(): boolean {
    return this.poller.isPolling;
  }

  /** The same, under the name of UCX. */
  progress(): number {
    return this.poller.poll();
  }

  // ---- tag: synchronous form ----

  /**
   * Begins a send. Returns 0 when it is complete: the memory may be used again; else a handle for `test`. Context 0 is the user's; libraries use their own, so
   * that a wildcard of the user never takes their messages. Throws PeerLost, MSG_CLOSED.
   */
  postSend(endpoint: Endpoint, data: Data, tagLo: number, tagHi: number, context: number = USER_CONTEXT): number {
    const row = this.tags.send(endpoint, this.payload(data), context, tagLo, tagHi);
    if (row === undefined) return 0;
    if (row.state !== DONE) return row.handle + 1;
    this.requests.release(row);
    return 0;
  }

  /** Begins a receive; returns a handle for `test`. Masks of -1 compare all bits; source -1 is anyone. */
  postRecv(
    into: Data,
    tagLo: number,
    tagHi: number,
    maskLo = -1,
    maskHi = -1,
    source: number = ANY_SOURCE,
    context: number = USER_CONTEXT,
  ): number {
    return this.tags.receive(this.payload(into, this.#received), context, tagLo, tagHi, maskLo, maskHi, source).handle + 1;
  }

  /**
   * Whether a request is complete; if so it is gone, and of a receive `lastLength`, `lastTagLo`, `lastTagHi`, `lastSource` tell the rest. Does not make
   * progress: call `poll`. Throws the request's error, and MSG_INVALID for a handle that is none.
   */
  test(handle: number): boolean {
    if (handle === 0) return true;
    const { requests } = this;
    const row = requests.find(handle - 1);
    if (row === undefined) throw new MessagingError('MSG_INVALID', 'this handle names no request: it was complete already');
    const state = row.state;
    if (state === PENDING) return false;
    this.lastLength = row.length;
    this.lastTagLo = row.tagLo;
    this.lastTagHi = row.tagHi;
    this.lastSource = row.source;
    const error = row.error;
    requests.release(row);
    if (state === FAILED && error !== undefined) throw error;
    return true;
  }

  /** Takes a receive back that has not matched; it ends with MSG_CANCELLED. False when it is too late. */
  cancel(handle: number): boolean {
    const row = this.requests.find(handle - 1);
    return row !== undefined && this.tags.cancel(row);
  }

  /** The payload of data; those used last for sending and for receiving are remembered, since finding an address takes time. */
  payload(data: Data, last: LastPayload = this.#sent): Payload {
    if (data === last.data) return last.payload as Payload;
    return data instanceof Payload && data.length < NATIVE_COPY_BYTES ? data : this.#newPayload(data, last);
  }

  #newPayload(data: Data, last: LastPayload): Payload {
    const payload = payloadOf(data);
    // A list may hold other pieces the next time.
    if (payload.pieces !== undefined || Array.isArray(data)) return payload;
    if (payload.length >= NATIVE_COPY_BYTES) payload.address = this.addressOf(payload.bytes);
    last.data = data;
    last.payload = payload;
    return payload;
  }

  /** Forgets payloads that are remembered and lie in this memory: their addresses are valid no more. */
  protected forgetMemory(buffer: ArrayBufferLike): void {
    for (const last of [this.#sent, this.#received]) {
      if (last.payload?.bytes.buffer !== buffer) continue;
      last.data = undefined;
      last.payload = undefined;
    }
  }

  // ---- tag: callbacks and promises ----

  /** See Endpoint.sendBegin. */
  sendBegin(
    endpoint: Endpoint,
    tag: Tag,
    data: Data,
    done?: (error: Error | undefined) => void,
    context: number = USER_CONTEXT,
  ): Request | undefined {
    const handle = this.postSend(endpoint, data, tagLow(tag), tagHigh(tag), context);
    return handle === 0 ? undefined : this.own(handle, done);
  }

  /** Gives a request of the synchronous form an object that hears of its end. */
  own(handle: number, done?: (error: Error | undefined, received: Received | undefined) => void): Request {
    const row = this.requests.find(handle - 1) as RequestRow;
    const request = new Request(this, handle, done);
    this.driver.join();
    if (row.state === PENDING) {
      row.owner = request;
      if (done !== undefined) this.driver.start();
    } else {
      request.completed(row);
      this.requests.release(row);
    }
    return request;
  }

  /** See Endpoint.send. */
  async send(endpoint: Endpoint, tag: Tag, data: Data, options?: CallOptions, context: number = USER_CONTEXT): Promise<void> {
    options?.signal?.throwIfAborted();
    const request = this.sendBegin(endpoint, tag, data, undefined, context);
    if (request !== undefined) await request.wait(options);
  }

  /** The callback form of a receive. `done` may be called before this returns when the message is there already. */
  recvBegin(
    tag: Tag,
    into: Data,
    options: ReceiveOptions = {},
    done?: (error: Error | undefined, received: Received | undefined) => void,
    context: number = USER_CONTEXT,
  ): Request {
    this.#check();
    const { mask, from } = options;
    const maskLo = mask === undefined ? -1 : tagLow(mask);
    const maskHi = mask === undefined ? -1 : tagHigh(mask);
    if (from !== undefined && from.source < 0) {
      throw new MessagingError('MSG_INVALID', `receiving from ${from.peer} needs a connection: await ready() first`);
    }
    const source = from === undefined ? ANY_SOURCE : from.source;
    const handle = this.postRecv(into, tagLow(tag), tagHigh(tag), maskLo, maskHi, source, context);
    // What a peer sent before it was lost is still there; more will not come.
    if (from?.failure !== undefined && this.endpointOf(source) === undefined) {
      this.tags.cancel(this.requests.find(handle - 1) as RequestRow, from.failure);
    }
    return this.own(handle, done);
  }

  /**
   * Receives a tagged message. Throws MSG_TRUNCATED when it is longer than `into`, MSG_TIMEOUT and the signal's reason (the receive is then cancelled, unless
   * data is on its way), PeerLost when it can only come from a peer that is gone.
   */
  async recv(tag: Tag, into: Data, options: ReceiveOptions = {}, context: number = USER_CONTEXT): Promise<Received> {
    options.signal?.throwIfAborted();
    return this.recvBegin(tag, into, options, undefined, context).wait(options);
  }

  /** The oldest message that a receive with this tag would take, without taking it; undefined when there is none. Makes progress once. */
  probe(
    tag: Tag,
    options: Omit<ReceiveOptions, keyof CallOptions> = {},
    context: number = USER_CONTEXT,
  ): ProbeResult | undefined {
    const found = this.#find(tag, options, context);
    return found && { length: found.length, tag: tagOf(found.tagLo, found.tagHi), source: found.source };
  }

  /** The same, and takes the message out: no other receive can get it. */
  probeMatched(
    tag: Tag,
    options: Omit<ReceiveOptions, keyof CallOptions> = {},
    context: number = USER_CONTEXT,
  ): MatchedMessage | undefined {
    const found = this.#find(tag, options, context);
    if (found === undefined) return undefined;
    const kept = this.tags.claim(found);
    let taken = false;
    return {
      length: found.length,
      tag: tagOf(found.tagLo, found.tagHi),
      source: found.source,
      recv: async (into, callOptions) => {
        this.#check();
        if (taken) throw new MessagingError('MSG_INVALID', 'this message was received already');
        taken = true;
        const row = this.tags.receiveClaimed(payloadOf(into), found, kept);
        return this.own(row.handle + 1).wait(callOptions);
      },
    };
  }

  #find(tag: Tag, options: Omit<ReceiveOptions, keyof CallOptions>, context: number): Probed | undefined {
    this.poll();
    const { mask, from } = options;
    const maskLo = mask === undefined ? -1 : tagLow(mask);
    const maskHi = mask === undefined ? -1 : tagHigh(mask);
    return this.tags.probe(context, tagLow(tag), tagHigh(tag), maskLo, maskHi, from === undefined ? ANY_SOURCE : from.source);
  }

  // ---- active messages, remote memory ----

  /**
   * Installs the handler of a number, 0 to 65535; undefined takes it away. While there are handlers the worker makes progress by itself and keeps the
   * process alive. Throws MSG_INVALID.
   */
  handle(id: number, handler: ActiveMessageHandler | undefined): void {
    this.messages.install(id, handler);
  }

  /** The synchronous form of an active message: 0 when it is complete, else a handle for `test`. */
  postAm(endpoint: Endpoint, handler: number, header: Uint8Array, data: Data): number {
    const row = this.messages.send(endpoint, handler, header, this.payload(data));
    return row === undefined ? 0 : row.handle + 1;
  }

  /** See Endpoint.am. */
  async am(endpoint: Endpoint, handler: number, header: Uint8Array, data: Data, options?: CallOptions): Promise<void> {
    options?.signal?.throwIfAborted();
    const handle = this.postAm(endpoint, handler, header, data);
    if (handle !== 0) await this.own(handle).wait(options);
  }

  /** A handler threw, or nobody handles a message. */
  unhandled(error: unknown): void {
    if (this.onError !== undefined) this.onError(error);
    else queueMicrotask(() => Promise.reject(error));
  }

  /** A wait of its own kind: `begin` is given the function that ends it. */
  waitFor(what: string, endpoint: Endpoint, options: CallOptions, begin: (settle: () => void) => void): Promise<void> {
    const { signal, timeoutMs = this.timeoutMs } = options;
    signal?.throwIfAborted();
    const observed = this.onWait?.(what, endpoint);
    return new Promise((resolve, reject) => {
      let over = false;
      const end = (act: () => void) => {
        if (over) return;
        over = true;
        observed?.();
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        this.driver.leave();
        act();
      };
      const abort = () => end(() => reject(signal?.reason));
      const timer = late(timeoutMs, `the ${what} of the endpoint to ${endpoint.peer} was not over`, (error) =>
        end(() => reject(error)),
      );
      signal?.addEventListener('abort', abort, { once: true });
      this.driver.join();
      begin(() => end(resolve));
      this.driver.start();
    });
  }

  // ---- closing ----

  /** See Endpoint.close. */
  closeEndpoint(endpoint: Endpoint, options: CallOptions & { force?: boolean }): Promise<void> {
    return this.endings.close(endpoint, options);
  }

  #check(): void {
    if (this.#closed) throw new MessagingError('MSG_CLOSED', 'the worker is closed');
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Closes all endpoints, graceful or forced, then the worker. Receives that wait fail with MSG_CLOSED. Idempotent. */
  async close(options: CallOptions & { force?: boolean } = {}): Promise<void> {
    if (this.#closed) return;
    this.connections.closeListeners();
    await Promise.all(this.endpoints.map((endpoint) => this.endings.close(endpoint, options)));
    this.#closed = true;
    this.endings.stop();
    for (const row of this.requests.pending()) {
      this.requests.fail(row, new MessagingError('MSG_CLOSED', 'the worker was closed'));
    }
    this.messages.close();
    this.driver.stop();
    this.release();
    this.context.forget(this);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
