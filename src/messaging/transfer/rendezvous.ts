/**
 * Rendezvous: what happens between an announcement (RTS) and its end. The schemes are drawn in protocols/rndv-*.ts; this carries them out.
 *
 * The sender says which scheme it would like; the receiver decides, because it knows its own memory: pieces can only take DATA fragments. Bytes that go by
 * READ or WRITE are moved by the carrier.
 */

import { MessagingError, PeerLost, truncated } from '../errors.js';
import type { Payload } from '../payload.js';
import { PENDING, type RequestRow, type RequestTable } from '../requests.js';
import type { VerbsEndpoint } from '../verbs-endpoint.js';
import type { VerbsWorker } from '../verbs-worker.js';
import {
  ATP,
  ATS,
  DATA,
  DATA_HEAD_BYTES,
  HELPED,
  RTR,
  RTR_PUT,
  RTS_GET,
  RTS_PIPELINE,
  RTS_PUT,
  S_BULK,
  S_KIND,
  S_LENGTH,
  S_PAYLOAD,
  S_TAG_HI,
  S_TAG_LO,
} from '../wire/slot.js';
import type { Announcement } from './announcement.js';
import { Carrier } from './carrier.js';
import { MOST_FRAGMENTS } from './claim-board.js';
import { ROLE_GET, ROLE_HELP, ROLE_PUT, type Transfer } from './transfer.js';

/** Longest single READ or WRITE when nothing is to be split. */
const LONGEST = 1 << 30;
/** Where a CPU copies, it does so in pieces of this size: poll stays short, and both sides find something to do. */
const COPY_BYTES = 256 << 10;

const STATUS_OK = 0;
const STATUS_FAILED = 1;

export class Rendezvous {
  readonly carrier: Carrier = new Carrier();
  readonly #worker: VerbsWorker;
  readonly #requests: RequestTable;
  readonly #f64 = new Float64Array(1);
  readonly #head = new Uint8Array(this.#f64.buffer);
  readonly #words = new Int32Array(this.#f64.buffer);
  readonly #more = new Int32Array(4);

  constructor(worker: VerbsWorker, requests: RequestTable) {
    this.#worker = worker;
    this.#requests = requests;
    this.carrier.ended = (transfer, failure) => this.#ended(transfer, failure);
  }

  /** Registers the memory of a request with the devices of an endpoint, for as long as the request lasts. False when it cannot be registered. */
  pin(endpoint: VerbsEndpoint, row: RequestRow, payload: Payload): boolean {
    if (row.pinned !== 0) return true;
    const { ports } = endpoint;
    let mask = 0;
    for (let path = 0; path < ports.length; path++) {
      const port = ports[path];
      if (mask & (1 << port.index)) continue;
      const cache = port.rail.registrations;
      const known = payload.registrations[port.index];
      if (known?.live && known.cache === cache) {
        cache.use(known);
      } else {
        try {
          payload.registrations[port.index] = cache.acquire(payload.bytes);
        } catch {
          this.#release(payload, mask); // WebAssembly or resizable memory: it goes in fragments
          return false;
        }
      }
      mask |= 1 << port.index;
    }
    row.pinned = mask;
    return true;
  }

  unpin(row: RequestRow): void {
    const mask = row.pinned;
    if (mask === 0) return;
    row.pinned = 0;
    this.#release(row.payload as Payload, mask);
  }

