/**
 * Tag matching over rings: what is sent, what is waited for, what came too early.
 *
 * Sender: a message that is eager goes into the ring at once; one that is not, or finds the ring full, waits as a request. Receiver: a message in
 * the ring takes the oldest receive that fits; without one it moves to the store of unexpected messages; when that is full it stays in the ring (the
 * endpoint is "stuck") and the sender runs out of credits.
 *
 * A stuck endpoint must not stop receives that could go on, so
 * - slots behind the stuck head are matched out of turn, and given back when their turn comes;
 * - a receive that finds nothing asks the stuck peers (PULL): the peer looks through the sends it holds back and offers the first that fits, by
 *   rendezvous on the other ring. A receive that was served meanwhile refuses the offer (UNPULL). While an offer is open the sender sends nothing that
 *   stands behind it, so the order of messages stays.
 */

import type { Probed, Tags } from '../engine.js';
import { MessagingError } from '../errors.js';
import type { RingReader } from '../patterns/ring-region.js';
import type { Payload } from '../payload.js';
import { protocolAt } from '../protocols/selection.js';
import { MOST_RAILS } from '../rail.js';
import { KIND_RECV, KIND_SEND, PENDING, type RequestTable } from '../requests.js';
import { Announcement, PATH_BYTES, rtsFlags } from '../transfer/announcement.js';
import type { VerbsEndpoint } from '../verbs-endpoint.js';
import type { VerbsWorker } from '../verbs-worker.js';
import {
  EAGER,
  INLINE_BYTES,
  PULL,
  RTS,
  RTS_PATHS,
  RTS_PIPELINE,
  S_BULK,
  S_KIND,
  S_LENGTH,
  S_PAYLOAD,
  S_TAG_HI,
  S_TAG_LO,
  UNPULL,
} from '../wire/slot.js';
import { ANY_SOURCE, PostedReceives, UnexpectedMessages } from './match-queue.js';
import { UnexpectedStore } from './unexpected-store.js';
import { ZeroCopyWrite } from './zero-copy-write.js';

/** Flag of a send that was offered out of turn. */
const PULLED = 1;
/** Messages taken from one ring in one poll, so that the others get their turn. */
const BATCH = 64;
const MOST_PATH_BYTES = (MOST_RAILS - 1) * PATH_BYTES;

export class TagEngine implements Tags {
  readonly store: UnexpectedStore;
  readonly #worker: VerbsWorker;
  readonly #requests: RequestTable;
  readonly #posted = new PostedReceives();
  readonly #unexpected = new UnexpectedMessages();
  readonly #stuck = new Set<VerbsEndpoint>();
  /** What the announcement under way says. */
  readonly announcement: Announcement = new Announcement();
  readonly #spareWrites: ZeroCopyWrite[] = [];
  /** Words 4 and on of an offer. */
  readonly #words = new Int32Array(8);

  constructor(worker: VerbsWorker, requests: RequestTable, maxBytes: number, maxCount: number) {
    this.#worker = worker;
    this.#requests = requests;
    this.store = new UnexpectedStore(maxBytes, maxCount);
  }

  // ---- sending ----

