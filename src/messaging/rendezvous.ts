/**
 * Rendezvous: what happens between an announcement (RTS) and its end. The schemes are drawn in protocols/rndv-*.ts; this carries them out.
 *
 * The sender says which scheme it would like; the receiver decides, because it knows its own memory: pieces can only take DATA fragments.
 * A transfer over several lanes is a list of fragments from which every lane takes the next one when it has finished one, so a faster lane moves more, and
 * a lane that fails puts its fragment back for the others.
 */

import type { Endpoint } from './endpoint.js';
import { MessagingError, PeerLost } from './errors.js';
import type { Lane } from './lane.js';
import type { Registration } from './memory/registration-cache.js';
import type { Payload } from './payload.js';
import { PENDING, type RequestTable } from './requests.js';
import {
  ATP,
  ATS,
  DATA,
  DATA_HEAD_BYTES,
  RTR,
  RTR_PUT,
  RTS_GET,
  RTS_PIPELINE,
  RTS_PUT,
  S_BULK,
  S_KIND,
  S_LENGTH,
  S_TAG_LO,
} from './wire/slot.js';
import type { Worker } from './worker.js';

/** Longest single READ or WRITE when nothing is to be split. */
const LONGEST = 1 << 30;
/** Fragments that one lane has under way. */
const PER_LANE = 2;

const STATUS_OK = 0;
const STATUS_FAILED = 1;

/** A transfer cut into fragments. */
interface Transfer {
  readonly endpoint: Endpoint;
  readonly opcode: 'RDMA_READ' | 'RDMA_WRITE';
  readonly payload: Payload;
  readonly remoteAddress: number;
  readonly rkey: number;
  readonly length: number;
  readonly fragment: number;
  /** Offsets that were given back by a lane that failed. */
  readonly returned: number[];
  next: number;
  done: number;
  active: number;
  over: boolean;
  readonly finish: (error: Error | undefined) => void;
}

export class Rendezvous {
  readonly #worker: Worker;
  readonly #requests: RequestTable;
  readonly #pins = new Map<number, Registration>();
  readonly #f64 = new Float64Array(1);
  readonly #head = new Uint8Array(this.#f64.buffer);
  readonly #words = new Int32Array(this.#f64.buffer);

  constructor(worker: Worker, requests: RequestTable) {
    this.#worker = worker;
    this.#requests = requests;
  }

