/**
 * Remote memory on UCX: its keys, its put, get and atomics. What a transport cannot do by itself UCX lets the owner's worker do when it makes progress.
 *
 * ```
 *   packed key   0 version | 1 'U' | 2 bytes of UCX's key | 8 length f64 | 16 address f64 | 24 UCX's key
 * ```
 */

import { MessagingError } from '../errors.js';
import type { Payload } from '../payload.js';
import type { CallOptions } from '../request.js';
import { KIND_RMA } from '../requests.js';
import { type ExposedMemory, RemoteMemory } from '../rma/remote-memory.js';
import { WIRE_VERSION } from '../wire/hello.js';
import type { Pointer } from './addon.js';
import type { UcxEndpoint } from './endpoint.js';
import type { UcxFabric } from './fabric.js';
import { ATOMIC_ADD, ATOMIC_CSWAP, VALUE, wordsOf } from './rings.js';

const MARK = 0x55;
const HEAD_BYTES = 24;
/** Puts up to this size are taken at once. */
const SMALL_PUT_BYTES = 256;
const COUNTED = { begin: () => {} };
/** UCS_ERR_CANCELED, when it comes at once. */
const NO_PROTOCOL = -16;

export class UcxExposedMemory implements ExposedMemory {
  readonly bytes: Uint8Array;
  readonly #fabric: UcxFabric;
  readonly #address: number;
  readonly #memory: Pointer;
  #isOwn: boolean;

  constructor(fabric: UcxFabric, bytes: Uint8Array) {
    this.bytes = bytes;
    this.#fabric = fabric;
    this.#address = fabric.addressOf(bytes);
    const known = fabric.memoryOf(bytes.buffer);
    this.#isOwn = known === undefined;
    this.#memory = known ?? fabric.map(this.#address, bytes.length);
  }

