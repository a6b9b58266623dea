/**
 * Remote memory over verbs: the owner registers memory with every device.
 *
 * ```
 *   packed key   0 version | 1 0 | 2 rails | 8 length f64 | for every rail of the owner: address f64, rkey u32, flags u32 (1 atomics)
 * ```
 */

import { VerbsError } from '../../verbs/errors.js';
import type { PreparedSend, QpAddress, RemoteRegion } from '../../verbs/index.js';
import { MessagingError, PeerLost } from '../errors.js';
import type { Registration } from '../memory/registration-cache.js';
import type { Payload } from '../payload.js';
import { SMALL_PUT_BYTES } from '../port.js';
import type { CallOptions } from '../request.js';
import { KIND_RMA } from '../requests.js';
import type { VerbsEndpoint } from '../verbs-endpoint.js';
import type { VerbsWorker } from '../verbs-worker.js';
import { WIRE_VERSION } from '../wire/hello.js';
import type { AtomicOperands } from './emulated-atomics.js';
import { type ExposedMemory, RemoteMemory } from './remote-memory.js';

const HEAD_BYTES = 16;
const KEY_BYTES = 16;
const WORD = 8;
const HAS_ATOMICS = 1;
/** As access.ts of the verbs. */
const ACCESS_REMOTE_ATOMIC = 8;
/** Gets up to here, and puts, are done at once where the device can. */
const SMALL_GET_BYTES = 128;
/** Small puts between two looks at the completion queue, less one. */
const REAP_MASK = 127;

export class VerbsExposedMemory implements ExposedMemory {
  readonly bytes: Uint8Array;
  readonly #registrations: readonly Registration[];
  readonly #worker: VerbsWorker;
  #open = true;

  constructor(worker: VerbsWorker, bytes: Uint8Array) {
    this.bytes = bytes;
    this.#registrations = worker.context.rails.map(({ registrations }) => registrations.acquire(bytes));
    this.#worker = worker;
    for (const [rail, registration] of this.#registrations.entries()) worker.atomics.expose(rail, registration);
  }

  /** 32 bytes with one device, 16 more for each further one. */
  pack(): Uint8Array {
    const blob = Buffer.alloc(HEAD_BYTES + this.#registrations.length * KEY_BYTES);
    blob[0] = WIRE_VERSION;
    blob[2] = this.#registrations.length;
    blob.writeDoubleLE(this.bytes.length, 8);
    this.#registrations.forEach(({ region }, rail) => {
      const at = HEAD_BYTES + rail * KEY_BYTES;
      blob.writeDoubleLE(region.addr + this.bytes.byteOffset - region.bytes.byteOffset, at);
      blob.writeUInt32LE(region.rkey, at + 8);
      blob.writeUInt32LE(region.access & ACCESS_REMOTE_ATOMIC ? HAS_ATOMICS : 0, at + 12);
    });
    return new Uint8Array(blob);
  }

