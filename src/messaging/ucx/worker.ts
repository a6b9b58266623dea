/** A worker on UCX: a ucp_worker, its rings, and what its messages and the ends of its operations mean. */

import { randomBytes } from 'node:crypto';
import type { Context } from '../context.js';
import type { Endpoint } from '../endpoint.js';
import { MessagingError, PeerLost } from '../errors.js';
import type { WorkerOptions } from '../options.js';
import { type Payload, payloadOf } from '../payload.js';
import type { Explanation } from '../protocols/explanation.js';
import { PENDING, type RequestRow } from '../requests.js';
import { Worker } from '../worker.js';
import type { Pointer } from './addon.js';
import { Arrival } from './arrival.js';
import { UcxConnections } from './connections.js';
import { UcxEndings } from './endings.js';
import type { UcxEndpoint } from './endpoint.js';
import { explainUcx } from './explanation.js';
import type { UcxFabric } from './fabric.js';
import { UcxMessages } from './messages.js';
import { type AfterOperation, Operations } from './operations.js';
import { UcxPoller } from './poller.js';
import { UcxExposedMemory } from './remote-memory.js';
import { DATA_OFFER, EVENT_HEADER, type Rings, WORD_COPY_BYTES } from './rings.js';
import { UcxShares } from './shares.js';
import { UcxTags } from './tags.js';
import {
  CLOSE,
  CLOSED,
  CREDIT,
  ECHO,
  FETCHED,
  HELLO,
  MESSAGE,
  OFFER,
  PING,
  PONG,
  REFUSED,
  ROOM,
  SHARE,
  STREAM,
  STREAM_END,
  TAG,
  UNSHARE,
  W_ENDPOINT,
  W_KIND,
  W_LO,
  W_SEQUENCE,
  WELCOME,
} from './wire.js';

/** Payloads up to here travel in the rings; longer ones UCX takes from their memory. */
const INLINE_BYTES = 512;
/** Bytes of messages that every peer may send unasked. */
const WINDOW_BYTES = 262_144;
/** Turns that are given to what was said last. */
const LAST_TURNS = 100;

export class UcxWorker extends Worker {
  declare readonly endpoints: UcxEndpoint[];
  readonly fabric: UcxFabric;
  readonly tags: UcxTags;
  readonly shares: UcxShares;
  readonly messages: UcxMessages;
  readonly connections: UcxConnections;
  readonly endings: UcxEndings;
  readonly poller: UcxPoller;
  readonly rings: Rings;
  /** Bytes of tagged messages that may lie here beyond the store, of each peer. */
  readonly window: number;
  /** Endpoints that are connected. */
  readonly live: UcxEndpoint[] = [];
  readonly #operations = new Operations();
  readonly #arrival = new Arrival();
  readonly #keys = new Set<Pointer>();

  constructor(context: Context, fabric: UcxFabric, options: WorkerOptions) {
    super(context, options, randomBytes(8).toString('hex'));
    this.fabric = fabric;
    this.window = options.ringBytes ?? WINDOW_BYTES;
    try {
      this.poller = new UcxPoller(this, fabric.addon, fabric.context);
    } catch (status) {
      if (typeof status !== 'number') throw status;
      throw new MessagingError('MSG_UNSUPPORTED', `UCX makes no worker: ${fabric.words(status)}`);
    }
    this.rings = this.poller.rings;
    this.tags = new UcxTags(this);
    this.shares = new UcxShares(this);
    this.messages = new UcxMessages(this);
    this.endings = new UcxEndings(this);
    this.connections = new UcxConnections(this, fabric);
  }

  // ---- sending ----

  /**
   * Sends a payload; the header's words, and `extra` bytes behind them, stand in the rings. `flags`: SEND_RENDEZVOUS only announces it. Returns undefined when it
   * is complete, else its request: `begun`, or a new one of this kind.
   */
  post(
    endpoint: UcxEndpoint,
    kind: number,
    extra: number,
    payload: Payload,
    begun: RequestRow | undefined,
    flags: number,
  ): RequestRow | undefined {
    const { rings, requests } = this;
    const { length } = payload;
    let result: number;
    let memory: Uint8Array | undefined;
    if (length <= INLINE_BYTES && flags === 0) {
      const at = rings.inlineAt(extra);
      const { words } = payload;
      if (length <= WORD_COPY_BYTES && words.length << 2 === length) {
        for (let w = 0, to = at >> 2; w < words.length; w++) rings.commandWords[to + w] = words[w];
      } else {
        payload.pack(0, length, rings.commandBytes, at);
      }
      result = rings.sendInline(endpoint.way, extra, length);
    } else {
      memory = payload.pieces === undefined ? payload.bytes : gathered(payload);
      const address = memory === payload.bytes ? this.addressFor(payload) : this.fabric.addressOf(memory);
      result = rings.sendAt(endpoint.way, extra, address, length, flags);
    }
    if (result === 0) {
      if (begun !== undefined) requests.complete(begun);
      return undefined;
    }
    return this.posted(result, endpoint, kind, payload, memory, begun);
  }

