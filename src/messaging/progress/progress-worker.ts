/**
 * A progress worker: a messaging worker in a thread of its own. It matches, answers and moves data while the main thread computes; handlers run on the main
 * thread, and promises settle there when it has time for them.
 *
 * ```
 *   main thread    recv(tag, into) ── numbers ──>                                      computes ...                 ──> promise settles
 *   thread                            receive posted    RTS ── match ── READ into the main thread's memory ── ATS       when it is free
 * ```
 * A call costs some microseconds more than a worker of the main thread, because it crosses threads; in return a large message is there when the
 * computation is over. Only numbers cross (progress-messages.ts): the thread works on the main thread's memory in place.
 */

import { Worker as Thread } from 'node:worker_threads';
import { loadAddon } from '../../native/load.js';
import { MessagingError, type MessagingErrorCode, PeerLost } from '../errors.js';
import { type ContextOptions, checkContextOptions, checkWorkerOptions, type WorkerOptions } from '../options.js';
import { type Data, payloadOf } from '../payload.js';
import type { CallOptions, Received } from '../request.js';
import { type Tag, tagHigh, tagLow, tagOf } from '../tag/tag.js';
import type { MemoryWords, ProgressCall, ProgressFailure, ProgressNews } from './progress-messages.js';

/** An active message as a handler of the main thread gets it: whole. */
export interface ProgressMessage {
  readonly endpoint: ProgressEndpoint;
  readonly header: Uint8Array;
  readonly data: Uint8Array;
}

/** Options of `openProgressWorker`. */
export interface ProgressWorkerOptions {
  /** As `openContext` takes them. */
  readonly context?: ContextOptions;
  /** As `context.createWorker` takes them. */
  readonly worker?: WorkerOptions;
}

interface Pending {
  resolve(values: readonly number[], words: string): void;
  reject(error: unknown): void;
  /** Keeps the memory alive while the thread works on it. */
  readonly memory: unknown;
}

type CallOf<T> = T extends { readonly id: number } ? Omit<T, 'id'> : never;

/** The way to one peer, through the thread. */
export class ProgressEndpoint {
  readonly id: number;
  /** Who is at the other side. */
  readonly peer: string;
  readonly #worker: ProgressWorker;

  constructor(worker: ProgressWorker, id: number, peer: string) {
    this.#worker = worker;
    this.id = id;
    this.peer = peer;
  }

  /** As Endpoint.send. The memory is one run of bytes: MSG_INVALID for pieces. */
  async send(tag: Tag, data: Data, options: CallOptions = {}): Promise<void> {
    const [memory, keep] = this.#worker.words(data);
    const call = {
      op: 'send',
      endpoint: this.id,
      lo: tagLow(tag),
      hi: tagHigh(tag),
      memory,
      timeoutMs: options.timeoutMs,
    } as const;
    await this.#worker.call(call, options, keep);
  }

