/**
 * The sender's side of tagged messages over rings. A message that is eager goes into the ring at once; one that is not, or finds the ring full, waits as a
 * request. While messages are held back because the receiver has no room (tag-engine.ts), the peer may ask for one of them out of turn (PULL): it is offered by
 * rendezvous on the other ring, and while the offer is open nothing is sent that stands behind it, so the order of messages stays.
 */

import type { Payload } from '../payload.js';
import { protocolAt } from '../protocols/selection.js';
import { MOST_RAILS } from '../rail.js';
import { KIND_SEND, PENDING, type RequestRow, type RequestTable } from '../requests.js';
import { Announcement, PATH_BYTES, rtsFlags } from '../transfer/announcement.js';
import type { VerbsEndpoint } from '../verbs-endpoint.js';
import type { VerbsWorker } from '../verbs-worker.js';
import {
  EAGER,
  INLINE_BYTES,
  RTS,
  RTS_PATHS,
  RTS_PIPELINE,
  S_BULK,
  S_KIND,
  S_LENGTH,
  S_PAYLOAD,
  S_TAG_HI,
  S_TAG_LO,
} from '../wire/slot.js';
import { ZeroCopyWrite } from './zero-copy-write.js';

/** Flag of a send that was offered out of turn. */
const PULLED = 1;
const MOST_PATH_BYTES = (MOST_RAILS - 1) * PATH_BYTES;

export class TagSends {
  readonly #worker: VerbsWorker;
  readonly #requests: RequestTable;
  /** What the announcement under way says. */
  readonly #announcement = new Announcement();
  readonly #spareWrites: ZeroCopyWrite[] = [];
  /** Words 4 and on of an offer. */
  readonly #words = new Int32Array(8);

  constructor(worker: VerbsWorker, requests: RequestTable) {
    this.#worker = worker;
    this.#requests = requests;
  }

