/**
 * Active messages: a handler number, a short header and a payload; the handler runs at the receiver when the message arrives.
 *
 * Small ones come whole and lie in the ring while the handler runs. Large ones come as an announcement: the handler says where the payload is to
 * go, and it is read from the sender's memory straight to there. Either way there is no queue of unexpected messages: somebody always takes them.
 */

import type { Messages } from '../engine.js';
import { MessagingError } from '../errors.js';
import type { RingReader } from '../patterns/ring-region.js';
import { type Payload, payloadOf } from '../payload.js';
import { protocolAt } from '../protocols/selection.js';
import { KIND_AM, KIND_AM_RECV, type RequestRow, type RequestTable } from '../requests.js';
import { Announcement, PATH_BYTES, rtsFlags } from '../transfer/announcement.js';
import type { VerbsEndpoint } from '../verbs-endpoint.js';
import type { VerbsWorker } from '../verbs-worker.js';
import {
  AM,
  AM_RTS,
  ATS,
  INLINE_BYTES,
  RTS_BYTES,
  RTS_PATHS,
  RTS_PATHS_SHIFT,
  RTS_SCHEME,
  S_BULK,
  S_KIND,
  S_LENGTH,
  S_PAYLOAD,
  S_TAG_HI,
  S_TAG_LO,
} from '../wire/slot.js';
import { Handlers, tooLong } from './handlers.js';

const HEADER_IN_SLOT = INLINE_BYTES - RTS_BYTES;

const NO_HEADER = new Uint8Array(0);

export class ActiveMessages extends Handlers implements Messages {
  readonly #worker: VerbsWorker;
  readonly #requests: RequestTable;
  readonly #headers = new Map<RequestRow, Uint8Array>();
  readonly announcement: Announcement = new Announcement();

  constructor(worker: VerbsWorker, requests: RequestTable) {
    super(worker);
    this.#worker = worker;
    this.#requests = requests;
  }

  /** Begins a send. Returns undefined when it is complete, else its request. */
  send(endpoint: VerbsEndpoint, id: number, header: Uint8Array, payload: Payload): RequestRow | undefined {
    const longest = endpoint.state === 'ready' ? endpoint.transfersOut.bulkBytes >> 2 : 4096;
    if (header.length > longest) {
      throw new MessagingError('MSG_INVALID', `a header is at most ${longest} bytes here: got ${header.length}`);
    }
    if (endpoint.state === 'ready' && !endpoint.closedByPeer && endpoint.transferQueue.length === 0) {
      if (this.#isEager(endpoint, header, payload) && this.#trySend(endpoint, id, header, payload)) return undefined;
    } else {
      endpoint.check();
      endpoint.connect?.();
    }
    const requests = this.#requests;
    const row = requests.begin(KIND_AM, payload);
    row.endpoint = endpoint.id;
    row.length = payload.length;
    row.tagLo = id;
    this.#headers.set(row, header);
    endpoint.transferQueue.push(row.handle);
    endpoint.waiting = true;
    return row;
  }

  #isEager(endpoint: VerbsEndpoint, header: Uint8Array, payload: Payload): boolean {
    const limit = payload.pieces === undefined ? endpoint.eagerMax : endpoint.piecesEagerMax;
    return payload.length <= limit && header.length + payload.length <= endpoint.transfersOut.bulkBytes >> 2;
  }