  /** Begins a send. Returns -1 when it is complete, else the row of its request. */
  send(endpoint: VerbsEndpoint, payload: Payload, context: number, lo: number, hi: number): number {
    if (endpoint.state === 'ready' && !endpoint.closedByPeer && endpoint.pending.length === 0) {
      if (this.#trySend(endpoint, payload, context, lo, hi)) return -1;
    } else {
      endpoint.check();
      endpoint.connect?.();
    }
    const index = this.#requests.begin(KIND_SEND, payload);
    this.#requests.context[index] = context;
    this.#requests.tagLo[index] = lo;
    this.#requests.tagHi[index] = hi;
    this.#requests.endpoint[index] = endpoint.id;
    this.#requests.length[index] = payload.length;
    endpoint.pending.push(this.#requests.handle(index));
    endpoint.waiting = true;
    if (endpoint.state === 'ready') {
      if (endpoint.pending.length - endpoint.pendingHead === 1) this.advance(endpoint);
      if (endpoint.pulls.size > 0) this.#offerNext(endpoint);
    }
    return index;
  }

  /** An eager send that needs no request. False: it is not eager, the device is to take it from the user's memory, or there is no room. */
  #trySend(endpoint: VerbsEndpoint, payload: Payload, context: number, lo: number, hi: number): boolean {
    const length = payload.length;
    if (length >= endpoint.zeroCopyMin && payload.pieces === undefined) return false;
    return this.#copyIn(endpoint, payload, context, lo, hi);
  }

  #copyIn(endpoint: VerbsEndpoint, payload: Payload, context: number, lo: number, hi: number): boolean {
    const length = payload.length;
    const ring = endpoint.messagesOut;
    let slot: number;
    if (length <= INLINE_BYTES) {
      if (endpoint.eagerMax < length) return false;
      slot = ring.reserve();
      if (slot < 0) return false;
      const words = payload.words;
      const i32 = ring.i32;
      if ((length & 3) === 0 && words.length === length >> 2) {
        for (let w = 0, to = slot + S_PAYLOAD; w < length >> 2; w++) i32[to + w] = words[w];
      } else {
        payload.pack(0, length, ring.u8, (slot + S_PAYLOAD) << 2);
      }
    } else {
      if (length > (payload.pieces === undefined ? endpoint.eagerMax : endpoint.piecesEagerMax)) return false;
      slot = ring.reserveBulk(length);
      if (slot < 0) return false;
      this.#worker.copyIn(payload, 0, length, ring, ring.bulkOffset);
      ring.i32[slot + S_BULK] = ring.bulkOffset;
    }
    const i32 = ring.i32;
    i32[slot + S_KIND] = EAGER | (context << 16);
    i32[slot + S_TAG_LO] = lo;
    i32[slot + S_TAG_HI] = hi;
    i32[slot + S_LENGTH] = length;
    ring.publish(slot);
    endpoint.announce();
    return true;
  }