  /** Registers the memory of a request for as long as it lasts. False when it cannot be registered. */
  pin(index: number, payload: Payload): boolean {
    if (this.#pins.has(index)) return true;
    let entry: Registration;
    try {
      entry = this.#worker.context.registrations.acquire(payload.bytes);
    } catch {
      return false; // WebAssembly or resizable memory: it goes in fragments
    }
    this.#pins.set(index, entry);
    payload.region = entry.region;
    payload.regionOffset = payload.bytes.byteOffset - entry.region.bytes.byteOffset;
    return true;
  }

  unpin(index: number): void {
    const entry = this.#pins.get(index);
    if (entry === undefined) return;
    this.#pins.delete(index);
    this.#worker.context.registrations.release(entry);
  }

  /** The receiver's part begins: a receive has met an announcement. */
  begin(endpoint: Endpoint, index: number, address: number, rkey: number, length: number, sender: number, flags: number): void {
    const requests = this.#requests;
    const payload = requests.payload[index] as Payload;
    requests.endpoint[index] = endpoint.id;
    requests.length[index] = length;
    requests.aux[index] = -1;
    if (endpoint.state === 'failed' || endpoint.state === 'closed') {
      requests.fail(index, new PeerLost(endpoint.peer, requests.describe(index), 'the data was still at the sender'));
      return;
    }
    if (length > payload.length) {
      endpoint.control(ATS, sender, STATUS_OK);
      requests.fail(
        index,
        new MessagingError(
          'MSG_TRUNCATED',
          `the message has ${length} bytes, the receive buffer ${payload.length}: receive into a larger one, or probe first`,
        ),
      );
      return;
    }
    if (length === 0) {
      endpoint.control(ATS, sender, STATUS_OK);
      requests.complete(index);
      return;
    }
    const direct = payload.pieces === undefined && (flags & (RTS_GET | RTS_PUT)) !== 0 && this.pin(index, payload);
    if (direct && flags & RTS_GET) {
      this.#move(endpoint, 'RDMA_READ', payload, address, rkey, length, (flags & RTS_PIPELINE) !== 0, (error) => {
        this.unpin(index);
        endpoint.control(ATS, sender, error === undefined ? STATUS_OK : STATUS_FAILED);
        if (error === undefined) requests.complete(index);
        else requests.fail(index, error);
      });
      return;
    }
    if (direct) {
      const region = payload.region as NonNullable<Payload['region']>;
      this.#f64[0] = region.addr + payload.regionOffset;
      endpoint.control(RTR | (RTR_PUT << 8), sender, requests.handle(index), [0, region.rkey, this.#words[0], this.#words[1]]);
      return;
    }
    endpoint.control(RTR, sender, requests.handle(index));
  }

  /** The sender's part goes on: the receiver is ready. */
  onRtr(endpoint: Endpoint, i32: Int32Array, slot: number): void {
    const requests = this.#requests;
    const index = requests.find(i32[slot + S_TAG_LO]);
    const receiver = i32[slot + S_TAG_LO + 1];
    this.#worker.tags.offerResolved(endpoint, i32[slot + S_TAG_LO]);
    if (index < 0) {
      endpoint.control(ATP, receiver, STATUS_FAILED);
      return;
    }
    const payload = requests.payload[index] as Payload;
    if (((i32[slot + S_KIND] >>> 8) & RTR_PUT) === 0) {
      requests.aux[index] = receiver;
      endpoint.transferQueue.push(requests.handle(index));
      endpoint.waiting = true;
      return;
    }
    const rkey = i32[slot + S_BULK] >>> 0;
    this.#words[0] = i32[slot + S_BULK + 1];
    this.#words[1] = i32[slot + S_BULK + 2];
    const split = endpoint.lanes.length > 1 && payload.length >= this.#worker.fragmentBytes;
    this.#move(endpoint, 'RDMA_WRITE', payload, this.#f64[0], rkey, payload.length, split, (error) => {
      this.unpin(index);
      endpoint.control(ATP, receiver, error === undefined ? STATUS_OK : STATUS_FAILED);
      if (error === undefined) requests.complete(index);
      else requests.fail(index, error);
    });
  }

  /** The receiver has read everything, or failed. */
  onAts(endpoint: Endpoint, handle: number, status: number): void {
    this.#worker.tags.offerResolved(endpoint, handle);
    const index = this.#requests.find(handle);
    if (index < 0) return;
    this.unpin(index);
    if (status === STATUS_OK) this.#requests.complete(index);
    else this.#requests.fail(index, this.#remoteFailure(endpoint, index));
  }

  /** The sender has written everything, or failed. */
  onAtp(endpoint: Endpoint, handle: number, status: number): void {
    const index = this.#requests.find(handle);
    if (index < 0) return;
    this.unpin(index);
    if (status === STATUS_OK) this.#requests.complete(index);
    else this.#requests.fail(index, this.#remoteFailure(endpoint, index));
  }

  #remoteFailure(endpoint: Endpoint, index: number): MessagingError {
    return new MessagingError(
      'MSG_REMOTE',
      `${endpoint.peer} could not carry out its part of ${this.#requests.describe(index)}: its own error says why`,
    );
  }

  /** Sends fragments of a request through the ring. True when all of it is there. */
  advanceData(endpoint: Endpoint, index: number): boolean {
    const requests = this.#requests;
    const payload = requests.payload[index] as Payload;
    const ring = endpoint.transfersOut;
    const longest = ring.bulkBytes >> 2;
    while (requests.moved[index] < payload.length) {
      const offset = requests.moved[index];
      const count = Math.min(longest - DATA_HEAD_BYTES, payload.length - offset);
      const slot = ring.reserveBulk(count + DATA_HEAD_BYTES);
      if (slot < 0) return false;
      const at = ring.bulkAt + ring.bulkOffset;
      this.#f64[0] = offset;
      for (let b = 0; b < DATA_HEAD_BYTES; b++) ring.u8[at + b] = this.#head[b];
      payload.pack(offset, count, ring.u8, at + DATA_HEAD_BYTES);
      ring.i32[slot + S_KIND] = DATA;
      ring.i32[slot + S_TAG_LO] = requests.aux[index];
      ring.i32[slot + S_LENGTH] = count + DATA_HEAD_BYTES;
      ring.i32[slot + S_BULK] = ring.bulkOffset;
      ring.publish(slot);
      endpoint.announce();
      requests.moved[index] = offset + count;
    }
    this.unpin(index);
    requests.complete(index);
    return true;
  }

  /** A fragment came. */
  onData(endpoint: Endpoint, i32: Int32Array, slot: number): void {
    const requests = this.#requests;
    const index = requests.find(i32[slot + S_TAG_LO]);
    if (index < 0) return;
    const payload = requests.payload[index] as Payload;
    const { u8, bulkAt } = endpoint.transfersIn;
    const at = bulkAt + i32[slot + S_BULK];
    const count = i32[slot + S_LENGTH] - DATA_HEAD_BYTES;
    for (let b = 0; b < DATA_HEAD_BYTES; b++) this.#head[b] = u8[at + b];
    payload.unpack(this.#f64[0], count, u8, at + DATA_HEAD_BYTES);
    requests.moved[index] += count;
    if (requests.moved[index] === requests.length[index] && requests.state[index] === PENDING) requests.complete(index);
  }

  /** Moves bytes by READ or WRITE, in one piece or over all lanes. */
  #move(
    endpoint: Endpoint,
    opcode: 'RDMA_READ' | 'RDMA_WRITE',
    payload: Payload,
    remoteAddress: number,
    rkey: number,
    length: number,
    split: boolean,
    finish: (error: Error | undefined) => void,
  ): void {
    const fragment = split ? this.#worker.fragmentBytes : LONGEST;
    const transfer: Transfer = {
      endpoint,
      opcode,
      payload,
      remoteAddress,
      rkey,
      length,
      fragment,
      returned: [],
      next: 0,
      done: 0,
      active: 0,
      over: false,
      finish,
    };
    const lanes = split ? endpoint.lanes : endpoint.lanes.slice(0, 1);
    for (let turn = 0; turn < PER_LANE; turn++) for (const lane of lanes) this.#feed(transfer, lane);
  }

  /** Gives the lane its next fragment, if there is one. */
  #feed(transfer: Transfer, lane: Lane): void {
    if (!lane.alive || transfer.over) return;
    let offset = transfer.returned.pop();
    if (offset === undefined) {
      if (transfer.next >= transfer.length) return;
      offset = transfer.next;
      transfer.next += transfer.fragment;
    }
    const start = offset;
    const count = Math.min(transfer.fragment, transfer.length - start);
    const { payload, endpoint } = transfer;
    const region = payload.region as NonNullable<Payload['region']>;
    transfer.active++;
    this.#worker.operations++;
    lane.post({
      request: {
        opcode: transfer.opcode,
        sgl: [region.slice(payload.regionOffset + start, count)],
        remoteAddr: transfer.remoteAddress + start,
        rkey: transfer.rkey,
      },
      done: (status, words) => {
        transfer.active--;
        this.#worker.operations--;
        if (transfer.over) return;
        if (status === 0) {
          transfer.done += count;
          lane.counted += count;
          if (transfer.done === transfer.length) {
            transfer.over = true;
            transfer.finish(undefined);
          } else {
            this.#feed(transfer, lane);
          }
          return;
        }
        transfer.returned.push(start);
        const others = endpoint.lanes.filter((other) => other.alive && other !== lane);
        if (transfer.fragment === LONGEST || others.length === 0) {
          transfer.over = true;
          const operation = transfer.opcode === 'RDMA_READ' ? 'a rendezvous read' : 'a rendezvous write';
          transfer.finish(new PeerLost(endpoint.peer, `${operation} of ${transfer.length} bytes`, words));
          return;
        }
        for (const other of others) this.#feed(transfer, other);
      },
    });
  }
}