  #trySend(endpoint: VerbsEndpoint, id: number, header: Uint8Array, payload: Payload): boolean {
    const ring = endpoint.transfersOut;
    const total = header.length + payload.length;
    const slot = total <= INLINE_BYTES ? ring.reserve() : ring.reserveBulk(total);
    if (slot < 0) return false;
    const at = total <= INLINE_BYTES ? (slot + S_PAYLOAD) << 2 : ring.bulkAt + ring.bulkOffset;
    if (header.length > 0) ring.u8.set(header, at);
    payload.pack(0, payload.length, ring.u8, at + header.length);
    const { i32 } = ring;
    i32[slot + S_KIND] = AM;
    i32[slot + S_TAG_LO] = id;
    i32[slot + S_TAG_HI] = header.length;
    i32[slot + S_LENGTH] = total;
    i32[slot + S_BULK] = ring.bulkOffset;
    ring.publish(slot);
    endpoint.announce();
    return true;
  }

  /** Sends one that waited. False when there is no room. */
  advance(endpoint: VerbsEndpoint, row: RequestRow): boolean {
    const requests = this.#requests;
    if (row.peerRequest >= 0) return this.#worker.rendezvous.advanceData(endpoint, row);
    const payload = row.payload as Payload;
    const header = this.#headers.get(row) ?? NO_HEADER;
    if (this.#isEager(endpoint, header, payload)) {
      if (!this.#trySend(endpoint, row.tagLo, header, payload)) return false;
      this.#headers.delete(row);
      requests.complete(row);
      return true;
    }
    if (!this.#announce(endpoint, row, header, payload)) return false;
    this.#headers.delete(row);
    return true;
  }

  #announce(endpoint: VerbsEndpoint, row: RequestRow, header: Uint8Array, payload: Payload): boolean {
    const ring = endpoint.transfersOut;
    const { ports } = endpoint;
    const pathBytes = (ports.length - 1) * PATH_BYTES;
    const inSlot = header.length <= HEADER_IN_SLOT && pathBytes === 0;
    const bulk = Math.max(pathBytes + header.length, INLINE_BYTES + 1);
    const slot = inSlot ? ring.reserve() : ring.reserveBulk(bulk);
    if (slot < 0) return false;
    const name = payload.pieces === undefined ? protocolAt(endpoint.ranges, payload.length) : 'rndv-am';
    let flags = 0;
    if (name !== 'rndv-am' && this.#worker.rendezvous.pin(endpoint, row, payload)) flags = rtsFlags(name);
    const { announcement } = this;
    announcement.describe(payload, row.handle, flags, ports, ports.length);
    const { i32 } = ring;
    announcement.write(i32, slot + S_PAYLOAD);
    const at = inSlot ? ((slot + S_PAYLOAD) << 2) + RTS_BYTES : ring.bulkAt + ring.bulkOffset + pathBytes;
    if (pathBytes > 0) {
      announcement.writePaths(ring.u8, ring.bulkAt + ring.bulkOffset);
      flags |= RTS_PATHS | ((ports.length - 1) << RTS_PATHS_SHIFT);
    }
    ring.u8.set(header, at);
    i32[slot + S_KIND] = AM_RTS | (flags << 8);
    i32[slot + S_TAG_LO] = row.tagLo;
    i32[slot + S_TAG_HI] = header.length;
    i32[slot + S_LENGTH] = inSlot ? 0 : bulk;
    i32[slot + S_BULK] = ring.bulkOffset;
    ring.publish(slot);
    endpoint.announce();
    return true;
  }

  /** A message came whole. */
  onMessage(endpoint: VerbsEndpoint, reader: RingReader, slot: number): void {
    const { i32, u8 } = reader;
    const headerLength = i32[slot + S_TAG_HI];
    const total = i32[slot + S_LENGTH];
    const at = total <= INLINE_BYTES ? (slot + S_PAYLOAD) << 2 : reader.bulkAt + i32[slot + S_BULK];
    const data = u8.subarray(at + headerLength, at + total);
    this.run(i32[slot + S_TAG_LO], {
      endpoint,
      header: u8.subarray(at, at + headerLength),
      data,
      length: data.length,
      receive: async (into) => {
        const payload = payloadOf(into);
        if (payload.length < data.length) throw tooLong(data.length, payload.length);
        payload.unpack(0, data.length, data, 0);
      },
    });
  }

  /** A message came as an announcement. */
  onAnnouncement(endpoint: VerbsEndpoint, reader: RingReader, slot: number): void {
    const { i32, u8 } = reader;
    const { announcement } = this;
    const flags = (i32[slot + S_KIND] >>> 8) & 0xff;
    announcement.read(i32, slot + S_PAYLOAD, flags & RTS_SCHEME);
    const pathBytes = flags & RTS_PATHS ? (flags >>> RTS_PATHS_SHIFT) * PATH_BYTES : 0;
    const inSlot = i32[slot + S_LENGTH] === 0;
    const bulkAt = reader.bulkAt + i32[slot + S_BULK];
    if (pathBytes > 0) announcement.readPaths(u8, bulkAt, pathBytes);
    const { length, sender } = announcement;
    const saved = announcement.save();
    const headerLength = i32[slot + S_TAG_HI];
    const at = inSlot ? ((slot + S_PAYLOAD) << 2) + RTS_BYTES : bulkAt + pathBytes;
    let open = true;
    let asked = false;
    this.run(i32[slot + S_TAG_LO], {
      endpoint,
      header: u8.subarray(at, at + headerLength),
      data: undefined,
      length,
      receive: async (into) => {
        if (!open || asked)
          throw new MessagingError(
            'MSG_INVALID',
            'the payload was received or dropped already: ask for it before the first await',
          );
        asked = true;
        const payload = payloadOf(into);
        const row = this.#requests.begin(KIND_AM_RECV, payload);
        announcement.restore(saved, length, sender, flags & RTS_SCHEME);
        this.#worker.rendezvous.begin(endpoint, row, announcement);
        await this.#worker.own(row.handle + 1).wait();
      },
    });
    open = false;
    if (!asked) endpoint.control(ATS, sender, 0);
  }
}