  /** Sends what waits, in order, as far as there is room. Returns how many went. */
  advance(endpoint: VerbsEndpoint): number {
    const { pending } = endpoint;
    const requests = this.#requests;
    let sent = 0;
    while (endpoint.pendingHead < pending.length) {
      const index = requests.find(pending[endpoint.pendingHead]);
      if (index >= 0 && requests.state[index] === PENDING) {
        if (requests.flags[index] & PULLED) break;
        const payload = requests.payload[index] as Payload;
        const context = requests.context[index];
        const lo = requests.tagLo[index];
        const hi = requests.tagHi[index];
        if (this.#trySend(endpoint, payload, context, lo, hi)) requests.complete(index);
        else if (!this.#isRendezvous(endpoint, payload)) {
          if (!this.#sendZeroCopy(endpoint, index, payload)) break;
        } else if (!this.#sendRts(endpoint, index, false)) break;
        sent++;
      }
      endpoint.pendingHead++;
    }
    if (endpoint.pendingHead === pending.length) {
      pending.length = 0;
      endpoint.pendingHead = 0;
    } else if (endpoint.pendingHead > 1024) {
      pending.splice(0, endpoint.pendingHead);
      endpoint.pendingHead = 0;
    }
    return sent;
  }

  /** An eager send whose payload the device takes from the user's memory. False: there is no room, or it is no such send. */
  #sendZeroCopy(endpoint: VerbsEndpoint, index: number, payload: Payload): boolean {
    const { length } = payload;
    const requests = this.#requests;
    if (length < endpoint.zeroCopyMin || payload.pieces !== undefined) return false;
    const { rendezvous } = this.#worker;
    if (!rendezvous.pin(endpoint, index, payload)) {
      // Memory that cannot be registered is copied after all.
      const isSent = this.#copyIn(endpoint, payload, requests.context[index], requests.tagLo[index], requests.tagHi[index]);
      if (isSent) requests.complete(index);
      return isSent;
    }
    const ring = endpoint.messagesOut;
    const lane = endpoint.lanes[0];
    const slot = lane.hasRoom ? ring.reserveBulk(length) : -1;
    if (slot < 0) {
      rendezvous.unpin(index);
      return false;
    }
    const { i32 } = ring;
    i32[slot + S_BULK] = ring.bulkOffset;
    i32[slot + S_KIND] = EAGER | (requests.context[index] << 16);
    i32[slot + S_TAG_LO] = requests.tagLo[index];
    i32[slot + S_TAG_HI] = requests.tagHi[index];
    i32[slot + S_LENGTH] = length;
    const write = this.#spareWrites.pop() ?? new ZeroCopyWrite(this.#worker, this.#spareWrites);
    write.prepare(endpoint, requests.handle(index), endpoint.ringRemote.addr + ring.remoteBulkOffset);
    lane.submit(write);
    // A write that failed at once has failed the request; the slot stays unused.
    if (write.isPosted) ring.publish(slot, false);
    return true;
  }

  #isRendezvous(endpoint: VerbsEndpoint, payload: Payload): boolean {
    return payload.length > (payload.pieces === undefined ? endpoint.eagerMax : endpoint.piecesEagerMax);
  }

  /** Announces a message. False when there is no room. */
  #sendRts(endpoint: VerbsEndpoint, index: number, offered: boolean): boolean {
    const requests = this.#requests;
    const payload = requests.payload[index] as Payload;
    const ring = endpoint.messagesOut;
    const slot = offered ? 0 : endpoint.ports.length > 1 ? ring.reserveBulk(MOST_PATH_BYTES) : ring.reserve();
    if (slot < 0) return false;
    const { announcement } = this;
    this.#describe(endpoint, index, payload);
    const kind = RTS | (announcement.flags << 8) | (requests.context[index] << 16);
    if (offered) {
      announcement.paths = 1; // the slot is all there is
      announcement.write(this.#words, 2);
      endpoint.control(kind & ~(RTS_PATHS << 8), requests.tagLo[index], requests.tagHi[index], this.#words);
      return true;
    }
    const i32 = ring.i32;
    i32[slot + S_KIND] = kind;
    i32[slot + S_TAG_LO] = requests.tagLo[index];
    i32[slot + S_TAG_HI] = requests.tagHi[index];
    i32[slot + S_LENGTH] = 0;
    announcement.write(i32, slot + S_PAYLOAD);
    if (announcement.paths > 1) {
      i32[slot + S_LENGTH] = announcement.pathBytes;
      i32[slot + S_BULK] = ring.bulkOffset;
      announcement.writePaths(ring.u8, ring.bulkAt + ring.bulkOffset);
    }
    ring.publish(slot);
    endpoint.announce();
    return true;
  }

  /** Fills the announcement for a send that goes by rendezvous. */
  #describe(endpoint: VerbsEndpoint, index: number, payload: Payload): void {
    const name = payload.pieces === undefined ? protocolAt(endpoint.ranges, payload.length) : 'rndv-am';
    let flags = 0;
    let paths = 1;
    if (name !== 'rndv-am' && payload.length > 0 && this.#worker.rendezvous.pin(endpoint, index, payload)) {
      flags = rtsFlags(name);
      if (flags & RTS_PIPELINE && endpoint.ports.length > 1) {
        paths = endpoint.ports.length;
        flags |= RTS_PATHS;
      }
    }
    this.announcement.describe(payload, this.#requests.handle(index), flags, endpoint.ports, paths);
  }

  // ---- receiving ----

  /** Begins a receive; returns the row of its request, which may be complete already. */
  receive(payload: Payload, context: number, lo: number, hi: number, maskLo: number, maskHi: number, source: number): number {
    const requests = this.#requests;
    const index = requests.begin(KIND_RECV, payload);
    requests.context[index] = context;
    requests.tagLo[index] = lo;
    requests.tagHi[index] = hi;
    requests.source[index] = source;
    if (this.#unexpected.count > 0) {
      const row = this.#unexpected.find(context, lo, hi, maskLo, maskHi, source);
      if (row >= 0) {
        const kept = this.#unexpected.value[row];
        requests.tagLo[index] = this.#unexpected.tagLo[row];
        requests.tagHi[index] = this.#unexpected.tagHi[row];
        this.#unexpected.remove(row);
        this.takeKept(index, kept);
        return index;
      }
    }
    if (this.#stuck.size > 0 && this.#receiveStuck(index, context, lo, hi, maskLo, maskHi, source)) return index;
    requests.aux[index] = this.#posted.add(context, lo, hi, maskLo, maskHi, source, index);
    if (this.#stuck.size > 0) for (const endpoint of this.#stuck) this.#sendPull(endpoint, index);
    return index;
  }

  /** Gives a kept message to a receive. */
  takeKept(index: number, kept: number): void {
    const { store } = this;
    const requests = this.#requests;
    const endpoint = this.#worker.endpoints[store.endpoint[kept]];
    requests.source[index] = endpoint.source;
    if (store.isRendezvous[kept] === 1) {
      const paths = store.paths[kept] as Float64Array;
      this.announcement.restore(paths, store.length[kept], store.sender[kept], store.flags[kept]);
      this.#worker.rendezvous.begin(endpoint, index, this.announcement);
    } else {
      const payload = requests.payload[index] as Payload;
      store.copyOut(kept, payload);
      this.#finish(index, store.length[kept], payload);
    }
    store.release(kept);
    this.#unstick();
  }

  #finish(index: number, length: number, payload: Payload): void {
    this.#requests.length[index] = length;
    if (length > payload.length) this.#requests.fail(index, truncation(length, payload.length));
    else this.#requests.complete(index);
  }

  /** Takes what lies in the ring of new messages. Returns how many. */
  takeMessages(endpoint: VerbsEndpoint): number {
    const reader = endpoint.messagesIn;
    let n = 0;
    if (endpoint.stuck) {
      // The head may go on now; while it is stuck, only what stands behind it is looked at.
      endpoint.stuck = false;
      this.#stuck.delete(endpoint);
    }
    while (n < BATCH) {
      const slot = reader.peek();
      if (slot < 0) break;
      const { taken } = endpoint;
      if (taken !== undefined && taken[reader.position & (reader.slots - 1)] === 1) {
        taken[reader.position & (reader.slots - 1)] = 0;
      } else if (!this.#deliver(endpoint, reader, slot)) {
        this.#becomeStuck(endpoint);
        n += this.scan(endpoint);
        break;
      }
      reader.release(this.#bulkOf(reader, slot));
      n++;
    }
    return n;
  }

  /** Takes all that is left of a peer that sends no more. It is kept beyond the bound if need be: the memory of the ring goes instead. */
  takeRest(endpoint: VerbsEndpoint): void {
    this.store.isBounded = false;
    while (this.takeMessages(endpoint) > 0);
    this.store.isBounded = true;
  }

  #bulkOf(reader: RingReader, slot: number): number {
    const length = reader.i32[slot + S_LENGTH];
    return length > INLINE_BYTES ? length : 0;
  }

  /** A message goes to its receive or to the store. False: neither will have it. */
  #deliver(endpoint: VerbsEndpoint, reader: RingReader, slot: number): boolean {
    const { i32 } = reader;
    const kind = i32[slot + S_KIND];
    const lo = i32[slot + S_TAG_LO];
    const hi = i32[slot + S_TAG_HI];
    const context = kind >>> 16;
    const row = this.#posted.find(context, lo, hi, endpoint.source);
    if (row >= 0) {
      const index = this.#posted.value[row];
      this.#posted.remove(row);
      this.#give(endpoint, reader, slot, index);
      return true;
    }
    const eager = (kind & 0xff) === EAGER;
    const { store } = this;
    const length = eager ? i32[slot + S_LENGTH] : 0;
    if (!store.hasRoom(length)) return false;
    const kept = store.take(endpoint.id, length);
    if (eager) {
      store.fill(kept, reader.u8, this.#payloadAt(reader, slot, length));
    } else {
      const { announcement } = this;
      this.#readRts(reader, slot);
      store.isRendezvous[kept] = 1;
      store.paths[kept] = announcement.save();
      store.length[kept] = announcement.length;
      store.sender[kept] = announcement.sender;
      store.flags[kept] = announcement.flags;
    }
    this.#unexpected.add(context, lo, hi, endpoint.source, kept);
    return true;
  }

  #payloadAt(reader: RingReader, slot: number, length: number): number {
    return length <= INLINE_BYTES ? (slot + S_PAYLOAD) << 2 : reader.bulkAt + reader.i32[slot + S_BULK];
  }

  #readRts(reader: RingReader, slot: number): void {
    const { i32 } = reader;
    const flags = (i32[slot + S_KIND] >>> 8) & 0xff;
    this.announcement.read(i32, slot + S_PAYLOAD, flags);
    if (flags & RTS_PATHS) {
      this.announcement.readPaths(reader.u8, reader.bulkAt + i32[slot + S_BULK], i32[slot + S_LENGTH]);
    }
  }

  /** A message in a ring goes to a receive. */
  #give(endpoint: VerbsEndpoint, reader: RingReader, slot: number, index: number): void {
    const { i32 } = reader;
    const requests = this.#requests;
    requests.tagLo[index] = i32[slot + S_TAG_LO];
    requests.tagHi[index] = i32[slot + S_TAG_HI];
    requests.source[index] = endpoint.source;
    requests.aux[index] = -1;
    if ((i32[slot + S_KIND] & 0xff) !== EAGER) {
      this.#readRts(reader, slot);
      this.#worker.rendezvous.begin(endpoint, index, this.announcement);
      return;
    }
    const length = i32[slot + S_LENGTH];
    const payload = requests.payload[index] as Payload;
    const count = Math.min(length, payload.length);
    const words = payload.words;
    if (length <= INLINE_BYTES && (count & 3) === 0 && words.length >= count >> 2) {
      for (let w = 0, from = slot + S_PAYLOAD; w < count >> 2; w++) words[w] = i32[from + w];
    } else if (length <= INLINE_BYTES) {
      payload.unpack(0, count, reader.u8, (slot + S_PAYLOAD) << 2);
    } else {
      this.#worker.copyOut(payload, 0, count, reader, i32[slot + S_BULK]);
    }
    this.#finish(index, length, payload);
  }