  #release(payload: Payload, mask: number): void {
    for (let rail = 0; mask >> rail !== 0; rail++) {
      const registration = (mask >> rail) & 1 ? payload.registrations[rail] : undefined;
      if (registration !== undefined) registration.cache.release(registration);
    }
  }

  /** The receiver's part begins: a receive has met an announcement. */
  begin(endpoint: VerbsEndpoint, row: RequestRow, announced: Announcement): void {
    const { length, sender, flags } = announced;
    const requests = this.#requests;
    const payload = row.payload as Payload;
    row.endpoint = endpoint.id;
    row.length = length;
    row.peerRequest = -1;
    if (endpoint.state === 'failed' || endpoint.state === 'closed') {
      requests.fail(row, new PeerLost(endpoint.peer, requests.describe(row), 'the data was still at the sender'));
      return;
    }
    if (length > payload.length) {
      endpoint.control(ATS, sender, STATUS_OK);
      requests.fail(row, truncated(length, payload.length));
      return;
    }
    if (length === 0) {
      endpoint.control(ATS, sender, STATUS_OK);
      requests.complete(row);
      return;
    }
    const direct = payload.pieces === undefined && (flags & (RTS_GET | RTS_PUT)) !== 0 && this.pin(endpoint, row, payload);
    if (direct && flags & RTS_GET) {
      const transfer = this.#transfer(endpoint, payload, ROLE_GET, length, (flags & RTS_PIPELINE) !== 0);
      transfer.request = row.handle;
      transfer.peerRequest = sender;
      transfer.paths = Math.min(announced.paths, endpoint.ports.length);
      transfer.addresses.set(announced.addresses);
      transfer.rkeys.set(announced.rkeys);
      this.carrier.begin(transfer);
      return;
    }
    if (direct) {
      const registration = payload.registrations[endpoint.port.index] as NonNullable<Payload['registrations'][0]>;
      this.#f64[0] = registration.region.addr + payload.offsetIn(registration);
      const more = this.#more;
      more[0] = 0;
      more[1] = registration.region.rkey;
      more[2] = this.#words[0];
      more[3] = this.#words[1];
      endpoint.control(RTR | (RTR_PUT << 8), sender, row.handle, more);
      return;
    }
    endpoint.control(RTR, sender, row.handle);
  }

  /** The sender's part goes on: the receiver is ready. */
  onRtr(endpoint: VerbsEndpoint, i32: Int32Array, slot: number): void {
    const requests = this.#requests;
    const row = requests.find(i32[slot + S_TAG_LO]);
    const receiver = i32[slot + S_TAG_LO + 1];
    this.#worker.tags.sends.offerResolved(endpoint, i32[slot + S_TAG_LO]);
    if (row === undefined) {
      endpoint.control(ATP, receiver, STATUS_FAILED);
      return;
    }
    const payload = row.payload as Payload;
    if (((i32[slot + S_KIND] >>> 8) & RTR_PUT) === 0) {
      row.peerRequest = receiver;
      endpoint.transferQueue.push(row.handle);
      endpoint.waiting = true;
      return;
    }
    const rkey = i32[slot + S_BULK] >>> 0;
    this.#words[0] = i32[slot + S_BULK + 1];
    this.#words[1] = i32[slot + S_BULK + 2];
    const split = endpoint.lanes.length > 1 && payload.length >= this.#worker.fragmentBytes;
    const transfer = this.#transfer(endpoint, payload, ROLE_PUT, payload.length, split);
    transfer.request = row.handle;
    transfer.peerRequest = receiver;
    transfer.addresses[0] = this.#f64[0];
    transfer.rkeys[0] = rkey;
    this.carrier.begin(transfer);
  }

  #transfer(endpoint: VerbsEndpoint, payload: Payload, role: number, length: number, split: boolean): Transfer {
    const transfer = this.carrier.take();
    let fragment = LONGEST;
    if (split) fragment = this.#worker.fragmentBytes;
    else if (endpoint.mapped) fragment = Math.max(COPY_BYTES, Math.ceil(length / MOST_FRAGMENTS));
    transfer.reset(endpoint, payload, role, length, fragment);
    transfer.isSplit = split;
    return transfer;
  }

  /** All bytes of a transfer have moved, or cannot. */
  #ended(transfer: Transfer, failure: string | undefined): void {
    const requests = this.#requests;
    const endpoint = transfer.endpoint as VerbsEndpoint;
    const isGet = transfer.role === ROLE_GET;
    endpoint.control(isGet ? ATS : ATP, transfer.peerRequest, failure === undefined ? STATUS_OK : STATUS_FAILED);
    const row = requests.find(transfer.request);
    if (row === undefined) return;
    this.unpin(row);
    if (failure === undefined) {
      requests.complete(row);
      return;
    }
    const operation = isGet ? 'a rendezvous read' : 'a rendezvous write';
    requests.fail(row, new PeerLost(endpoint.peer, `${operation} of ${transfer.length} bytes`, failure));
  }

  /** The receiver asks this sender to carry fragments from the back. */
  onHelp(endpoint: VerbsEndpoint, i32: Int32Array, slot: number): void {
    const requests = this.#requests;
    const handle = i32[slot + S_TAG_LO];
    const entry = i32[slot + S_TAG_HI];
    const row = requests.find(handle);
    const payload = row?.payload;
    if (payload === undefined || endpoint.boardOut === undefined || row?.pinned === 0) {
      this.#more.fill(0);
      endpoint.control(HELPED, entry, 0, this.#more);
      return;
    }
    this.#words[0] = i32[slot + S_PAYLOAD];
    this.#words[1] = i32[slot + S_PAYLOAD + 1];
    const transfer = this.carrier.take();
    transfer.reset(endpoint, payload, ROLE_HELP, payload.length, i32[slot + S_LENGTH]);
    transfer.request = handle;
    transfer.entry = entry;
    transfer.addresses[0] = this.#f64[0];
    transfer.rkeys[0] = i32[slot + S_BULK] >>> 0;
    this.carrier.begin(transfer);
  }

  /** The sender carries no more of a transfer. */
  onHelped(endpoint: VerbsEndpoint, i32: Int32Array, slot: number): void {
    this.carrier.helped(endpoint, i32[slot + S_TAG_LO], i32[slot + S_TAG_HI], i32[slot + S_LENGTH] !== 0);
  }

  /** The receiver has read everything, or failed. */
  onAts(endpoint: VerbsEndpoint, handle: number, status: number): void {
    this.#worker.tags.sends.offerResolved(endpoint, handle);
    const row = this.#requests.find(handle);
    if (row === undefined) return;
    this.unpin(row);
    if (status === STATUS_OK) this.#requests.complete(row);
    else this.#requests.fail(row, this.#remoteFailure(endpoint, row));
  }

  /** The sender has written everything, or failed. */
  onAtp(endpoint: VerbsEndpoint, handle: number, status: number): void {
    const row = this.#requests.find(handle);
    if (row === undefined) return;
    this.unpin(row);
    if (status === STATUS_OK) this.#requests.complete(row);
    else this.#requests.fail(row, this.#remoteFailure(endpoint, row));
  }

  #remoteFailure(endpoint: VerbsEndpoint, row: RequestRow): MessagingError {
    return new MessagingError(
      'MSG_REMOTE',
      `${endpoint.peer} could not carry out its part of ${this.#requests.describe(row)}: its own error says why`,
    );
  }

  /** Sends fragments of a request through the ring. True when all of it is there. */
  advanceData(endpoint: VerbsEndpoint, row: RequestRow): boolean {
    const requests = this.#requests;
    const payload = row.payload as Payload;
    const ring = endpoint.transfersOut;
    const longest = ring.bulkBytes >> 2;
    while (row.moved < payload.length) {
      const offset = row.moved;
      const count = Math.min(longest - DATA_HEAD_BYTES, payload.length - offset);
      const slot = ring.reserveBulk(count + DATA_HEAD_BYTES);
      if (slot < 0) return false;
      const at = ring.bulkAt + ring.bulkOffset;
      this.#f64[0] = offset;
      for (let b = 0; b < DATA_HEAD_BYTES; b++) ring.u8[at + b] = this.#head[b];
      payload.pack(offset, count, ring.u8, at + DATA_HEAD_BYTES);
      ring.i32[slot + S_KIND] = DATA;
      ring.i32[slot + S_TAG_LO] = row.peerRequest;
      ring.i32[slot + S_LENGTH] = count + DATA_HEAD_BYTES;
      ring.i32[slot + S_BULK] = ring.bulkOffset;
      ring.publish(slot);
      endpoint.announce();
      row.moved = offset + count;
    }
    this.unpin(row);
    requests.complete(row);
    return true;
  }

  /** A fragment came. */
  onData(endpoint: VerbsEndpoint, i32: Int32Array, slot: number): void {
    const requests = this.#requests;
    const row = requests.find(i32[slot + S_TAG_LO]);
    if (row === undefined) return;
    const payload = row.payload as Payload;
    const { u8, bulkAt } = endpoint.transfersIn;
    const at = bulkAt + i32[slot + S_BULK];
    const count = i32[slot + S_LENGTH] - DATA_HEAD_BYTES;
    for (let b = 0; b < DATA_HEAD_BYTES; b++) this.#head[b] = u8[at + b];
    payload.unpack(this.#f64[0], count, u8, at + DATA_HEAD_BYTES);
    row.moved += count;
    if (row.moved === row.length && row.state === PENDING) requests.complete(row);
  }
}
