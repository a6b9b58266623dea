/**
 * A worker: endpoints, listeners, and `poll`, which makes everything happen. Callbacks and promises are built on it.
 *
 * ```
 *   poll():  for every endpoint      messages ring ──> tag matching        transfers ring ──> handlers by kind
 *                                    what waits for room goes on
 *            completion queue        READs, WRITEs, immediates, failures   (looked at when something is outstanding, else now and then)
 * ```
 * A worker belongs to one thread. It polls only endpoints that exist, and nothing at all when nobody asks it to.
 */

import { randomBytes } from 'node:crypto';
import {
  type CompletionQueue,
  type ConnectionRequest,
  type MemoryRegion,
  VerbsError,
  type Listener as VerbsListener,
  WC_RECV,
  WC_RECV_RDMA_WITH_IMM,
  WorkCompletions,
} from '../verbs/index.js';
import { type ActiveMessageHandler, ActiveMessages } from './am/active-messages.js';
import type { Context } from './context.js';
import { Endpoint, IMM_MESSAGES, IMM_TRANSFERS } from './endpoint.js';
import { MessagingError, PeerLost } from './errors.js';
import type { Lane } from './lane.js';
import { Listener } from './listener.js';
import { copyByAddress, NATIVE_COPY_BYTES } from './memory/native-copy.js';
import { checkWorkerOptions, type WorkerOptions } from './options.js';
import type { RingReader, RingWriter } from './patterns/ring-region.js';
import { type Data, type Payload, payloadOf } from './payload.js';
import { Driver } from './progress/driver.js';
import { type Explanation, explainSelection } from './protocols/explanation.js';
import type { Abilities } from './protocols/protocol.js';
import { type Selection, select } from './protocols/selection.js';
import { Rendezvous } from './rendezvous.js';
import { type CallOptions, type Received, Request } from './request.js';
import { DONE, FAILED, KIND_AM, KIND_RECV, PENDING, RequestTable } from './requests.js';
import { AtomicResults, ExposedMemory } from './rma/remote-memory.js';
import { ANY_SOURCE } from './tag/match-queue.js';
import { type Tag, tagHigh, tagLow, tagOf } from './tag/tag.js';
import { type Probed, TagEngine } from './tag/tag-engine.js';
import { decodeAddress, encodeAddress } from './wire/hello.js';
import {
  AM,
  AM_RTS,
  ATP,
  ATS,
  CLOSE,
  CLOSED,
  CREDIT,
  DATA,
  INLINE_BYTES,
  PING,
  PONG,
  PULL,
  RTR,
  RTS,
  S_KIND,
  S_LENGTH,
  S_TAG_HI,
  S_TAG_LO,
  STREAM,
  STREAM_CREDIT,
  UNPULL,
} from './wire/slot.js';
import { connectFailure, WireUp } from './wire-up.js';

/** Idle polls between two looks at the completion queue, less one. */
const IDLE_MASK = 255;
const BATCH = 64;
const CQ_DEPTH = 16_384;
const ATOMICS_AT_ONCE = 512;
/** Puts up to this size are taken at once: their memory may be used again when the call returns. */
const SMALL_PUT_BYTES = 256;
/** How long a closing endpoint waits for the peer's answer; without it the memory of its rings is kept until the context closes. */
const CLOSE_ANSWER_MS = 250;
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

/** Opens a worker and the service that takes connections for it. */
export async function openWorker(context: Context, options: WorkerOptions): Promise<Worker> {
  checkWorkerOptions(options);
  const id = randomBytes(8).toString('hex');
  const service = await context.device.listen(`w/${id}`);
  return new Worker(context, options, id, service);
}