  // ---- at the bound ----

  #becomeStuck(endpoint: VerbsEndpoint): void {
    if (endpoint.stuck) return;
    endpoint.stuck = true;
    this.#stuck.add(endpoint);
    endpoint.taken ??= new Uint8Array(endpoint.messagesIn.slots);
    for (let row = this.#posted.oldest; row >= 0; row = this.#posted.after(row)) {
      this.#sendPull(endpoint, this.#posted.value[row]);
    }
  }

  /** There is room again: the next poll tries the heads. */
  #unstick(): void {
    if (this.#stuck.size === 0) return;
    for (const endpoint of this.#stuck) endpoint.stuck = false;
    this.#stuck.clear();
  }

  forgetStuck(endpoint: VerbsEndpoint): void {
    this.#stuck.delete(endpoint);
  }

  /** Looks behind a stuck head for messages that have a receive. */
  scan(endpoint: VerbsEndpoint): number {
    const reader = endpoint.messagesIn;
    const taken = endpoint.taken as Uint8Array;
    let n = 0;
    if (this.#posted.count === 0) return 0;
    for (let ahead = 1; ; ahead++) {
      const slot = reader.peekAhead(ahead);
      if (slot < 0) return n;
      const at = (reader.position + ahead) & (reader.slots - 1);
      if (taken[at] === 1) continue;
      const { i32 } = reader;
      const row = this.#posted.find(i32[slot + S_KIND] >>> 16, i32[slot + S_TAG_LO], i32[slot + S_TAG_HI], endpoint.source);
      if (row < 0) continue;
      const index = this.#posted.value[row];
      this.#posted.remove(row);
      this.#give(endpoint, reader, slot, index);
      taken[at] = 1;
      n++;
    }
  }

  /** A new receive looks into the rings of stuck endpoints. */
  #receiveStuck(index: number, context: number, lo: number, hi: number, maskLo: number, maskHi: number, source: number): boolean {
    for (const endpoint of this.#stuck) {
      if (source !== ANY_SOURCE && source !== endpoint.source) continue;
      // What came since the last look belongs to the receives that wait longer.
      this.scan(endpoint);
      const reader = endpoint.messagesIn;
      const taken = endpoint.taken as Uint8Array;
      for (let ahead = 0; ; ahead++) {
        const slot = reader.peekAhead(ahead);
        if (slot < 0) break;
        const at = (reader.position + ahead) & (reader.slots - 1);
        if (taken[at] === 1) continue;
        const { i32 } = reader;
        if (
          i32[slot + S_KIND] >>> 16 !== context ||
          ((i32[slot + S_TAG_LO] ^ lo) & maskLo) !== 0 ||
          ((i32[slot + S_TAG_HI] ^ hi) & maskHi) !== 0
        ) {
          continue;
        }
        this.#give(endpoint, reader, slot, index);
        taken[at] = 1;
        if (ahead === 0) {
          endpoint.stuck = false;
          this.#stuck.delete(endpoint);
        }
        return true;
      }
    }
    return false;
  }

  #sendPull(endpoint: VerbsEndpoint, index: number): void {
    const row = this.#requests.aux[index];
    const posted = this.#posted;
    if (posted.source[row] !== ANY_SOURCE && posted.source[row] !== endpoint.source) return;
    endpoint.control(PULL | (posted.context[row] << 16), posted.tagLo[row], posted.tagHi[row], [
      posted.maskLo[row],
      posted.maskHi[row],
      this.#requests.handle(index),
    ]);
  }

  /** The peer wants a message that may be held back here. */
  onPull(endpoint: VerbsEndpoint, i32: Int32Array, slot: number): void {
    const handle = i32[slot + S_PAYLOAD];
    const pull = {
      context: i32[slot + S_KIND] >>> 16,
      lo: i32[slot + S_TAG_LO],
      hi: i32[slot + S_TAG_HI],
      maskLo: i32[slot + S_LENGTH],
      maskHi: i32[slot + S_BULK],
    };
    endpoint.pulls.set(handle, pull);
    this.#offerNext(endpoint);
  }

  /**
   * Offers the oldest send that is held back and that a standing pull wants. One at a time: if the first of two offers were refused and the second
   * taken, messages would change their order.
   */
  #offerNext(endpoint: VerbsEndpoint): void {
    if (endpoint.offered >= 0) return;
    const requests = this.#requests;
    for (let at = endpoint.pendingHead; at < endpoint.pending.length; at++) {
      const index = requests.find(endpoint.pending[at]);
      if (index < 0 || requests.state[index] !== PENDING || requests.flags[index] & PULLED) continue;
      const lo = requests.tagLo[index];
      const hi = requests.tagHi[index];
      for (const [handle, pull] of endpoint.pulls) {
        if (pull.context !== requests.context[index]) continue;
        if (((pull.lo ^ lo) & pull.maskLo) !== 0 || ((pull.hi ^ hi) & pull.maskHi) !== 0) continue;
        endpoint.pulls.delete(handle);
        requests.flags[index] |= PULLED;
        endpoint.offered = requests.handle(index);
        this.#sendRts(endpoint, index, true);
        return;
      }
    }
  }

  /** The peer has taken or refused an offer: the next may be made. */
  offerResolved(endpoint: VerbsEndpoint, handle: number): void {
    if (endpoint.offered !== handle) return;
    endpoint.offered = -1;
    if (endpoint.pulls.size > 0) this.#offerNext(endpoint);
  }

  /** An offer came: taken if its receive still waits, else refused. */
  onOffer(endpoint: VerbsEndpoint, i32: Int32Array, slot: number): void {
    // What the sender wrote before the offer comes first.
    while (this.takeMessages(endpoint) >= BATCH);
    const kind = i32[slot + S_KIND];
    const row = this.#posted.find(kind >>> 16, i32[slot + S_TAG_LO], i32[slot + S_TAG_HI], endpoint.source);
    if (row < 0) {
      endpoint.control(UNPULL, i32[slot + S_PAYLOAD + 5], 0);
      return;
    }
    const index = this.#posted.value[row];
    this.#posted.remove(row);
    this.#give(endpoint, endpoint.transfersIn, slot, index);
  }

  /** The peer refused an offer: the send waits for its turn again. */
  onUnpull(endpoint: VerbsEndpoint, handle: number): void {
    const index = this.#requests.find(handle);
    if (index >= 0) {
      this.#requests.flags[index] &= ~PULLED;
      this.#worker.rendezvous.unpin(index);
    }
    this.offerResolved(endpoint, handle);
  }

  // ---- asking, cancelling, failing ----

  /** The oldest unexpected message that a receive would take, or undefined. */
  probe(context: number, lo: number, hi: number, maskLo: number, maskHi: number, source: number): Probed | undefined {
    const row = this.#unexpected.find(context, lo, hi, maskLo, maskHi, source);
    if (row < 0) return undefined;
    const kept = this.#unexpected.value[row];
    return {
      length: this.store.length[kept],
      tagLo: this.#unexpected.tagLo[row],
      tagHi: this.#unexpected.tagHi[row],
      source: this.#unexpected.source[row],
      row,
    };
  }

  /** Takes a probed message out of the queue, so that nobody else gets it. Returns its row in the store. */
  claim(probed: Probed): number {
    const kept = this.#unexpected.value[probed.row];
    this.#unexpected.remove(probed.row);
    return kept;
  }

  /** Receives a message that was claimed. */
  receiveClaimed(payload: Payload, context: number, probed: Probed, kept: number): number {
    const index = this.#requests.begin(KIND_RECV, payload);
    this.#requests.context[index] = context;
    this.#requests.tagLo[index] = probed.tagLo;
    this.#requests.tagHi[index] = probed.tagHi;
    this.takeKept(index, kept);
    return index;
  }

  /** Takes a receive back. False when it has matched already. */
  cancel(index: number, error: Error = new MessagingError('MSG_CANCELLED', 'the receive was cancelled')): boolean {
    const requests = this.#requests;
    if (requests.kind[index] !== KIND_RECV || requests.state[index] !== PENDING || requests.aux[index] < 0) return false;
    this.#posted.remove(requests.aux[index]);
    requests.fail(index, error);
    return true;
  }

  /** Receives that only this source could serve. */
  receivesFrom(source: number): number[] {
    const found: number[] = [];
    for (let row = this.#posted.oldest; row >= 0; row = this.#posted.after(row)) {
      if (this.#posted.source[row] === source) found.push(row);
    }
    return found.map((row) => {
      const index = this.#posted.value[row];
      this.#posted.remove(row);
      this.#requests.aux[index] = -1; // whoever hears of the first failure may cancel the others
      return index;
    });
  }

  /** Drops announcements of a peer that is gone: their memory is gone too. */
  dropRendezvousOf(endpoint: VerbsEndpoint): void {
    for (let row = this.#unexpected.oldest; row >= 0; ) {
      const next = this.#unexpected.after(row);
      const kept = this.#unexpected.value[row];
      if (this.store.endpoint[kept] === endpoint.id && this.store.isRendezvous[kept] === 1) {
        this.#unexpected.remove(row);
        this.store.release(kept);
      }
      row = next;
    }
    this.#unstick();
  }

  /** Receives that wait. */
  get posted(): number {
    return this.#posted.count;
  }
}

function truncation(length: number, room: number): MessagingError {
  return new MessagingError(
    'MSG_TRUNCATED',
    `the message has ${length} bytes, the receive buffer ${room}: receive into a larger one, or probe first`,
  );
}
