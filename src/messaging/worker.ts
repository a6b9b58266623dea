/**
 * A worker: the side of a program that sends and receives. It has endpoints, listeners and a port on every device of its context, and `poll` makes
 * everything happen; callbacks and promises are built on it.
 *
 * This file is what a program calls. Who is connected stands in connections.ts, what `poll` does in progress/poller.ts, how things end in endings.ts.
 * A worker belongs to one thread. It polls only devices that have endpoints, and nothing at all when nobody asks it to.
 */

import { randomBytes } from 'node:crypto';
import { type ActiveMessageHandler, ActiveMessages } from './am/active-messages.js';
import { Connections } from './connections.js';
import type { Context } from './context.js';
import { Endings } from './endings.js';
import type { Endpoint } from './endpoint.js';
import { MessagingError } from './errors.js';
import type { Listener } from './listener.js';
import { copyByAddress, NATIVE_COPY_BYTES } from './memory/native-copy.js';
import type { Registration } from './memory/registration-cache.js';
import { checkWorkerOptions, type WorkerOptions } from './options.js';
import type { RingReader, RingWriter } from './patterns/ring-region.js';
import { type Data, type Payload, payloadOf } from './payload.js';
import { Port } from './port.js';
import { Driver } from './progress/driver.js';
import { Poller } from './progress/poller.js';
import { type Explanation, explainSelection } from './protocols/explanation.js';
import type { Abilities } from './protocols/protocol.js';
import { type Selection, select } from './protocols/selection.js';
import { type CallOptions, late, type Received, Request, type WaitObserver } from './request.js';
import { DONE, FAILED, PENDING, RequestTable } from './requests.js';
import { EmulatedAtomics } from './rma/emulated-atomics.js';
import { ExposedMemory } from './rma/remote-memory.js';
import { RemoteOperations } from './rma/remote-operation.js';
import { ANY_SOURCE } from './tag/match-queue.js';
import { type Tag, tagHigh, tagLow, tagOf } from './tag/tag.js';
import { type Probed, TagEngine } from './tag/tag-engine.js';
import { Rendezvous } from './transfer/rendezvous.js';
import { INLINE_BYTES } from './wire/slot.js';
import { WireUp } from './wire-up.js';

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

/** Opens a worker and the services that take connections for it. */
export async function openWorker(context: Context, options: WorkerOptions): Promise<Worker> {
  checkWorkerOptions(options);
  const id = randomBytes(8).toString('hex');
  const ports: Port[] = [];
  try {
    for (const rail of context.rails) ports.push(new Port(rail, await rail.device.listen(`w/${id}/${rail.index}`)));
    return new Worker(context, options, id, ports);
  } catch (error) {
    for (const port of ports) port.close();
    throw error;
  }
}

export class Worker {
  readonly context: Context;
  /** 16 hexadecimal digits that nobody else has. */
  readonly id: string;
  /** How peers name this worker in their errors. */
  readonly label: string;
  readonly timeoutMs: number;
  readonly laneCount: number;
  readonly fragmentBytes: number;
  readonly options: WorkerOptions;
  /** By number of the rail. */
  readonly ports: readonly Port[];
  readonly requests = new RequestTable();
  readonly tags: TagEngine;
  readonly rendezvous: Rendezvous;
  readonly messages: ActiveMessages;
  readonly remoteOperations: RemoteOperations;
  readonly atomics: EmulatedAtomics;
  readonly connections: Connections;
  readonly endings: Endings;
  readonly poller: Poller;
  readonly driver: Driver;
  /** Errors of handlers and of messages nobody handles. Default: thrown as uncaught. */
  onError: ((error: unknown) => void) | undefined;
  /** By number; closed ones are undefined. */
  readonly endpoints: Endpoint[] = [];
  /** Of the receive that `test` found complete last. */
  lastLength = 0;
  lastTagLo = 0;
  lastTagHi = 0;
  lastSource = -1;
  /** Called with every endpoint that a peer made by this worker's address. */
  onEndpoint: ((endpoint: Endpoint) => void) | undefined;
  /** Told when a call begins to wait; what it returns is called when the wait is over. Ranks show it in stall reports. */
  onWait: WaitObserver | undefined;
  readonly #selections = new Map<Endpoint, Selection>();
  readonly #dropped: (registration: Registration) => void;
  #closed = false;
  #lastBytes: unknown;
  #lastPayload: Payload | undefined;