  /** Begins a send. Returns undefined when it is complete, else its request. */
  send(endpoint: VerbsEndpoint, payload: Payload, context: number, lo: number, hi: number): RequestRow | undefined {
    if (endpoint.state === 'ready' && !endpoint.closedByPeer && endpoint.pending.length === 0) {
      if (this.#trySend(endpoint, payload, context, lo, hi)) return undefined;
    } else {
      endpoint.check();
      endpoint.connect?.();
    }
    const row = this.#requests.begin(KIND_SEND, payload);
    row.context = context;
    row.tagLo = lo;
    row.tagHi = hi;
    row.endpoint = endpoint.id;
    row.length = payload.length;
    endpoint.pending.push(row.handle);
    endpoint.waiting = true;
    if (endpoint.state === 'ready') {
      if (endpoint.pending.length - endpoint.pendingHead === 1) this.advance(endpoint);
      if (endpoint.pulls.size > 0) this.#offerNext(endpoint);
    }
    return row;
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
      payload.copyTo(ring.i32, ring.u8, slot + S_PAYLOAD, length);
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
      const row = requests.find(pending[endpoint.pendingHead]);
      if (row !== undefined && row.state === PENDING) {
        if (row.flags & PULLED) break;
        const payload = row.payload as Payload;
        const context = row.context;
        const lo = row.tagLo;
        const hi = row.tagHi;
        if (this.#trySend(endpoint, payload, context, lo, hi)) requests.complete(row);
        else if (!this.#isRendezvous(endpoint, payload)) {
          if (!this.#sendZeroCopy(endpoint, row, payload)) break;
        } else if (!this.#sendRts(endpoint, row, false)) break;
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
  #sendZeroCopy(endpoint: VerbsEndpoint, row: RequestRow, payload: Payload): boolean {
    const { length } = payload;
    const requests = this.#requests;
    if (length < endpoint.zeroCopyMin || payload.pieces !== undefined) return false;
    const { rendezvous } = this.#worker;
    if (!rendezvous.pin(endpoint, row, payload)) {
      // Memory that cannot be registered is copied after all.
      const isSent = this.#copyIn(endpoint, payload, row.context, row.tagLo, row.tagHi);
      if (isSent) requests.complete(row);
      return isSent;
    }
    const ring = endpoint.messagesOut;
    const lane = endpoint.lanes[0];
    const slot = lane.hasRoom ? ring.reserveBulk(length) : -1;
    if (slot < 0) {
      rendezvous.unpin(row);
      return false;
    }
    const { i32 } = ring;
    i32[slot + S_BULK] = ring.bulkOffset;
    i32[slot + S_KIND] = EAGER | (row.context << 16);
    i32[slot + S_TAG_LO] = row.tagLo;
    i32[slot + S_TAG_HI] = row.tagHi;
    i32[slot + S_LENGTH] = length;
    const write = this.#spareWrites.pop() ?? new ZeroCopyWrite(this.#worker, this.#spareWrites);
    write.prepare(endpoint, row.handle, endpoint.ringRemote.addr + ring.remoteBulkOffset);
    lane.submit(write);
    // A write that failed at once has failed the request; the slot stays unused.
    if (write.isPosted) ring.publish(slot, false);
    return true;
  }

  #isRendezvous(endpoint: VerbsEndpoint, payload: Payload): boolean {
    return payload.length > (payload.pieces === undefined ? endpoint.eagerMax : endpoint.piecesEagerMax);
  }

  /** Announces a message. False when there is no room. */
  #sendRts(endpoint: VerbsEndpoint, row: RequestRow, offered: boolean): boolean {
    const payload = row.payload as Payload;
    const ring = endpoint.messagesOut;
    const slot = offered ? 0 : endpoint.ports.length > 1 ? ring.reserveBulk(MOST_PATH_BYTES) : ring.reserve();
    if (slot < 0) return false;
    const announcement = this.#announcement;
    this.#describe(endpoint, row, payload);
    const kind = RTS | (announcement.flags << 8) | (row.context << 16);
    if (offered) {
      announcement.paths = 1; // the slot is all there is
      announcement.write(this.#words, 2);
      endpoint.control(kind & ~(RTS_PATHS << 8), row.tagLo, row.tagHi, this.#words);
      return true;
    }
    const i32 = ring.i32;
    i32[slot + S_KIND] = kind;
    i32[slot + S_TAG_LO] = row.tagLo;
    i32[slot + S_TAG_HI] = row.tagHi;
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
  #describe(endpoint: VerbsEndpoint, row: RequestRow, payload: Payload): void {
    const name = payload.pieces === undefined ? protocolAt(endpoint.ranges, payload.length) : 'rndv-am';
    let flags = 0;
    let paths = 1;
    if (name !== 'rndv-am' && payload.length > 0 && this.#worker.rendezvous.pin(endpoint, row, payload)) {
      flags = rtsFlags(name);
      if (flags & RTS_PIPELINE && endpoint.ports.length > 1) {
        paths = endpoint.ports.length;
        flags |= RTS_PATHS;
      }
    }
    this.#announcement.describe(payload, row.handle, flags, endpoint.ports, paths);
  }

  // ---- what is held back ----

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
      const row = requests.find(endpoint.pending[at]);
      if (row === undefined || row.state !== PENDING || row.flags & PULLED) continue;
      const lo = row.tagLo;
      const hi = row.tagHi;
      for (const [handle, pull] of endpoint.pulls) {
        if (pull.context !== row.context) continue;
        if (((pull.lo ^ lo) & pull.maskLo) !== 0 || ((pull.hi ^ hi) & pull.maskHi) !== 0) continue;
        endpoint.pulls.delete(handle);
        row.flags |= PULLED;
        endpoint.offered = row.handle;
        this.#sendRts(endpoint, row, true);
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

  /** The peer refused an offer: the send waits for its turn again. */
  onUnpull(endpoint: VerbsEndpoint, handle: number): void {
    const row = this.#requests.find(handle);
    if (row !== undefined) {
      row.flags &= ~PULLED;
      this.#worker.rendezvous.unpin(row);
    }
    this.offerResolved(endpoint, handle);
  }
}