  /** The key dies when the registration cache drops the memory, or with the context. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#registrations.forEach((registration, rail) => {
      this.#worker.atomics.conceal(rail, registration);
      registration.cache.release(registration);
    });
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

export class VerbsRemoteMemory extends RemoteMemory {
  readonly endpoint: VerbsEndpoint;
  readonly length: number;
  readonly hasAtomics: boolean;
  readonly #remote: RemoteRegion;
  #smallPut: PreparedSend | undefined;
  #smallGet: PreparedSend | undefined;

  constructor(endpoint: VerbsEndpoint, packed: Uint8Array) {
    super();
    const blob = Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength);
    if (blob.length < HEAD_BYTES || blob[0] !== WIRE_VERSION || blob.length < HEAD_BYTES + blob[2] * KEY_BYTES) {
      throw new MessagingError('MSG_INVALID', 'these bytes are no packed key of this version');
    }
    if (endpoint.peerRail < 0 || endpoint.peerRail >= blob[2]) {
      throw new MessagingError(
        'MSG_INVALID',
        endpoint.peerRail < 0
          ? `unpacking a key of ${endpoint.peer} needs a connection: await ready() first`
          : `the key has parts for ${blob[2]} devices, the endpoint to ${endpoint.peer} is on number ${endpoint.peerRail}: it was packed by another worker`,
      );
    }
    this.endpoint = endpoint;
    this.length = blob.readDoubleLE(8);
    const at = HEAD_BYTES + endpoint.peerRail * KEY_BYTES;
    this.hasAtomics = (blob.readUInt32LE(at + 12) & HAS_ATOMICS) !== 0;
    this.#remote = { addr: blob.readDoubleLE(at), rkey: blob.readUInt32LE(at + 8), length: this.length };
  }

  map(): Uint8Array | undefined {
    const { device } = this.endpoint.port.rail;
    if (!device.capabilities.directAccess) return undefined;
    const { qp } = this.endpoint.lanes[0];
    try {
      return device.directAccess({ ...qp.address(), av: qp.query().av } as QpAddress, this.#remote);
    } catch (error) {
      if (error instanceof VerbsError && error.code === 'VERBS_UNSUPPORTED') return undefined; // ordinary memory of the owner
      throw error;
    }
  }

  postPut(offset: number, payload: Payload): number {
    const { endpoint } = this;
    const { length } = payload;
    if (length > SMALL_PUT_BYTES || endpoint.isFenced || endpoint.state !== 'ready') return this.#begin(offset, payload, true);
    this.check(offset, length);
    const { port } = endpoint;
    const { scratch } = port;
    this.#smallPut ??= endpoint.lanes[0].qp.prepare({
      opcode: 'RDMA_WRITE',
      local: scratch,
      remote: this.#remote,
      inline: true,
      signaledEvery: 16,
    });
    payload.copyTo(port.scratchWords, scratch.bytes, 0, length);
    if (this.#smallPut.doNow?.(0, length, offset)) return 0;
    this.#smallPut.post(0, length, 0, offset);
    if ((++endpoint.smallPuts & REAP_MASK) === 0) endpoint.worker.poller.reap(port);
    return 0;
  }

  postGet(offset: number, payload: Payload): number {
    const { endpoint } = this;
    const { length } = payload;
    if (length > SMALL_GET_BYTES || endpoint.isFenced || endpoint.state !== 'ready') return this.#begin(offset, payload, false);
    this.check(offset, length);
    const { scratch, scratchWords } = endpoint.port;
    this.#smallGet ??= endpoint.lanes[0].qp.prepare({ opcode: 'RDMA_READ', local: scratch, remote: this.#remote });
    if (!this.#smallGet.doNow?.(0, length, offset)) return this.#begin(offset, payload, false);
    payload.copyFrom(scratchWords, scratch.bytes, 0, length);
    return 0;
  }

  #begin(offset: number, payload: Payload, isPut: boolean): number {
    this.check(offset, payload.length);
    const { endpoint } = this;
    const { worker } = endpoint;
    endpoint.check();
    if (payload.pieces !== undefined)
      throw new MessagingError('MSG_INVALID', 'put and get take one run of bytes: call them once for each piece');
    const { requests, rendezvous } = worker;
    const row = requests.begin(KIND_RMA, payload);
    row.endpoint = endpoint.id;
    row.length = payload.length;
    if (!rendezvous.pin(endpoint, row, payload)) {
      requests.release(row);
      throw new MessagingError('MSG_INVALID', 'this memory cannot be registered: use an ordinary ArrayBuffer or context.alloc');
    }
    const handle = row.handle;
    const operation = worker.remoteOperations.take();
    operation.prepare(endpoint, handle, payload, isPut, this.#remote.addr + offset, this.#remote.rkey);
    endpoint.beginRemote(operation);
    return handle + 1;
  }

  // ---- atomics on 64-bit words ----

  fetchAdd(offset: number, add: bigint, options?: CallOptions): Promise<bigint> {
    return this.#atomic(offset, { opcode: 'ATOMIC_FETCH_AND_ADD', add: BigInt.asUintN(64, add) }, options);
  }

  compareSwap(offset: number, compare: bigint, swap: bigint, options?: CallOptions): Promise<bigint> {
    const words = { compare: BigInt.asUintN(64, compare), swap: BigInt.asUintN(64, swap) };
    return this.#atomic(offset, { opcode: 'ATOMIC_CMP_AND_SWP', ...words }, options);
  }

  async #atomic(offset: number, operands: AtomicOperands, options?: CallOptions): Promise<bigint> {
    this.checkWord(offset);
    const { endpoint } = this;
    const { worker } = endpoint;
    if (!this.hasAtomics) return this.#ask(offset, operands, options);
    const { requests } = worker;
    const { atomicResults } = endpoint.port;
    const result = atomicResults.take();
    const row = requests.begin(KIND_RMA, undefined);
    row.endpoint = endpoint.id;
    row.length = WORD;
    const handle = row.handle;
    const remote = this.#remote;
    const done = (status: number, words: string) => {
      if (requests.find(handle) === row) {
        if (status === 0) requests.complete(row);
        else requests.fail(row, new PeerLost(endpoint.peer, 'an atomic', words));
      }
      endpoint.endRemote();
    };
    endpoint.beginRemote({
      begin: () => {
        endpoint.lanes[0].submit({
          post: (lane, id) => {
            lane.qp.postSend({
              ...operands,
              id,
              sgl: [atomicResults.region.slice(result * WORD, WORD)],
              remoteAddr: remote.addr + offset,
              rkey: remote.rkey,
            });
          },
          done: (_, status, words) => done(status, words),
        });
      },
    });
    try {
      await worker.own(handle + 1).wait(options);
      return atomicResults.value(result);
    } finally {
      atomicResults.give(result);
    }
  }

  /** An atomic that the owner's worker runs. */
  async #ask(offset: number, operands: AtomicOperands, options?: CallOptions): Promise<bigint> {
    const { endpoint } = this;
    const { worker } = endpoint;
    const row = worker.requests.begin(KIND_RMA, undefined);
    row.endpoint = endpoint.id;
    row.length = WORD;
    const request = row.handle;
    const pending = worker.own(request + 1);
    endpoint.beginRemote(worker.atomics.start(endpoint, request, this.#remote.rkey, this.#remote.addr + offset, operands));
    await pending.wait(options);
    return worker.atomics.take(request);
  }
}