export class Worker {
  readonly context: Context;
  /** 16 hexadecimal digits that nobody else has. */
  readonly id: string;
  /** The name under which the worker takes connections by address. */
  readonly service: string;
  /** How peers name this worker in their errors. */
  readonly label: string;
  readonly timeoutMs: number;
  readonly laneCount: number;
  readonly fragmentBytes: number;
  readonly options: WorkerOptions;
  readonly cq: CompletionQueue;
  /** The word that senders look at: 1 while this worker sleeps. */
  readonly mailbox: MemoryRegion;
  /** Memory for requests that carry nothing. */
  readonly scratch: MemoryRegion;
  readonly requests = new RequestTable();
  readonly tags: TagEngine;
  readonly rendezvous: Rendezvous;
  readonly messages: ActiveMessages;
  readonly atomicResults: AtomicResults;
  /** Errors of handlers and of messages nobody handles. Default: thrown as uncaught. */
  onError: ((error: unknown) => void) | undefined;
  readonly driver: Driver;
  /** By number; closed ones are undefined. */
  readonly endpoints: Endpoint[] = [];
  /** READs, WRITEs and atomics under way: while there are some, every poll looks at the completion queue. */
  operations = 0;
  /** Of the receive that `test` found complete last. */
  lastLength = 0;
  lastTagLo = 0;
  lastTagHi = 0;
  lastSource = -1;
  /** Called with every endpoint that a peer made by this worker's address. */
  onEndpoint: ((endpoint: Endpoint) => void) | undefined;
  /** True while `poll` runs: a poll from within a handler does nothing. */
  polling = false;
  readonly #live: Endpoint[] = [];
  readonly #lanes = new Map<number, { endpoint: Endpoint; lane: Lane }>();
  readonly #sources = new Map<string, number>();
  readonly #bySource: (Endpoint | undefined)[] = [];
  readonly #wireUp: WireUp;
  readonly #armed: Int32Array;
  readonly #wcs = new WorkCompletions(32);
  readonly #service: VerbsListener;
  readonly #listeners = new Set<Listener>();
  readonly #selections = new Map<Endpoint, Selection>();
  #counted = 0;
  #turn = 0;
  #closed = false;
  #lastBytes: unknown;
  #lastPayload: Payload | undefined;
  #keepalive: NodeJS.Timeout | undefined;

  constructor(context: Context, options: WorkerOptions, id: string, service: VerbsListener) {
    const { device, pd } = context;
    this.context = context;
    this.options = options;
    this.id = id;
    this.service = service.target;
    this.label = `${device.name} (process ${process.pid})`;
    this.timeoutMs = options.timeoutMs ?? 30_000;
    this.laneCount = options.lanes ?? 1;
    this.fragmentBytes = options.fragmentBytes ?? 512 << 10;
    this.cq = device.createCq({ depth: CQ_DEPTH, mode: 'event' });
    this.mailbox = pd.register(device.alloc(64), { remoteWrite: true });
    this.scratch = pd.register(device.alloc(SMALL_PUT_BYTES), { localWrite: true });
    this.#armed = new Int32Array(this.mailbox.bytes.buffer, this.mailbox.bytes.byteOffset, 16);
    this.tags = new TagEngine(this, this.requests, options.unexpectedBytes ?? 8 << 20, options.unexpectedMessages ?? 4096);
    this.rendezvous = new Rendezvous(this, this.requests);
    this.messages = new ActiveMessages(this, this.requests);
    this.atomicResults = new AtomicResults(pd.register(device.alloc(ATOMICS_AT_ONCE * 8), { localWrite: true }));
    this.driver = new Driver(this, options.mode ?? 'adaptive', options.spinUs ?? 50);
    const shape = { slots: options.ringSlots ?? 256, bulkBytes: options.ringBytes ?? 1 << 18 };
    this.#wireUp = new WireUp(this, shape, options.ring === 'immediate');
    this.#service = service;
    void this.#serve(service, (endpoint) => this.onEndpoint?.(endpoint));
  }

  // ---- connecting ----

  /** What others need to connect to this worker: bytes, to be passed on by any means. The first byte is the version. */
  get address(): Uint8Array {
    return encodeAddress({ provider: this.context.device.provider, target: this.service, workerId: this.id });
  }