  constructor(context: Context, options: WorkerOptions, id: string, ports: readonly Port[]) {
    this.context = context;
    this.options = options;
    this.id = id;
    this.ports = ports;
    this.label = `${context.device.name} (process ${process.pid})`;
    this.timeoutMs = options.timeoutMs ?? 30_000;
    this.laneCount = options.lanes ?? 1;
    this.fragmentBytes = options.fragmentBytes ?? 512 << 10;
    this.tags = new TagEngine(this, this.requests, options.unexpectedBytes ?? 8 << 20, options.unexpectedMessages ?? 4096);
    this.rendezvous = new Rendezvous(this, this.requests);
    this.messages = new ActiveMessages(this, this.requests);
    this.remoteOperations = new RemoteOperations(this);
    this.atomics = new EmulatedAtomics(this);
    this.poller = new Poller(this, ports);
    this.driver = new Driver(this, options.mode ?? 'adaptive', options.spinUs ?? 50);
    const shape = { slots: options.ringSlots ?? 256, bulkBytes: options.ringBytes ?? 1 << 18 };
    const wireUp = new WireUp(this, shape, options.ring === 'immediate');
    this.endings = new Endings(this, wireUp);
    this.connections = new Connections(this, ports, wireUp);
    this.#dropped = (registration) => this.#forget(registration);
    for (const { registrations } of context.rails) registrations.dropped.add(this.#dropped);
  }

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

  /** Chooses the protocols of an endpoint, now that its rings and lanes are known. */
  #chooseProtocols(endpoint: Endpoint): void {
    const { costs } = endpoint.port.rail;
    const selection = select(costs, this.#abilities(endpoint, true), this.options);
    const inPieces = select(costs, this.#abilities(endpoint, false), {
      ...(this.options.rendezvousBytes === undefined ? {} : { rendezvousBytes: this.options.rendezvousBytes }),
    });
    this.#selections.set(endpoint, selection);
    endpoint.ranges = selection.ranges;
    endpoint.forced = this.options.protocol;
    endpoint.eagerMax = lastEager(selection);
    const zeroCopy = selection.ranges.find(({ protocol }) => protocol === 'eager-zcopy');
    endpoint.zeroCopyMin = Math.max(zeroCopy?.fromBytes ?? Number.POSITIVE_INFINITY, INLINE_BYTES + 1);
    endpoint.piecesEagerMax = lastEager(inPieces);
  }

  /** The endpoint is out of use. */
  forgetProtocols(endpoint: Endpoint): void {
    this.#selections.delete(endpoint);
  }

  /** The rings stand: what waited goes out. */
  becomeReady(endpoint: Endpoint): void {
    const { port } = endpoint;
    this.#chooseProtocols(endpoint);
    endpoint.state = 'ready';
    endpoint.lastHeard = performance.now();
    if (!endpoint.mapped) port.counted++;
    this.poller.live.push(endpoint);
    if (!port.rail.device.capabilities.peerDeath) this.endings.keepAlive();
    this.tags.advance(endpoint);
    for (const waiter of endpoint.whenReady.splice(0)) waiter.resolve();
    this.driver.start();
  }

