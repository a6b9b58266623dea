/**
 * Remote memory: put, get and atomics on memory of the peer, without its help.
 *
 * The owner registers memory and packs a key; whoever gets those bytes unpacks them on its endpoint to that owner. Adding and compare-and-swap are
 * operations of the device; and, or, xor and swap are made of them: read, then compare-and-swap until nobody came in between.
 *
 * ```
 *   packed key, 24 bytes    0 version | 1 flags (1 atomics) | 4 rkey u32 | 8 address f64 | 16 length f64
 * ```
 */

import type { MemoryRegion, PreparedSend, RemoteRegion } from '../../verbs/index.js';
import type { Endpoint } from '../endpoint.js';
import { MessagingError, PeerLost } from '../errors.js';
import type { Registration } from '../memory/registration-cache.js';
import { type Data, type Payload, payloadOf } from '../payload.js';
import type { CallOptions } from '../request.js';
import { KIND_RMA } from '../requests.js';
import { WIRE_VERSION } from '../wire/hello.js';
import type { Worker } from '../worker.js';

export const PACKED_BYTES = 24;
const WORD = 8;
const HAS_ATOMICS = 1;
/** Small puts between two looks at the completion queue, less one. */
const REAP_MASK = 127;
/** See SMALL_PUT_BYTES of worker.ts. */
const SMALL_PUT_BYTES = 256;

/** Memory that peers may reach. Made by `worker.expose`. */
export class ExposedMemory {
  readonly bytes: Uint8Array;
  readonly #registration: Registration;
  readonly #worker: Worker;
  #open = true;

  constructor(worker: Worker, bytes: Uint8Array) {
    this.bytes = bytes;
    this.#worker = worker;
    this.#registration = worker.context.registrations.acquire(bytes);
  }

  /** What a peer needs, as bytes to be passed on by any means. */
  pack(): Uint8Array {
    const { region } = this.#registration;
    const blob = Buffer.alloc(PACKED_BYTES);
    blob[0] = WIRE_VERSION;
    blob[1] = region.access & 8 ? HAS_ATOMICS : 0;
    blob.writeUInt32LE(region.rkey, 4);
    blob.writeDoubleLE(region.addr + this.bytes.byteOffset - region.bytes.byteOffset, 8);
    blob.writeDoubleLE(this.bytes.length, 16);
    return new Uint8Array(blob);
  }

  /** Lets the memory go out of use. The key dies when the registration cache drops the memory, or with the context. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#worker.context.registrations.release(this.#registration);
  }
}

/** Memory of a peer. Made by `endpoint.unpack`. */
export class RemoteMemory {
  readonly endpoint: Endpoint;
  readonly length: number;
  /** Whether the device can run atomics on it. */
  readonly hasAtomics: boolean;
  readonly #remote: RemoteRegion;
  readonly #puts = new Map<MemoryRegion, PreparedSend>();
  readonly #gets = new Map<MemoryRegion, PreparedSend>();
  #lastRegion: MemoryRegion | undefined;
  #lastPut: PreparedSend | undefined;
  #small: PreparedSend | undefined;

  constructor(endpoint: Endpoint, packed: Uint8Array) {
    const blob = Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength);
    if (blob.length < PACKED_BYTES || blob[0] !== WIRE_VERSION) {
      throw new MessagingError('MSG_INVALID', 'these bytes are no packed key of this version');
    }
    this.endpoint = endpoint;
    this.hasAtomics = (blob[1] & HAS_ATOMICS) !== 0;
    this.length = blob.readDoubleLE(16);
    this.#remote = { rkey: blob.readUInt32LE(4), addr: blob.readDoubleLE(8), length: this.length };
  }

  /**
   * Writes memory of the peer; resolves when `data` may be used again: of up to 256 bytes at once, of more when all of it is there. `endpoint.flush()` waits
   * until everything is there. Throws MSG_INVALID outside the memory, PeerLost, MSG_TIMEOUT. */
  async put(offset: number, data: Data, options?: CallOptions): Promise<void> {
    const handle = this.postPut(offset, payloadOf(data));
    if (handle !== 0) await this.endpoint.worker.own(handle).wait(options);
  }