  /** A send goes on, or failed: its request. */
  posted(
    result: number,
    endpoint: UcxEndpoint,
    kind: number,
    payload: Payload,
    memory: Uint8Array | undefined,
    begun: RequestRow | undefined,
  ): RequestRow {
    const row = begun ?? this.begin(endpoint, kind, payload);
    if (result > 0) this.track(result, memory, row.handle, undefined);
    else this.finish(row.handle, result);
    return row;
  }

  /** A request that sends a payload. */
  begin(endpoint: UcxEndpoint, kind: number, payload: Payload): RequestRow {
    const row = this.requests.begin(kind, payload);
    row.endpoint = endpoint.id;
    row.length = payload.length;
    return row;
  }

  /** A send on an endpoint that is not connected yet: `begin` is called when it is. Returns its request. */
  postWhenReady(endpoint: UcxEndpoint, kind: number, payload: Payload, begin: (row: RequestRow) => void): RequestRow {
    endpoint.check();
    endpoint.connect?.();
    const { requests } = this;
    const row = this.begin(endpoint, kind, payload);
    const { handle } = row;
    endpoint.pending.push(() => {
      if (requests.find(handle) === row && row.state === PENDING) begin(row);
    });
    return row;
  }

  /** Fetches the data of a message of an endpoint into the memory of a request, which ends with it. */
  fetch(endpoint: UcxEndpoint, row: RequestRow, dataKind: number, data: number, payload: Payload, length: number): void {
    const { handle } = row;
    const isDirect = payload.pieces === undefined;
    const memory = isDirect ? payload.bytes : new Uint8Array(length);
    const address = isDirect ? this.addressFor(payload) : this.fabric.addressOf(memory);
    const isOffer = dataKind === DATA_OFFER;
    const result = isOffer ? this.shares.copy(endpoint, data, address, length) : this.rings.take(dataKind, data, address, length);
    const over = (status: number) => {
      if (isOffer) this.shares.over(endpoint, data);
      if (!isDirect && status === 0) payload.unpack(0, length, memory, 0);
      this.finish(handle, status);
    };
    if (result <= 0) over(result);
    else if (isDirect && !isOffer) this.track(result, memory, handle, undefined);
    else this.track(result, memory, -1, over);
  }

  /** Nobody wants the data of a message. */
  discard(endpoint: UcxEndpoint, dataKind: number, data: number): void {
    if (dataKind === DATA_OFFER) this.shares.over(endpoint, data);
    else this.rings.discard(dataKind, data);
  }

  /** An operation goes on: its memory is kept, its end ends a request (unless that is -1) and is told. */
  track(operation: number, memory: Uint8Array | undefined, request: number, after: AfterOperation | undefined): void {
    this.#operations.begin(operation, memory, request, after);
  }

  /** An operation of UCX is over; what an atomic found stands at a word. */
  done(operation: number, status: number, words: Int32Array, at: number): void {
    const operations = this.#operations;
    const request = operations.request(operation);
    const after = operations.end(operation);
    if (request >= 0) this.finish(request, status);
    after?.(status, words, at);
  }

  /** Ends a request with a status of UCX, if it has not ended yet. */
  finish(handle: number, status: number): void {
    const { requests } = this;
    const row = requests.find(handle);
    if (row === undefined || row.state !== PENDING) return;
    if (status === 0) requests.complete(row);
    else {
      const { peer } = this.endpoints[row.endpoint];
      requests.fail(row, new PeerLost(peer, requests.describe(row), this.fabric.words(status)));
    }
  }

  // ---- what arrives ----

  /** A message came; it stands in the events at a word. */
  message(words: Int32Array, doubles: Float64Array, bytes: Uint8Array, word: number): void {
    const header = word + EVENT_HEADER;
    const kind = words[header + W_KIND] & 0xff;
    const arrival = this.#arrival;
    arrival.read(words, doubles, bytes, word);
    if (kind === HELLO || kind === REFUSED) {
      this.#hear(kind, undefined);
      return;
    }
    if (kind === ECHO) {
      this.connections.hearing.hush();
      return;
    }
    const endpoint = this.endpoints[words[header + W_ENDPOINT]];
    if (endpoint === undefined || endpoint.state === 'failed' || endpoint.state === 'closed') {
      this.rings.discard(arrival.dataKind, arrival.data);
      return;
    }
    const sequence = words[header + W_SEQUENCE];
    if (sequence !== endpoint.heard) {
      endpoint.early ??= new Map();
      endpoint.early.set(sequence, bytes.slice(word << 2, (word << 2) + words[word + 1]).buffer);
      return;
    }
    endpoint.heard = (sequence + 1) | 0;
    this.#dispatch(endpoint, kind);
    const next = endpoint.early?.get(endpoint.heard);
    if (next === undefined) return;
    endpoint.early?.delete(endpoint.heard);
    this.message(new Int32Array(next), new Float64Array(next), new Uint8Array(next), 0);
  }