  /** As Endpoint.am. */
  async am(handler: number, header: Uint8Array, data: Data, options: CallOptions = {}): Promise<void> {
    const [memory, keep] = this.#worker.words(data);
    await this.#worker.call(
      { op: 'am', endpoint: this.id, handler, header, memory, timeoutMs: options.timeoutMs },
      options,
      keep,
    );
  }

  /** As Endpoint.close. */
  async close(options: CallOptions & { force?: boolean } = {}): Promise<void> {
    await this.#worker.call({ op: 'closeEndpoint', endpoint: this.id, isForced: options.force ?? false }, options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Opens a messaging worker in a thread of its own. Throws what `openContext` and `createWorker` throw. */
export async function openProgressWorker(options: ProgressWorkerOptions = {}): Promise<ProgressWorker> {
  const { context = {}, worker = {} } = options;
  checkContextOptions(context);
  checkWorkerOptions(worker);
  const thread = new Thread(new URL('./progress-thread.js', import.meta.url), { workerData: { context, worker }, execArgv: [] });
  return new Promise((resolve, reject) => {
    const failed = (error: unknown) => reject(error);
    thread.once('error', failed);
    thread.once('message', (news: ProgressNews) => {
      thread.off('error', failed);
      if (news.kind === 'open') resolve(new ProgressWorker(thread, news.address));
      else reject(new MessagingError('MSG_INVALID', 'the progress thread did not open'));
    });
  });
}

export class ProgressWorker {
  /** What others need to connect to this worker. */
  readonly address: Uint8Array;
  /** Called with every endpoint that a peer made by this worker's address. */
  onEndpoint: ((endpoint: ProgressEndpoint) => void) | undefined;
  /** Errors of handlers and of messages nobody handles. Default: thrown as uncaught. */
  onError: ((error: unknown) => void) | undefined;
  readonly #thread: Thread;
  readonly #addon = loadAddon();
  readonly #pending = new Map<number, Pending>();
  readonly #endpoints = new Map<number, ProgressEndpoint>();
  readonly #handlers = new Map<number, (message: ProgressMessage) => void | Promise<void>>();
  readonly #listeners = new Map<string, (endpoint: ProgressEndpoint) => void>();
  #nextId = 1;
  #closed: Promise<void> | undefined;

  constructor(thread: Thread, address: Uint8Array) {
    this.#thread = thread;
    this.address = address;
    thread.on('message', (news: ProgressNews) => this.#hear(news));
    thread.on('error', (error) => this.#fail(error));
    thread.on('exit', () => this.#fail(new MessagingError('MSG_CLOSED', 'the progress worker is closed')));
    thread.unref();
  }

  #fail(error: unknown): void {
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
    this.#thread.unref();
  }

  #hear(news: ProgressNews): void {
    switch (news.kind) {
      case 'done':
        this.#take(news.id)?.resolve(news.values, news.words);
        return;
      case 'failed':
        this.#take(news.id)?.reject(errorOf(news.failure));
        return;
      case 'arrived': {
        const endpoint = this.#endpoint(news.endpoint, news.peer);
        if (news.listener === undefined) this.onEndpoint?.(endpoint);
        else this.#listeners.get(news.listener)?.(endpoint);
        return;
      }
      case 'am':
        this.#run(news.handler, { endpoint: this.#endpoint(news.endpoint, ''), header: news.header, data: news.data });
        return;
      case 'error':
        this.#unhandled(errorOf(news.failure));
    }
  }

  #run(id: number, message: ProgressMessage): void {
    try {
      const result = this.#handlers.get(id)?.(message);
      if (result instanceof Promise) result.catch((error: unknown) => this.#unhandled(error));
    } catch (error) {
      this.#unhandled(error);
    }
  }

  #unhandled(error: unknown): void {
    if (this.onError !== undefined) this.onError(error);
    else queueMicrotask(() => Promise.reject(error));
  }

  #take(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (this.#pending.size + this.#handlers.size + this.#listeners.size === 0) this.#thread.unref();
    return pending;
  }

  #endpoint(id: number, peer: string): ProgressEndpoint {
    let endpoint = this.#endpoints.get(id);
    if (endpoint === undefined) {
      endpoint = new ProgressEndpoint(this, id, peer);
      this.#endpoints.set(id, endpoint);
    }
    return endpoint;
  }

  /** Memory as numbers, and the object that keeps it alive. Throws MSG_INVALID for memory in pieces. */
  words(data: Data): [memory: MemoryWords, keep: unknown] {
    const { bytes, pieces } = payloadOf(data);
    if (pieces !== undefined)
      throw new MessagingError('MSG_INVALID', 'a progress worker takes one run of bytes: pack the pieces first');
    const { buffer, byteOffset, byteLength } = bytes;
    const base = byteLength === 0 ? 0 : this.#addon.addressOf(buffer as ArrayBuffer);
    return [{ base, size: buffer.byteLength, offset: byteOffset, length: byteLength }, buffer];
  }

  /** Asks the thread. Used by endpoints. */
  async call(
    call: CallOf<ProgressCall>,
    options: CallOptions = {},
    memory?: unknown,
  ): Promise<[values: readonly number[], words: string]> {
    const { signal } = options;
    signal?.throwIfAborted();
    if (this.#closed !== undefined && call.op !== 'close')
      throw new MessagingError('MSG_CLOSED', 'the progress worker is closed');
    const id = this.#nextId++;
    let isAborted = false;
    const abort = () => {
      isAborted = true;
      this.#thread.postMessage({ id: this.#nextId++, op: 'cancel', request: id } satisfies ProgressCall);
    };
    signal?.addEventListener('abort', abort, { once: true });
    try {
      return await new Promise((resolve, reject) => {
        this.#pending.set(id, { resolve: (values, words) => resolve([values, words]), reject, memory });
        this.#thread.ref();
        this.#thread.postMessage({ ...call, id } as ProgressCall);
      });
    } catch (error) {
      throw isAborted ? signal?.reason : error;
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }

  /** An endpoint to a name or an address, connected. Throws what connecting throws. */
  async connect(to: string | Uint8Array, options: CallOptions = {}): Promise<ProgressEndpoint> {
    const [[id], peer] = await this.call({ op: 'connect', to, timeoutMs: options.timeoutMs }, options);
    return this.#endpoint(id, peer);
  }

  /** Takes connections under a name. Throws VERBS_BUSY when it is taken. */
  async listen(name: string, arrived: (endpoint: ProgressEndpoint) => void): Promise<void> {
    this.#listeners.set(name, arrived);
    try {
      await this.call({ op: 'listen', name });
    } catch (error) {
      this.#listeners.delete(name);
      throw error;
    }
  }

  /** As Worker.recv; `source` is the number of the endpoint. */
  async recv(
    tag: Tag,
    into: Data,
    options: CallOptions & { readonly mask?: Tag; readonly from?: ProgressEndpoint } = {},
  ): Promise<Received> {
    const { mask, from, timeoutMs } = options;
    const [memory, keep] = this.words(into);
    const bits = { maskLo: mask === undefined ? -1 : tagLow(mask), maskHi: mask === undefined ? -1 : tagHigh(mask) };
    const call = { op: 'recv', lo: tagLow(tag), hi: tagHigh(tag), ...bits, from: from?.id ?? -1, memory, timeoutMs } as const;
    const [[length, lo, hi, source]] = await this.call(call, options, keep);
    return { length, tag: tagOf(lo | 0, hi | 0), source };
  }

  /** Installs a handler of active messages, which runs on this thread; undefined takes it away. */
  async handle(id: number, handler: ((message: ProgressMessage) => void | Promise<void>) | undefined): Promise<void> {
    if (handler === undefined) this.#handlers.delete(id);
    else this.#handlers.set(id, handler);
    await this.call({ op: 'handle', handler: id, isOn: handler !== undefined });
  }

  /** As Context.alloc: memory that peers reach without a copy through the kernel. It lives until the worker closes. */
  async alloc(byteLength: number): Promise<Uint8Array> {
    const [[base, size]] = await this.call({ op: 'alloc', bytes: byteLength });
    return new Uint8Array(this.#addon.viewAt(base, size), 0, byteLength);
  }

  /** Closes the worker and ends its thread. Memory of `alloc` must not be used any more. Idempotent. */
  close(options: { readonly force?: boolean } = {}): Promise<void> {
    this.#closed ??= this.#close(options.force ?? false);
    return this.#closed;
  }

  async #close(isForced: boolean): Promise<void> {
    this.#handlers.clear();
    this.#listeners.clear();
    await this.call({ op: 'close', isForced });
    await this.#thread.terminate();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function errorOf({ code, message, peer, operation }: ProgressFailure): Error {
  if (code === 'MSG_PEER_LOST' && peer !== undefined && operation !== undefined) {
    return Object.assign(new PeerLost(peer, operation, ''), { message });
  }
  return new MessagingError(code as MessagingErrorCode, message);
}