  /** Reads memory of the peer; resolves when `into` is filled. Throws as put. */
  async get(offset: number, into: Data, options?: CallOptions): Promise<void> {
    await this.endpoint.worker.own(this.postGet(offset, payloadOf(into))).wait(options);
  }

  /** The synchronous form of put: 0 when it is done with `payload`, else a handle for `worker.test`. */
  postPut(offset: number, payload: Payload): number {
    const { endpoint } = this;
    const { length } = payload;
    if (length > SMALL_PUT_BYTES || endpoint.isFenced || endpoint.state !== 'ready') return this.#begin(offset, payload, true);
    this.#check(offset, length);
    const { worker } = endpoint;
    if ((++endpoint.smallPuts & REAP_MASK) === 0) worker.reap();
    this.#small ??= endpoint.lanes[0].qp.prepare({
      opcode: 'RDMA_WRITE',
      local: worker.scratch,
      remote: this.#remote,
      inline: true,
      signaledEvery: 16,
    });
    payload.pack(0, length, worker.scratch.bytes, 0);
    this.#small.post(0, length, 0, offset);
    return 0;
  }

  /** The synchronous form of get. */
  postGet(offset: number, payload: Payload): number {
    return this.#begin(offset, payload, false);
  }

  #check(offset: number, length: number): void {
    if (!(Number.isInteger(offset) && offset >= 0 && offset + length <= this.length)) {
      throw new MessagingError(
        'MSG_INVALID',
        `bytes ${offset} to ${offset + length} are outside the ${this.length} bytes of the peer`,
      );
    }
  }

  #begin(offset: number, payload: Payload, isPut: boolean): number {
    this.#check(offset, payload.length);
    const { endpoint } = this;
    const { worker } = endpoint;
    endpoint.check();
    if (payload.pieces !== undefined)
      throw new MessagingError('MSG_INVALID', 'put and get take one run of bytes: call them once for each piece');
    const { requests, rendezvous } = worker;
    const index = requests.begin(KIND_RMA, payload);
    requests.endpoint[index] = endpoint.id;
    requests.length[index] = payload.length;
    if (!rendezvous.pin(index, payload)) {
      requests.release(index);
      throw new MessagingError('MSG_INVALID', 'this memory cannot be registered: use an ordinary ArrayBuffer or context.alloc');
    }
    const handle = requests.handle(index) + 1;
    endpoint.beginRemote(() => {
      const region = payload.region as MemoryRegion;
      const done = (status: number, words: string) => {
        rendezvous.unpin(index);
        if (requests.find(handle - 1) === index) {
          if (status === 0) requests.complete(index);
          else requests.fail(index, new PeerLost(endpoint.peer, isPut ? 'put' : 'get', words));
        }
        endpoint.endRemote();
      };
      const prepared = this.#prepared(region, isPut);
      const lane = endpoint.lanes[0];
      const id = lane.track({ done });
      try {
        prepared.post(payload.regionOffset, payload.length, id, offset);
      } catch (error) {
        lane.completed(id, -1, error instanceof Error ? error.message : String(error));
      }
    });
    return handle;
  }

  #prepared(region: MemoryRegion, isPut: boolean): PreparedSend {
    if (isPut && region === this.#lastRegion) return this.#lastPut as PreparedSend;
    const cache = isPut ? this.#puts : this.#gets;
    let prepared = cache.get(region);
    if (prepared === undefined) {
      if (cache.size > 64) cache.clear();
      prepared = this.endpoint.lanes[0].qp.prepare({
        opcode: isPut ? 'RDMA_WRITE' : 'RDMA_READ',
        local: region,
        remote: this.#remote,
      });
      cache.set(region, prepared);
    }
    if (isPut) {
      this.#lastRegion = region;
      this.#lastPut = prepared;
    }
    return prepared;
  }

  // ---- atomics on 64-bit words ----

  /** Adds; returns what was there. The offset is a multiple of 8. Throws MSG_UNSUPPORTED when the memory does not take atomics. */
  fetchAdd(offset: number, add: bigint, options?: CallOptions): Promise<bigint> {
    return this.#atomic(offset, { opcode: 'ATOMIC_FETCH_AND_ADD', add: BigInt.asUintN(64, add) }, options);
  }

  /** Stores `swap` if `compare` is there; returns what was there. */
  compareSwap(offset: number, compare: bigint, swap: bigint, options?: CallOptions): Promise<bigint> {
    const words = { compare: BigInt.asUintN(64, compare), swap: BigInt.asUintN(64, swap) };
    return this.#atomic(offset, { opcode: 'ATOMIC_CMP_AND_SWP', ...words }, options);
  }

  /** Stores a value; returns what was there. */
  swap(offset: number, value: bigint, options?: CallOptions): Promise<bigint> {
    return this.#emulate(offset, () => value, options);
  }

  fetchAnd(offset: number, mask: bigint, options?: CallOptions): Promise<bigint> {
    return this.#emulate(offset, (old) => old & mask, options);
  }

  fetchOr(offset: number, mask: bigint, options?: CallOptions): Promise<bigint> {
    return this.#emulate(offset, (old) => old | mask, options);
  }

  fetchXor(offset: number, mask: bigint, options?: CallOptions): Promise<bigint> {
    return this.#emulate(offset, (old) => old ^ mask, options);
  }

  async #emulate(offset: number, next: (old: bigint) => bigint, options?: CallOptions): Promise<bigint> {
    // The first compare is a guess; a wrong one returns the value to try with.
    let seen = 0n;
    for (;;) {
      const found = await this.compareSwap(offset, seen, next(seen), options);
      if (found === seen) return found;
      seen = found;
    }
  }

  async #atomic(
    offset: number,
    operands: { opcode: 'ATOMIC_FETCH_AND_ADD'; add: bigint } | { opcode: 'ATOMIC_CMP_AND_SWP'; compare: bigint; swap: bigint },
    options?: CallOptions,
  ): Promise<bigint> {
    this.#check(offset, WORD);
    const { endpoint } = this;
    const { worker } = endpoint;
    endpoint.check();
    if (offset % WORD !== 0) throw new MessagingError('MSG_INVALID', `an atomic works on 8 aligned bytes: got offset ${offset}`);
    if (!this.hasAtomics) {
      throw new MessagingError(
        'MSG_UNSUPPORTED',
        'this memory does not take atomics: its owner must allocate it with context.alloc',
      );
    }
    const { requests } = worker;
    const result = worker.atomicResults.take();
    const index = requests.begin(KIND_RMA, undefined);
    requests.endpoint[index] = endpoint.id;
    requests.length[index] = WORD;
    const handle = requests.handle(index) + 1;
    endpoint.beginRemote(() => {
      endpoint.lanes[0].post({
        request: {
          ...operands,
          sgl: [worker.atomicResults.region.slice(result * WORD, WORD)],
          remoteAddr: this.#remote.addr + offset,
          rkey: this.#remote.rkey,
        },
        done: (status, words) => {
          if (requests.find(handle - 1) === index) {
            if (status === 0) requests.complete(index);
            else requests.fail(index, new PeerLost(endpoint.peer, 'an atomic', words));
          }
          endpoint.endRemote();
        },
      });
    });
    try {
      await worker.own(handle).wait(options);
      return worker.atomicResults.value(result);
    } finally {
      worker.atomicResults.give(result);
    }
  }
}

/** Words that the results of atomics come back to. */
export class AtomicResults {
  readonly region: MemoryRegion;
  readonly #words: BigUint64Array;
  readonly #free: number[] = [];

  constructor(region: MemoryRegion) {
    this.region = region;
    this.#words = new BigUint64Array(region.bytes.buffer, region.bytes.byteOffset, region.length >> 3);
    for (let i = this.#words.length - 1; i >= 0; i--) this.#free.push(i);
  }

  /** Throws MSG_INVALID when too many atomics are under way. */
  take(): number {
    const at = this.#free.pop();
    if (at === undefined) throw new MessagingError('MSG_INVALID', `${this.#words.length} atomics are under way: wait for some`);
    return at;
  }

  value(at: number): bigint {
    return this.#words[at];
  }

  give(at: number): void {
    this.#free.push(at);
  }
}