  #dispatch(endpoint: UcxEndpoint, kind: number): void {
    const arrival = this.#arrival;
    const { words, header } = arrival;
    switch (kind) {
      case TAG:
        this.tags.arrived(endpoint, arrival);
        break;
      case OFFER:
        this.shares.read(arrival);
        this.tags.arrived(endpoint, arrival);
        break;
      case FETCHED:
        this.finish(words[header + W_LO], 0);
        break;
      case SHARE:
        this.shares.learn(endpoint, arrival);
        break;
      case UNSHARE:
        this.shares.unlearn(endpoint, words[header + W_LO]);
        break;
      case MESSAGE:
        this.messages.arrived(endpoint, arrival);
        break;
      case STREAM:
        endpoint.stream.onBytes(arrival.bytes, arrival.at, arrival.length, (words[header + W_KIND] & STREAM_END) !== 0);
        break;
      case CREDIT:
        endpoint.stream.onCredit(words[header + W_LO]);
        break;
      case ROOM:
        endpoint.onRoom(words[header + W_LO]);
        break;
      case WELCOME:
        this.#hear(kind, endpoint);
        break;
      case CLOSE:
        this.endings.closedByPeer(endpoint);
        break;
      case PING:
        endpoint.control(PONG);
        break;
      case PONG:
        break; // it was heard
      case CLOSED:
        for (const wake of endpoint.whenClosed.splice(0)) wake();
        break;
      default:
        this.rings.discard(arrival.dataKind, arrival.data);
        this.endings.fail(
          endpoint,
          new PeerLost(endpoint.peer, 'receiving', `it sent a message of kind ${kind}, which is not known here`),
        );
    }
  }

  #hear(kind: number, endpoint: UcxEndpoint | undefined): void {
    const { bytes, at, length } = this.#arrival;
    try {
      this.connections.heard(kind, bytes.subarray(at, at + length), endpoint);
    } catch (error) {
      this.unhandled(error);
    }
  }

  /** Sends what waited. Returns how many things went. */
  advance(): number {
    const { live } = this;
    let n = 0;
    for (let i = 0; i < live.length; i++) {
      const endpoint = live[i];
      if (!endpoint.waiting) continue;
      n += endpoint.stream.advanceAll();
      endpoint.waiting = endpoint.streamQueue.length > 0;
    }
    return n;
  }

  // ---- memory ----

  expose(memory: ArrayBuffer | ArrayBufferView): UcxExposedMemory {
    return new UcxExposedMemory(this.fabric, payloadOf(memory).bytes);
  }

  protected addressOf(bytes: Uint8Array): number {
    return this.fabric.addressOf(bytes);
  }

  /** Address of the bytes of a payload in one run. Throws MSG_INVALID when they are gone. */
  addressFor(payload: Payload): number {
    if (payload.bytes.length !== payload.length) {
      throw new MessagingError('MSG_INVALID', 'this memory is gone: its ArrayBuffer was transferred, or given back');
    }
    if (payload.address === 0) payload.address = this.fabric.addressOf(payload.bytes);
    return payload.address;
  }

  /** A peer's key, for as long as the worker is open. Throws MSG_INVALID. */
  unpackKey(endpoint: UcxEndpoint, packed: Uint8Array): Pointer {
    const key = this.fabric.addon.keyUnpack(this.rings.native.handle, endpoint.way, packed);
    if (key < 0) throw new MessagingError('MSG_INVALID', `the key of ${endpoint.peer} cannot be used. ${this.fabric.words(key)}`);
    this.#keys.add(key);
    return key;
  }

  releaseKey(key: Pointer): void {
    if (this.#keys.delete(key)) this.fabric.addon.keyRelease(key);
  }

  explain(endpoint: Endpoint, operation: 'tag' | 'am', bytes: number): Explanation {
    if (endpoint.state !== 'ready') {
      throw new MessagingError('MSG_INVALID', `the endpoint to ${endpoint.peer} is not connected: await ready() first`);
    }
    const { way } = endpoint as UcxEndpoint;
    const shared = operation === 'tag' ? this.shares.explain(endpoint as UcxEndpoint) : '';
    return explainUcx(operation, bytes, this.fabric.addon.describe(this.rings.native.handle, way), shared);
  }

  protected release(): void {
    // What was said last has to leave before the worker goes.
    this.#work();
    this.tags.close();
    this.shares.close();
    for (const key of this.#keys) this.releaseKey(key);
    this.connections.close();
    this.#work();
    this.poller.close();
  }

  #work(): void {
    for (let turn = 0; turn < LAST_TURNS; turn++) this.poller.poll();
  }
}

function gathered(payload: Payload): Uint8Array {
  const bytes = new Uint8Array(payload.length);
  payload.pack(0, payload.length, bytes, 0);
  return bytes;
}