  #abilities(endpoint: Endpoint, contiguous: boolean): Abilities {
    return {
      shortBytes: INLINE_BYTES,
      eagerBytes: endpoint.messagesOut.bulkBytes >> 2,
      directRing: endpoint.mapped,
      read: true,
      write: true,
      lanes: endpoint.plannedLanes,
      fragmentBytes: this.fragmentBytes,
      contiguous,
    };
  }

  /** See Endpoint.explain. */
  explain(endpoint: Endpoint, operation: 'tag' | 'am', bytes: number): Explanation {
    const selection = this.#selections.get(endpoint);
    if (selection === undefined) {
      throw new MessagingError('MSG_INVALID', `the endpoint to ${endpoint.peer} is not connected: await ready() first`);
    }
    return explainSelection(operation, bytes, endpoint.port.rail.costs, selection, endpoint.forced);
  }

  /** Memory is not registered any more. */
  #forget(registration: Registration): void {
    for (const { lanes } of this.ports) for (const { lane } of lanes.values()) lane.forget(registration);
    if (this.#lastPayload?.bytes.buffer === registration.buffer) {
      this.#lastBytes = undefined;
      this.#lastPayload = undefined;
    }
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

  /** Copies into the bulk part of a ring. */
  copyIn(payload: Payload, offset: number, length: number, ring: RingWriter, bulk: number): void {
    if (length >= NATIVE_COPY_BYTES && payload.address !== 0 && ring.address !== 0) {
      copyByAddress(ring.address + ring.bulkAt + bulk, payload.address + offset, length);
    } else {
      payload.pack(offset, length, ring.u8, ring.bulkAt + bulk);
    }
  }

  /** Copies out of the bulk part of a ring. */
  copyOut(payload: Payload, offset: number, length: number, ring: RingReader, bulk: number): void {
    if (length >= NATIVE_COPY_BYTES && payload.address !== 0 && ring.address !== 0) {
      copyByAddress(payload.address + offset, ring.address + ring.bulkAt + bulk, length);
    } else {
      payload.unpack(offset, length, ring.u8, ring.bulkAt + bulk);
    }
  }

  // ---- tag: synchronous form ----

  /**
   * Begins a send. Returns 0 when it is complete: the memory may be used again; else a handle for `test`. Context 0 is the user's; libraries use their own, so
   * that a wildcard of the user never takes their messages. Throws PeerLost, MSG_CLOSED.
   */
  postSend(endpoint: Endpoint, data: Data, tagLo: number, tagHi: number, context: number = USER_CONTEXT): number {
    const index = this.tags.send(
      endpoint,
      data === this.#lastBytes ? (this.#lastPayload as Payload) : this.payload(data),
      context,
      tagLo,
      tagHi,
    );
    return index < 0 || this.requests.state[index] === DONE ? this.#quick(index) : this.requests.handle(index) + 1;
  }

  #quick(index: number): number {
    if (index >= 0) this.requests.release(index);
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
    const payload = into === this.#lastBytes ? (this.#lastPayload as Payload) : this.payload(into);
    return this.requests.handle(this.tags.receive(payload, context, tagLo, tagHi, maskLo, maskHi, source)) + 1;
  }

  /**
   * Whether a request is complete; if so it is gone, and of a receive `lastLength`, `lastTagLo`, `lastTagHi`, `lastSource` tell the rest. Does not make
   * progress: call `poll`. Throws the request's error, and MSG_INVALID for a handle that is none.
   */
  test(handle: number): boolean {
    if (handle === 0) return true;
    const { requests } = this;
    const index = requests.find(handle - 1);
    if (index < 0) throw new MessagingError('MSG_INVALID', 'this handle names no request: it was complete already');
    const state = requests.state[index];
    if (state === PENDING) return false;
    this.lastLength = requests.length[index];
    this.lastTagLo = requests.tagLo[index];
    this.lastTagHi = requests.tagHi[index];
    this.lastSource = requests.source[index];
    const error = requests.error[index];
    requests.release(index);
    if (state === FAILED && error !== undefined) throw error;
    return true;
  }

  /** Takes a receive back that has not matched; it ends with MSG_CANCELLED. False when it is too late. */
  cancel(handle: number): boolean {
    const index = this.requests.find(handle - 1);
    return index >= 0 && this.tags.cancel(index);
  }

  /** The payload of data; the one used last is remembered. */
  payload(data: Data): Payload {
    const payload = payloadOf(data);
    if (payload.length >= NATIVE_COPY_BYTES && payload.pieces === undefined) {
      const address = this.context.registrations.permanentAddress(payload.bytes.buffer);
      if (address !== 0) payload.address = address + payload.bytes.byteOffset;
    }
    this.#lastBytes = data;
    this.#lastPayload = payload;
    return payload;
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
    const index = this.requests.find(handle - 1);
    const request = new Request(this, handle, done);
    this.driver.join();
    if (this.requests.state[index] === PENDING) {
      this.requests.owner[index] = request;
      if (done !== undefined) this.driver.start();
    } else {
      request.completed(this.requests, index);
      this.requests.release(index);
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
      this.tags.cancel(this.requests.find(handle - 1), from.failure);
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
        if (taken) throw new MessagingError('MSG_INVALID', 'this message was received already');
        taken = true;
        const index = this.tags.receiveClaimed(payloadOf(into), context, found, kept);
        return this.own(this.requests.handle(index) + 1).wait(callOptions);
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
    const payload = data === this.#lastBytes ? (this.#lastPayload as Payload) : this.payload(data);
    const index = this.messages.send(endpoint, handler, header, payload);
    return index < 0 ? 0 : this.requests.handle(index) + 1;
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

  /**
   * Lets peers reach memory: `pack()` the result and pass it on. Atomics: words of memory of `context.alloc` are changed by the device, those of
   * other memory by this worker when it makes progress.
   */
  expose(memory: ArrayBuffer | ArrayBufferView): ExposedMemory {
    return new ExposedMemory(this, payloadOf(memory).bytes);
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
    await Promise.all(
      this.endpoints.filter((endpoint) => endpoint !== undefined).map((endpoint) => this.endings.close(endpoint, options)),
    );
    this.#closed = true;
    this.endings.stop();
    for (const index of this.requests.rows()) {
      this.requests.fail(index, new MessagingError('MSG_CLOSED', 'the worker was closed'));
    }
    this.messages.close();
    this.driver.stop();
    for (const { registrations } of this.context.rails) registrations.dropped.delete(this.#dropped);
    for (const port of this.ports) port.close();
    this.context.forget(this);
  }
}

/** The longest message that goes eager. */
function lastEager(selection: Selection): number {
  let most = -1;
  for (const range of selection.ranges) {
    if (!range.protocol.startsWith('eager')) break;
    most = range.toBytes - 1;
  }
  return Math.min(most, 2 ** 30);
}