  pack(): Uint8Array {
    const { addon, context } = this.#fabric;
    const key = addon.memoryPack(context, this.#memory);
    if (key === undefined) throw new MessagingError('MSG_UNSUPPORTED', 'UCX gives no key for this memory');
    const head = Buffer.alloc(HEAD_BYTES);
    head[0] = WIRE_VERSION;
    head[1] = MARK;
    head.writeUInt16LE(key.length, 2);
    head.writeDoubleLE(this.bytes.length, 8);
    head.writeDoubleLE(this.#address, 16);
    return new Uint8Array(Buffer.concat([head, key]));
  }

  close(): void {
    if (this.#isOwn) this.#fabric.unmap(this.#memory);
    this.#isOwn = false;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

export class UcxRemoteMemory extends RemoteMemory {
  readonly endpoint: UcxEndpoint;
  readonly length: number;
  readonly hasAtomics = true;
  readonly #address: number;
  readonly #key: Pointer;
  readonly #over = (): void => this.endpoint.endRemote();

  constructor(endpoint: UcxEndpoint, packed: Uint8Array) {
    super();
    const blob = Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength);
    if (
      blob.length < HEAD_BYTES ||
      blob[0] !== WIRE_VERSION ||
      blob[1] !== MARK ||
      blob.length < HEAD_BYTES + blob.readUInt16LE(2)
    ) {
      throw new MessagingError('MSG_INVALID', 'these bytes are no packed key of this version');
    }
    if (endpoint.way < 0) {
      throw new MessagingError('MSG_INVALID', `unpacking a key of ${endpoint.peer} needs a connection: await ready() first`);
    }
    this.endpoint = endpoint;
    this.length = blob.readDoubleLE(8);
    this.#address = blob.readDoubleLE(16);
    const key = new Uint8Array(blob.subarray(HEAD_BYTES, HEAD_BYTES + blob.readUInt16LE(2)));
    this.#key = endpoint.worker.unpackKey(endpoint, key);
  }

  map(): undefined {
    return undefined;
  }

  /** Reads to an address; returns as a command does. */
  read(offset: number, address: number, length: number): number {
    this.check(offset, length);
    const { endpoint } = this;
    return endpoint.worker.rings.get(endpoint.way, address, length, this.#address + offset, this.#key);
  }

  /** Lets the key go. */
  release(): void {
    this.endpoint.worker.releaseKey(this.#key);
  }

  postPut(offset: number, payload: Payload): number {
    return this.#begin(offset, payload, true);
  }

  postGet(offset: number, payload: Payload): number {
    return this.#begin(offset, payload, false);
  }

  #begin(offset: number, payload: Payload, isPut: boolean): number {
    this.check(offset, payload.length);
    const { endpoint } = this;
    endpoint.check();
    if (payload.pieces !== undefined)
      throw new MessagingError('MSG_INVALID', 'put and get take one run of bytes: call them once for each piece');
    if (!endpoint.isFenced) {
      const result = this.#issue(offset, payload, isPut);
      if (result === 0) return 0;
      const row = this.#row(payload);
      endpoint.beginRemote(COUNTED);
      this.#follow(row, result, payload);
      return row + 1;
    }
    const row = this.#row(payload);
    endpoint.beginRemote({ begin: () => this.#follow(row, this.#issue(offset, payload, isPut), payload) });
    return row + 1;
  }

  /** The request of an operation that goes on. */
  #row(payload: Payload | undefined): number {
    const { requests } = this.endpoint.worker;
    const row = requests.begin(KIND_RMA, payload);
    row.endpoint = this.endpoint.id;
    row.length = payload?.length ?? 8;
    return row.handle;
  }

  #issue(offset: number, payload: Payload, isPut: boolean): number {
    const { endpoint } = this;
    const { worker, way } = endpoint;
    const { rings } = worker;
    const { length } = payload;
    const remote = this.#address + offset;
    if (!isPut) return rings.get(way, worker.addressFor(payload), length, remote, this.#key);
    endpoint.isUnflushed = true;
    if (length > SMALL_PUT_BYTES) {
      const result = rings.put(way, worker.addressFor(payload), length, remote, this.#key);
      // UCX is done with the memory before everything is there; the flush is not.
      return result < 0 ? result : rings.flush(way);
    }
    payload.pack(0, length, rings.commandBytes, rings.putAt);
    return rings.putInline(way, length, remote, this.#key);
  }

  /** The request ends with what was issued. */
  #follow(handle: number, result: number, payload: Payload): void {
    const { worker } = this.endpoint;
    if (result > 0) {
      worker.track(result, payload.bytes, handle, this.#over);
      return;
    }
    worker.finish(handle, result);
    this.#over();
  }

  fetchAdd(offset: number, add: bigint, options?: CallOptions): Promise<bigint> {
    return this.#atomic(ATOMIC_ADD, offset, add, 0n, options);
  }

  compareSwap(offset: number, compare: bigint, swap: bigint, options?: CallOptions): Promise<bigint> {
    return this.#atomic(ATOMIC_CSWAP, offset, compare, swap, options);
  }

  async #atomic(operation: number, offset: number, operand: bigint, swap: bigint, options?: CallOptions): Promise<bigint> {
    this.checkWord(offset);
    const { endpoint } = this;
    const { worker } = endpoint;
    const { rings } = worker;
    const handle = this.#row(undefined);
    const pending = worker.own(handle + 1);
    let found = 0n;
    const over = (status: number, words: Int32Array, at: number) => {
      found = wordsOf(words, at);
      worker.finish(handle, status);
      endpoint.endRemote();
    };
    endpoint.beginRemote({
      begin: () => {
        rings.operands[0] = BigInt.asUintN(64, operand);
        rings.operands[1] = BigInt.asUintN(64, swap);
        const result = rings.atomic(endpoint.way, operation, this.#address + offset, this.#key);
        if (result === NO_PROTOCOL) this.#refuse(handle);
        if (result > 0) worker.track(result, undefined, -1, over);
        else over(result, rings.head, VALUE);
      },
    });
    await pending.wait(options);
    return found;
  }

  #refuse(handle: number): void {
    const { requests, fabric } = this.endpoint.worker;
    const row = requests.find(handle);
    const words = `UCX ${fabric.addon.version()} has no atomics to ${this.endpoint.peer}: its newer protocols have them only where the network does`;
    if (row !== undefined) requests.fail(row, new MessagingError('MSG_UNSUPPORTED', words));
  }
}