  /**
   * An endpoint to whoever listens under a name, or to the worker of an address blob. Nothing happens until it is used (`ready()` counts as use). An
   * address that this worker has an endpoint to already gives that one. Throws MSG_INVALID for a bad address, MSG_CLOSED.
   */
  connect(to: string | Uint8Array): Endpoint {
    this.#check();
    let name: string;
    if (typeof to === 'string') {
      name = to;
    } else {
      const address = decodeAddress(to);
      const own = this.context.device.provider;
      if (address.provider !== own) {
        throw new MessagingError(
          'MSG_INVALID',
          `the address is of a worker on '${address.provider}', this one is on '${own}': open the same device on both sides`,
        );
      }
      name = address.target;
      const source = this.#sources.get(address.workerId);
      const known = source === undefined ? undefined : this.#bySource[source];
      if (known?.state === 'ready' && !known.closedByPeer) return known;
    }
    const endpoint = this.makeEndpoint(`'${name}'`);
    endpoint.connect = () => {
      endpoint.connect = undefined;
      endpoint.state = 'connecting';
      this.#wireUp.initiate(endpoint, name, Math.min(this.timeoutMs, 2 ** 31 - 1)).catch((error: unknown) => {
        this.fail(endpoint, connectFailure(endpoint.peer, error));
      });
    };
    return endpoint;
  }

  /** Takes connections under a name. Throws VERBS_BUSY when it is taken. */
  async listen(name: string): Promise<Listener> {
    this.#check();
    const verbs = await this.context.device.listen(name);
    const listener = new Listener(name, verbs, this.timeoutMs);
    this.#listeners.add(listener);
    void this.#serve(verbs, (endpoint) => listener.push(endpoint));
    return listener;
  }

  async #serve(listener: VerbsListener, arrived: (endpoint: Endpoint) => void): Promise<void> {
    try {
      for await (const request of listener) void this.#accept(request, arrived);
    } catch (error) {
      if (!this.#closed && !(VerbsError.is(error) && error.code === 'VERBS_CLOSED')) throw error;
    }
  }

  async #accept(request: ConnectionRequest, arrived: (endpoint: Endpoint) => void): Promise<void> {
    try {
      const endpoint = await this.#wireUp.accept(request);
      if (endpoint !== undefined) arrived(endpoint);
    } catch (error) {
      // When the initiator gave up or died meanwhile, it has its own error.
      if (MessagingError.is(error) && error.code === 'MSG_INVALID') this.unhandled(error);
    }
  }

  /** A new endpoint. Called by the wiring. */
  makeEndpoint(peer: string): Endpoint {
    const hole = this.endpoints.findIndex((endpoint) => !endpoint);
    const id = hole >= 0 ? hole : this.endpoints.length;
    const endpoint = new Endpoint(this, id, peer);
    this.endpoints[id] = endpoint;
    return endpoint;
  }

  /** The peer's number: the same for all endpoints to one worker. */
  identify(endpoint: Endpoint, workerId: string): void {
    let source = this.#sources.get(workerId);
    if (source === undefined) {
      source = this.#bySource.length;
      this.#sources.set(workerId, source);
      this.#bySource.push(endpoint);
    } else if (this.#bySource[source]?.state !== 'ready') {
      this.#bySource[source] = endpoint;
    }
    endpoint.source = source;
  }

  /** An endpoint to the peer that a message came from, or undefined when there is none any more. */
  endpointOf(source: number): Endpoint | undefined {
    return this.#bySource[source];
  }

  addLane(endpoint: Endpoint, lane: Lane): void {
    this.#lanes.set(lane.qp.qpNum, { endpoint, lane });
  }

  removeLane(lane: Lane): void {
    this.#lanes.delete(lane.qp.qpNum);
  }

  /** Chooses the protocols of an endpoint, now that its rings and lanes are known. */
  chooseProtocols(endpoint: Endpoint): void {
    const selection = select(this.context.costs, this.#abilities(endpoint, true), this.options);
    const inPieces = select(this.context.costs, this.#abilities(endpoint, false), {
      ...(this.options.rendezvousBytes === undefined ? {} : { rendezvousBytes: this.options.rendezvousBytes }),
    });
    this.#selections.set(endpoint, selection);
    endpoint.ranges = selection.ranges;
    endpoint.forced = this.options.protocol;
    endpoint.eagerMax = lastEager(selection);
    endpoint.piecesEagerMax = lastEager(inPieces);
  }

  /** The rings stand: what waited goes out. */
  becomeReady(endpoint: Endpoint): void {
    this.chooseProtocols(endpoint);
    endpoint.state = 'ready';
    endpoint.lastHeard = performance.now();
    if (!endpoint.mapped) this.#counted++;
    this.#live.push(endpoint);
    if (!this.context.device.capabilities.peerDeath) this.#startKeepalive();
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
    return explainSelection(operation, bytes, this.context.costs, selection, endpoint.forced);
  }

  /** See Endpoint.ready. */
  async whenReady(endpoint: Endpoint, options: CallOptions): Promise<void> {
    const { signal, timeoutMs = this.timeoutMs } = options;
    signal?.throwIfAborted();
    if (endpoint.state === 'ready') return;
    if (endpoint.state !== 'connecting') endpoint.check();
    await new Promise<void>((resolve, reject) => {
      const end = (act: () => void) => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        const at = endpoint.whenReady.indexOf(waiter);
        if (at >= 0) endpoint.whenReady.splice(at, 1);
        act();
      };
      const waiter = { resolve: () => end(resolve), reject: (error: Error) => end(() => reject(error)) };
      const abort = () => end(() => reject(signal?.reason));
      const late = () => new MessagingError('MSG_TIMEOUT', `no connection to ${endpoint.peer} within ${timeoutMs} ms`);
      const timer = timeoutMs === Number.POSITIVE_INFINITY ? undefined : setTimeout(() => end(() => reject(late())), timeoutMs);
      signal?.addEventListener('abort', abort, { once: true });
      endpoint.whenReady.push(waiter);
      endpoint.connect?.();
    });
  }

  // ---- progress ----

  /**
   * Makes progress; returns how many things happened. Never blocks. Everything else, callbacks and promises, is built on this call. Throws
   * VERBS_CLOSED on a closed worker.
   */
  poll(): number {
    // A handler that waits would otherwise take the message again that it is being called for.
    if (this.polling) return 0;
    this.polling = true;
    try {
      let n = this.#pollRings();
      if (this.operations > 0 || this.#counted > 0 || (++this.#turn & IDLE_MASK) === 0) n += this.#pollQueue();
      return n;
    } finally {
      this.polling = false;
    }
  }

  #pollRings(): number {
    const live = this.#live;
    let n = 0;
    for (let i = 0; i < live.length; i++) {
      const endpoint = live[i];
      if (!endpoint.stuck && endpoint.messagesIn.peek() >= 0) n += this.#takeMessages(endpoint);
      else if (endpoint.stuck) n += this.#retry(endpoint);
      if (endpoint.transfersIn.peek() >= 0) n += this.#takeTransfers(endpoint);
      if (endpoint.waiting) n += this.#advance(endpoint);
    }
    return n;
  }

  /** The same, under the name of UCX. */
  progress(): number {
    return this.poll();
  }

  #takeMessages(endpoint: Endpoint): number {
    const n = this.tags.takeMessages(endpoint);
    if (endpoint.messagesIn.takeStarved()) endpoint.control(CREDIT, 0, 0);
    if (!endpoint.mapped) endpoint.returnCredits(endpoint.messagesIn.peek() < 0);
    return n;
  }

  /** A stuck head: nothing changes until the store has room, but receives were perhaps posted. */
  #retry(endpoint: Endpoint): number {
    return this.tags.posted > 0 ? this.tags.scan(endpoint) : 0;
  }

  #takeTransfers(endpoint: Endpoint): number {
    const reader = endpoint.transfersIn;
    let n = 0;
    while (n < BATCH) {
      const slot = reader.peek();
      if (slot < 0) break;
      const length = reader.i32[slot + S_LENGTH];
      const kind = reader.i32[slot + S_KIND] & 0xff;
      this.#dispatch(endpoint, reader, slot, kind);
      if (endpoint.state !== 'ready' && endpoint.state !== 'closing') return n;
      reader.release(
        kind === DATA || kind === AM || kind === AM_RTS || kind === STREAM ? (length > INLINE_BYTES ? length : 0) : 0,
      );
      n++;
    }
    endpoint.lastHeard = this.#keepalive === undefined ? 0 : performance.now();
    if (reader.takeStarved()) endpoint.control(CREDIT, 0, 0);
    if (!endpoint.mapped) endpoint.returnCredits(reader.peek() < 0);
    return n;
  }

  #dispatch(endpoint: Endpoint, reader: RingReader, slot: number, kind: number): void {
    const { i32 } = reader;
    switch (kind) {
      case RTS:
        this.tags.onOffer(endpoint, i32, slot);
        break;
      case RTR:
        this.rendezvous.onRtr(endpoint, i32, slot);
        break;
      case ATS:
        this.rendezvous.onAts(endpoint, i32[slot + S_TAG_LO], i32[slot + S_TAG_HI]);
        break;
      case ATP:
        this.rendezvous.onAtp(endpoint, i32[slot + S_TAG_LO], i32[slot + S_TAG_HI]);
        break;
      case DATA:
        this.rendezvous.onData(endpoint, i32, slot);
        break;
      case PULL:
        this.tags.onPull(endpoint, i32, slot);
        break;
      case UNPULL:
        this.tags.onUnpull(endpoint, i32[slot + S_TAG_LO]);
        break;
      case CREDIT:
      case PONG:
        break; // the wake-up was all
      case PING:
        endpoint.control(PONG, 0, 0);
        break;
      case CLOSE:
        endpoint.closedByPeer = true;
        endpoint.control(CLOSED, 0, 0);
        this.#closedByPeer(endpoint);
        break;
      case CLOSED:
        endpoint.peerIsDone = true;
        for (const wake of endpoint.whenClosed.splice(0)) wake();
        break;
      case AM:
        this.messages.onMessage(endpoint, reader, slot);
        break;
      case AM_RTS:
        this.messages.onAnnouncement(endpoint, reader, slot);
        break;
      case STREAM:
        endpoint.stream.onBytes(reader, slot);
        break;
      case STREAM_CREDIT:
        endpoint.stream.onCredit(i32, slot);
        break;
      default:
        this.fail(
          endpoint,
          new PeerLost(endpoint.peer, 'receiving', `it sent a message of kind ${kind}, which is not known here`),
        );
    }
  }

  /** Sends what waits for room. */
  #advance(endpoint: Endpoint): number {
    if (endpoint.state !== 'ready' && endpoint.state !== 'closing') return 0;
    let n = 0;
    if (!endpoint.flushControls()) return n;
    const queue = endpoint.transferQueue;
    while (queue.length > 0) {
      const index = this.requests.find(queue[0]);
      if (index >= 0 && this.requests.state[index] === PENDING && !this.#advanceTransfer(endpoint, index)) break;
      queue.shift();
      n++;
    }
    const streams = endpoint.streamQueue;
    while (streams.length > 0) {
      const index = this.requests.find(streams[0]);
      if (index >= 0 && this.requests.state[index] === PENDING && !endpoint.stream.advance(index)) break;
      streams.shift();
      n++;
    }
    n += this.tags.advance(endpoint);
    endpoint.waiting = endpoint.controls.length + queue.length + streams.length + endpoint.pending.length > 0;
    return n;
  }

  #advanceTransfer(endpoint: Endpoint, index: number): boolean {
    if (this.requests.kind[index] === KIND_AM) return this.messages.advance(endpoint, index);
    return this.rendezvous.advanceData(endpoint, index);
  }

  /** Takes completions, so that the send queues do not fill up. */
  reap(): void {
    if (!this.polling) this.#pollQueue();
  }

  #pollQueue(): number {
    const { cq } = this;
    const wcs = this.#wcs;
    const n = cq.poll(wcs);
    let woken = false;
    for (let i = 0; i < n; i++) {
      const known = this.#lanes.get(wcs.qpNum[i]);
      if (known === undefined) continue;
      const { endpoint, lane } = known;
      const status = wcs.status[i];
      if (status !== 0) {
        const words = cq.cause(wcs.causeId[i])?.words ?? 'the queue pair failed';
        if (wcs.opcode[i] < WC_RECV && wcs.id[i] > 0) lane.completed(wcs.id[i], status, words);
        this.laneClosed(endpoint, lane, words);
      } else if (wcs.opcode[i] === WC_RECV_RDMA_WITH_IMM) {
        if (wcs.imm[i] === IMM_MESSAGES) endpoint.messagesIn.arrived++;
        else if (wcs.imm[i] === IMM_TRANSFERS) endpoint.transfersIn.arrived++;
        else woken = true;
        lane.postReceives(1);
      } else if (wcs.id[i] > 0) {
        lane.completed(wcs.id[i], 0, '');
      } else if (!endpoint.mapped) {
        endpoint.ringCompleted();
      }
    }
    if (woken && this.driver.asleep) {
      // This poll took the wake-up that was meant for the sleeping driver: ask for another, and look for what came in between.
      Atomics.store(this.#armed, 0, 1);
      return n + this.#pollRings();
    }
    return n;
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

  // ---- sleeping, for the driver ----

  /** Prepares to sleep. False when there is something to do after all. */
  arm(): boolean {
    Atomics.store(this.#armed, 0, 1);
    for (const endpoint of this.#live) {
      if (endpoint.waiting) {
        endpoint.messagesOut.declareStarved();
        endpoint.transfersOut.declareStarved();
      }
      if (endpoint.messagesIn.takeStarved() || endpoint.transfersIn.takeStarved()) endpoint.control(CREDIT, 0, 0);
      if (!endpoint.mapped) endpoint.returnCredits(true);
    }
    this.#turn = IDLE_MASK; // the next poll looks at the completion queue too
    if (this.poll() === 0) return true;
    this.disarm();
    return false;
  }

  /** Something was begun while the worker sleeps: the peers must know what it waits for. */
  kick(): void {
    Atomics.store(this.#armed, 0, 1);
    for (const endpoint of this.#live) {
      if (!endpoint.waiting) continue;
      endpoint.messagesOut.declareStarved();
      endpoint.transfersOut.declareStarved();
    }
    this.poll();
  }

  disarm(): void {
    Atomics.store(this.#armed, 0, 0);
  }

  /** Sleeps until somebody wakes this worker. */
  async asleep(): Promise<void> {
    try {
      await this.cq.ready();
    } catch (error) {
      if (!this.#closed) throw error;
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
    return this.own(
      this.postRecv(into, tagLow(tag), tagHigh(tag), maskLo, maskHi, from === undefined ? ANY_SOURCE : from.source, context),
      done,
    );
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

  /** Lets peers reach memory: `pack()` the result and pass it on. Memory of `context.alloc` takes atomics too. */
  expose(memory: ArrayBuffer | ArrayBufferView): ExposedMemory {
    return new ExposedMemory(this, payloadOf(memory).bytes);
  }

  /** A wait of its own kind: `begin` is given the function that ends it. */
  waitFor(what: string, options: CallOptions, begin: (settle: () => void) => void): Promise<void> {
    const { signal, timeoutMs = this.timeoutMs } = options;
    signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      let over = false;
      const end = (act: () => void) => {
        if (over) return;
        over = true;
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        this.driver.leave();
        act();
      };
      const abort = () => end(() => reject(signal?.reason));
      const late = () => new MessagingError('MSG_TIMEOUT', `${what} was not over within ${timeoutMs} ms`);
      const timer = timeoutMs === Number.POSITIVE_INFINITY ? undefined : setTimeout(() => end(() => reject(late())), timeoutMs);
      signal?.addEventListener('abort', abort, { once: true });
      this.driver.join();
      begin(() => end(resolve));
      this.driver.start();
    });
  }

  // ---- failing and closing ----

  /** A lane is gone. The first takes the endpoint with it, a further one only its share. */
  laneClosed(endpoint: Endpoint, lane: Lane, reason: string): void {
    if (!lane.alive) return;
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

  /** Takes an endpoint out of use and fails everything that depends on it. */
  fail(endpoint: Endpoint, error: Error): void {
    if (endpoint.state === 'failed' || endpoint.state === 'closed') return;
    endpoint.state = 'failed';
    endpoint.failure = error;
    this.#retire(endpoint, (index) => {
      const operation = this.requests.describe(index);
      if (!(error instanceof PeerLost)) return error;
      return new PeerLost(error.peer, operation, error.message);
    });
    endpoint.failStream(error);
    for (const waiter of endpoint.whenReady.splice(0)) waiter.reject(error);
    for (const wake of endpoint.whenClosed.splice(0)) wake();
    if (endpoint.ringRegion !== undefined) this.#wireUp.tearDown(endpoint, true);
  }

  /** Removes an endpoint from progress and ends its requests. */
  #retire(endpoint: Endpoint, errorOf: (index: number) => Error): void {
    const { requests } = this;
    const at = this.#live.indexOf(endpoint);
    if (at >= 0) {
      this.#live.splice(at, 1);
      if (!endpoint.mapped) this.#counted--;
    }
    endpoint.ringCompleted(true);
    this.tags.forgetStuck(endpoint);
    this.#selections.delete(endpoint);
    if (endpoint.source >= 0 && this.#bySource[endpoint.source] === endpoint) {
      this.#bySource[endpoint.source] = this.#live.find((other) => other.source === endpoint.source);
    }
    this.tags.dropRendezvousOf(endpoint);
    const alone = endpoint.source >= 0 && this.#bySource[endpoint.source] === undefined;
    const orphans = alone ? this.tags.receivesFrom(endpoint.source) : [];
    for (const index of [...requests.rows().filter((row) => requests.endpoint[row] === endpoint.id), ...orphans]) {
      this.rendezvous.unpin(index);
      if (requests.state[index] === PENDING) requests.fail(index, errorOf(index));
    }
    endpoint.pending.length = 0;
    endpoint.pendingHead = 0;
    endpoint.transferQueue.length = 0;
    endpoint.streamQueue.length = 0;
    endpoint.controls.length = 0;
    endpoint.waiting = false;
  }

  /** The peer will send nothing more, and what is still to be sent cannot arrive. */
  #closedByPeer(endpoint: Endpoint): void {
    const { requests } = this;
    for (const index of requests.rows()) {
      if (requests.endpoint[index] === endpoint.id && requests.kind[index] !== KIND_RECV) {
        this.rendezvous.unpin(index);
        requests.fail(index, new PeerLost(endpoint.peer, requests.describe(index), 'it closed the endpoint'));
      }
    }
    endpoint.pending.length = 0;
    endpoint.pendingHead = 0;
    endpoint.failStream(new PeerLost(endpoint.peer, 'a stream', 'it closed the endpoint'));
  }

  /** See Endpoint.close. */
  async closeEndpoint(endpoint: Endpoint, options: CallOptions & { force?: boolean }): Promise<void> {
    const { force = false, timeoutMs = this.timeoutMs } = options;
    if (endpoint.state === 'closed' || endpoint.state === 'failed') return;
    if (endpoint.state === 'idle') {
      this.#finishClose(endpoint);
      return;
    }
    if (endpoint.state === 'connecting') await this.whenReady(endpoint, options).catch(() => undefined);
    if ((endpoint.state as string) === 'failed') return;
    if (!force) await this.#drain(endpoint, options);
    if (endpoint.state !== 'ready') return;
    endpoint.state = 'closing';
    endpoint.control(CLOSE, 0, 0);
    if (!force && !endpoint.closedByPeer) {
      await this.waitFor('closing', { timeoutMs: Math.min(CLOSE_ANSWER_MS, timeoutMs) }, (settle) => {
        endpoint.whenClosed.push(settle);
      }).catch(() => undefined);
    }
    this.#finishClose(endpoint, endpoint.peerIsDone);
  }

  /** Waits until everything that was begun on an endpoint is over and the peer has taken it. */
  async #drain(endpoint: Endpoint, options: CallOptions): Promise<void> {
    const isQuiet = () => {
      this.poll();
      if (endpoint.state !== 'ready' || endpoint.closedByPeer) return true;
      const { requests } = this;
      const busy = requests.rows().some((index) => requests.endpoint[index] === endpoint.id);
      return !busy && !endpoint.waiting && endpoint.messagesOut.isDrained && endpoint.transfersOut.isDrained;
    };
    const deadline = performance.now() + (options.timeoutMs ?? this.timeoutMs);
    while (!isQuiet()) {
      options.signal?.throwIfAborted();
      if (performance.now() > deadline) {
        throw new MessagingError(
          'MSG_TIMEOUT',
          `the endpoint to ${endpoint.peer} has unfinished requests, or messages that the peer has not taken: close it with force`,
        );
      }
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }

  #finishClose(endpoint: Endpoint, peerIsDone = true): void {
    if (endpoint.state === 'failed' || endpoint.state === 'closed') return;
    endpoint.state = 'closed';
    this.#retire(endpoint, () => new MessagingError('MSG_CLOSED', `the endpoint to ${endpoint.peer} was closed`));
    if (endpoint.ringRegion !== undefined) this.#wireUp.tearDown(endpoint, peerIsDone || endpoint.closedByPeer);
  }

  #startKeepalive(): void {
    const limit = this.options.keepaliveMs ?? 10_000;
    this.#keepalive ??= setInterval(() => {
      const now = performance.now();
      for (const endpoint of [...this.#live]) {
        if (now - endpoint.lastHeard > limit) {
          this.fail(endpoint, new PeerLost(endpoint.peer, 'an open endpoint', `nothing was heard for ${limit} ms`));
        } else {
          endpoint.control(PING, 0, 0);
        }
      }
    }, limit / 4).unref();
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
    for (const listener of this.#listeners) listener.close();
    await Promise.all(
      this.endpoints.filter((endpoint) => endpoint !== undefined).map((endpoint) => this.closeEndpoint(endpoint, options)),
    );
    this.#closed = true;
    clearInterval(this.#keepalive);
    this.#service.close();
    for (const index of this.requests.rows()) {
      this.requests.fail(index, new MessagingError('MSG_CLOSED', 'the worker was closed'));
    }
    this.messages.close();
    this.driver.stop();
    this.cq.close();
    for (const region of [this.mailbox, this.scratch, this.atomicResults.region]) region.deregister();
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
