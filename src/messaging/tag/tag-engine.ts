/**
 * Tag matching over rings, the receiver's side (the sender's: tag-sends.ts). A message in the ring takes the oldest receive that fits; without one it moves to the store
 * of unexpected messages; when that is full it stays in the ring (the endpoint is "stuck") and the sender runs out of credits.
 *
 * A stuck endpoint must not stop receives that could go on, so
 * - slots behind the stuck head are matched out of turn, and given back when their turn comes;
 * - a receive that finds nothing asks the stuck peers (PULL): the peer looks through the sends it holds back and offers the first that fits, by
 *   rendezvous on the other ring. A receive that was served meanwhile refuses the offer (UNPULL).
 */

import { truncated } from '../errors.js';
import type { RingReader } from '../patterns/ring-region.js';
import type { Payload } from '../payload.js';
import type { RequestRow, RequestTable } from '../requests.js';
import { Announcement } from '../transfer/announcement.js';
import type { VerbsEndpoint } from '../verbs-endpoint.js';
import type { VerbsWorker } from '../verbs-worker.js';
import {
  EAGER,
  INLINE_BYTES,
  PULL,
  RTS_PATHS,
  S_BULK,
  S_KIND,
  S_LENGTH,
  S_PAYLOAD,
  S_TAG_HI,
  S_TAG_LO,
  UNPULL,
} from '../wire/slot.js';
import { ANY_SOURCE } from './match-queue.js';
import { TagMatching } from './tag-matching.js';
import { TagSends } from './tag-sends.js';
import { UnexpectedStore } from './unexpected-store.js';

/** Messages taken from one ring in one poll, so that the others get their turn. */
const BATCH = 64;

export class TagEngine extends TagMatching<VerbsEndpoint> {
  readonly store: UnexpectedStore;
  readonly sends: TagSends;
  readonly #worker: VerbsWorker;
  readonly #stuck = new Set<VerbsEndpoint>();
  /** What the announcement under way says. */
  readonly #announcement = new Announcement();

  constructor(worker: VerbsWorker, requests: RequestTable, maxBytes: number, maxCount: number) {
    super(requests);
    this.#worker = worker;
    this.store = new UnexpectedStore(maxBytes, maxCount);
    this.sends = new TagSends(worker, requests);
  }

  protected lengthOf(kept: number): number {
    return this.store.length[kept];
  }

  protected isAnnouncedBy(kept: number, endpoint: VerbsEndpoint): boolean {
    return this.store.endpoint[kept] === endpoint.id && this.store.isRendezvous[kept] === 1;
  }

  protected dropKept(kept: number): void {
    this.store.release(kept);
    this.#unstick();
  }

  send(endpoint: VerbsEndpoint, payload: Payload, context: number, lo: number, hi: number): RequestRow | undefined {
    return this.sends.send(endpoint, payload, context, lo, hi);
  }

  protected override await(row: RequestRow): void {
    const isStuck = this.#stuck.size > 0;
    if (isStuck && this.#receiveStuck(row)) return;
    this.receives.add(row);
    if (isStuck) for (const endpoint of this.#stuck) this.#sendPull(endpoint, row);
  }

  protected takeKept(row: RequestRow, kept: number): void {
    const { store } = this;
    const endpoint = this.#worker.endpoints[store.endpoint[kept]];
    row.source = endpoint.source;
    if (store.isRendezvous[kept] === 1) {
      const paths = store.paths[kept] as Float64Array;
      this.#announcement.restore(paths, store.length[kept], store.sender[kept], store.flags[kept]);
      this.#worker.rendezvous.begin(endpoint, row, this.#announcement);
    } else {
      const payload = row.payload as Payload;
      store.copyOut(kept, payload);
      this.#finish(row, store.length[kept], payload);
    }
    store.release(kept);
    this.#unstick();
  }

  #finish(row: RequestRow, length: number, payload: Payload): void {
    row.length = length;
    if (length > payload.length) this.requests.fail(row, truncated(length, payload.length));
    else this.requests.complete(row);
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
      reader.pass(this.#bulkOf(reader, slot));
      n++;
    }
    reader.giveBack();
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
    const row = this.match(i32[slot + S_KIND] >>> 16, i32[slot + S_TAG_LO], i32[slot + S_TAG_HI], endpoint.source);
    if (row === undefined) return this.#keep(endpoint, reader, slot);
    this.#give(endpoint, reader, slot, row);
    return true;
  }

  /** A message without a receive goes to the store. False: that is full. */
  #keep(endpoint: VerbsEndpoint, reader: RingReader, slot: number): boolean {
    const { i32 } = reader;
    const kind = i32[slot + S_KIND];
    const eager = (kind & 0xff) === EAGER;
    const { store } = this;
    const length = eager ? i32[slot + S_LENGTH] : 0;
    if (!store.hasRoom(length)) return false;
    const kept = store.take(endpoint.id, length);
    if (eager) {
      store.fill(kept, reader.u8, this.#payloadAt(reader, slot, length));
    } else {
      const announcement = this.#announcement;
      this.#readRts(reader, slot);
      store.isRendezvous[kept] = 1;
      store.paths[kept] = announcement.save();
      store.length[kept] = announcement.length;
      store.sender[kept] = announcement.sender;
      store.flags[kept] = announcement.flags;
    }
    this.unexpected.keep(kind >>> 16, i32[slot + S_TAG_LO], i32[slot + S_TAG_HI], endpoint.source, kept);
    return true;
  }

  #payloadAt(reader: RingReader, slot: number, length: number): number {
    return length <= INLINE_BYTES ? (slot + S_PAYLOAD) << 2 : reader.bulkAt + reader.i32[slot + S_BULK];
  }

  #readRts(reader: RingReader, slot: number): void {
    const { i32 } = reader;
    const flags = (i32[slot + S_KIND] >>> 8) & 0xff;
    this.#announcement.read(i32, slot + S_PAYLOAD, flags);
    if (flags & RTS_PATHS) {
      this.#announcement.readPaths(reader.u8, reader.bulkAt + i32[slot + S_BULK], i32[slot + S_LENGTH]);
    }
  }

  /** A message in a ring goes to a receive. */
  #give(endpoint: VerbsEndpoint, reader: RingReader, slot: number, row: RequestRow): void {
    const { i32 } = reader;
    if ((i32[slot + S_KIND] & 0xff) !== EAGER) {
      this.#readRts(reader, slot);
      this.#worker.rendezvous.begin(endpoint, row, this.#announcement);
      return;
    }
    const length = i32[slot + S_LENGTH];
    const payload = row.payload as Payload;
    const count = Math.min(length, payload.length);
    if (length <= INLINE_BYTES) payload.copyFrom(i32, reader.u8, slot + S_PAYLOAD, count);
    else this.#worker.copyOut(payload, 0, count, reader, i32[slot + S_BULK]);
    this.#finish(row, length, payload);
  }

  // ---- at the bound ----

  #becomeStuck(endpoint: VerbsEndpoint): void {
    if (endpoint.stuck) return;
    endpoint.stuck = true;
    this.#stuck.add(endpoint);
    endpoint.taken ??= new Uint8Array(endpoint.messagesIn.slots);
    const { receives } = this;
    for (let row = receives.oldest; row !== receives.end; row = row.next) this.#sendPull(endpoint, row);
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
    if (this.receives.count === 0) return 0;
    for (let ahead = 1; ; ahead++) {
      const slot = reader.peekAhead(ahead);
      if (slot < 0) return n;
      const at = (reader.position + ahead) & (reader.slots - 1);
      if (taken[at] === 1) continue;
      const { i32 } = reader;
      const row = this.match(i32[slot + S_KIND] >>> 16, i32[slot + S_TAG_LO], i32[slot + S_TAG_HI], endpoint.source);
      if (row === undefined) continue;
      this.#give(endpoint, reader, slot, row);
      taken[at] = 1;
      n++;
    }
  }

  /** A new receive looks into the rings of stuck endpoints. */
  #receiveStuck(row: RequestRow): boolean {
    const { context, tagLo, tagHi, maskLo, maskHi, source } = row;
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
          ((i32[slot + S_TAG_LO] ^ tagLo) & maskLo) !== 0 ||
          ((i32[slot + S_TAG_HI] ^ tagHi) & maskHi) !== 0
        ) {
          continue;
        }
        row.tagLo = i32[slot + S_TAG_LO];
        row.tagHi = i32[slot + S_TAG_HI];
        row.source = endpoint.source;
        this.#give(endpoint, reader, slot, row);
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

  #sendPull(endpoint: VerbsEndpoint, row: RequestRow): void {
    const { context, tagLo, tagHi, maskLo, maskHi, source, handle } = row;
    if (source !== ANY_SOURCE && source !== endpoint.source) return;
    endpoint.control(PULL | (context << 16), tagLo, tagHi, [maskLo, maskHi, handle]);
  }

  /** An offer came: taken if its receive still waits, else refused. */
  onOffer(endpoint: VerbsEndpoint, i32: Int32Array, slot: number): void {
    // What the sender wrote before the offer comes first.
    while (this.takeMessages(endpoint) >= BATCH);
    const kind = i32[slot + S_KIND];
    const row = this.match(kind >>> 16, i32[slot + S_TAG_LO], i32[slot + S_TAG_HI], endpoint.source);
    if (row === undefined) endpoint.control(UNPULL, i32[slot + S_PAYLOAD + 5], 0);
    else this.#give(endpoint, endpoint.transfersIn, slot, row);
  }
}
