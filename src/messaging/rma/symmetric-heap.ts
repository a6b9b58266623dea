/**
 * A symmetric heap: the same offset is valid on every rank of a group (PGAS, OpenSHMEM's model).
 *
 * Every rank gives one block of memory of the same size; the keys are exchanged once. From then on `put(rank, offset, data)` needs no address. Offsets
 * come from `alloc`, which every rank calls in the same order with the same sizes, so the results agree without a message.
 */

import type { Endpoint } from '../endpoint.js';
import { MessagingError } from '../errors.js';
import type { Data } from '../payload.js';
import type { CallOptions } from '../request.js';
import type { Worker } from '../worker.js';
import { type ExposedMemory, MOST_PACKED_BYTES, type RemoteMemory } from './remote-memory.js';

/** The context of the key exchange, apart from the user's tags. */
const HEAP_CONTEXT = 0xfff0;
const ALIGNMENT = 64;
/** How long `waitUntil` looks without pause, ms. */
const SPIN_MS = 5;

export interface SymmetricHeapOptions extends CallOptions {
  /** This rank. */
  readonly rank: number;
  /** An endpoint to every rank, in order; the own entry is not used. */
  readonly endpoints: readonly (Endpoint | undefined)[];
  /** Bytes on every rank. */
  readonly bytes: number;
  /** Tells heaps of one group apart that are made at the same time. Default 0. */
  readonly id?: number;
}

/** How `waitUntil` compares. */
export type Comparison = '==' | '!=' | '>' | '>=' | '<' | '<=';

const COMPARE: Readonly<Record<Comparison, (a: bigint, b: bigint) => boolean>> = {
  '==': (a, b) => a === b,
  '!=': (a, b) => a !== b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
};

export class SymmetricHeap {
  readonly rank: number;
  readonly size: number;
  /** This rank's part. */
  readonly local: Uint8Array;
  readonly #worker: Worker;
  readonly #exposed: ExposedMemory;
  readonly #remotes: (RemoteMemory | undefined)[];
  readonly #words: BigInt64Array;
  #used = 0;

  private constructor(worker: Worker, rank: number, exposed: ExposedMemory, remotes: (RemoteMemory | undefined)[]) {
    this.#worker = worker;
    this.rank = rank;
    this.size = remotes.length;
    this.#exposed = exposed;
    this.local = exposed.bytes;
    this.#remotes = remotes;
    this.#words = new BigInt64Array(exposed.bytes.buffer, exposed.bytes.byteOffset, exposed.bytes.length >> 3);
  }

  /** Makes the heap together with the other ranks. Throws MSG_INVALID when the sizes differ, PeerLost, MSG_TIMEOUT. */
  static async create(worker: Worker, options: SymmetricHeapOptions): Promise<SymmetricHeap> {
    const { rank, endpoints, id = 0 } = options;
    const bytes = (options.bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    if (!(Number.isSafeInteger(options.bytes) && options.bytes > 0)) {
      throw new MessagingError('MSG_INVALID', `bytes must be a number from 1 on: got ${String(options.bytes)}`);
    }
    const exposed = worker.expose(worker.context.alloc(bytes));
    const packed = exposed.pack();
    const remotes = await Promise.all(
      endpoints.map(async (endpoint, other) => {
        if (other === rank) return undefined;
        if (endpoint === undefined) throw new MessagingError('MSG_INVALID', `there is no endpoint to rank ${other}`);
        await endpoint.ready(options);
        const theirs = new Uint8Array(MOST_PACKED_BYTES);
        const arrived = worker.recv(id * 2 ** 20 + other, theirs, { ...options, from: endpoint }, HEAP_CONTEXT);
        await worker.send(endpoint, id * 2 ** 20 + rank, packed, options, HEAP_CONTEXT);
        await arrived;
        const remote = endpoint.unpack(theirs);
        if (remote.length !== bytes) {
          throw new MessagingError(
            'MSG_INVALID',
            `rank ${other} gives ${remote.length} bytes, this rank ${bytes}: they must agree`,
          );
        }
        return remote;
      }),
    );
    return new SymmetricHeap(worker, rank, exposed, remotes);
  }

  /** An offset for `bytes` bytes. Every rank must call it in the same order. Throws MSG_INVALID when the heap is full. */
  alloc(bytes: number): number {
    const offset = this.#used;
    if (offset + bytes > this.local.length) {
      throw new MessagingError(
        'MSG_INVALID',
        `the heap of ${this.local.length} bytes has ${this.local.length - offset} left, not ${bytes}`,
      );
    }
    this.#used = (offset + bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    return offset;
  }

  #remote(rank: number): RemoteMemory {
    const remote = this.#remotes[rank];
    if (remote === undefined)
      throw new MessagingError('MSG_INVALID', `rank ${rank} is not one of the other ranks 0 to ${this.size - 1}`);
    return remote;
  }

  /** Writes to a rank; `data` may then be used again. `quiet` waits until it is there. */
  async put(rank: number, offset: number, data: Data, options?: CallOptions): Promise<void> {
    if (rank !== this.rank) return this.#remote(rank).put(offset, data, options);
    const payload = this.#worker.payload(data);
    payload.pack(0, payload.length, this.local, offset);
  }

  /** Resolves when everything that this rank has put is there (OpenSHMEM's quiet). */
  async quiet(options?: CallOptions): Promise<void> {
    await Promise.all(this.#remotes.map((remote) => remote?.endpoint.flush(options)));
  }

  /** Reads from a rank. */
  async get(rank: number, offset: number, into: Data, options?: CallOptions): Promise<void> {
    if (rank !== this.rank) return this.#remote(rank).get(offset, into, options);
    const payload = this.#worker.payload(into);
    payload.unpack(0, payload.length, this.local, offset);
  }

  /** Adds to a word of a rank; returns what was there. */
  async fetchAdd(rank: number, offset: number, add: bigint, options?: CallOptions): Promise<bigint> {
    if (rank !== this.rank) return BigInt.asIntN(64, await this.#remote(rank).fetchAdd(offset, add, options));
    return Atomics.add(this.#words, this.#word(offset), add);
  }

  /** Stores `swap` into a word of a rank if `compare` is there; returns what was there. */
  async compareSwap(rank: number, offset: number, compare: bigint, swap: bigint, options?: CallOptions): Promise<bigint> {
    if (rank !== this.rank) return BigInt.asIntN(64, await this.#remote(rank).compareSwap(offset, compare, swap, options));
    return Atomics.compareExchange(this.#words, this.#word(offset), compare, swap);
  }

  /** Stores a value into a word of a rank; returns what was there. */
  async swap(rank: number, offset: number, value: bigint, options?: CallOptions): Promise<bigint> {
    if (rank !== this.rank) return BigInt.asIntN(64, await this.#remote(rank).swap(offset, value, options));
    return Atomics.exchange(this.#words, this.#word(offset), value);
  }

  async fetchAnd(rank: number, offset: number, mask: bigint, options?: CallOptions): Promise<bigint> {
    if (rank !== this.rank) return BigInt.asIntN(64, await this.#remote(rank).fetchAnd(offset, mask, options));
    return Atomics.and(this.#words, this.#word(offset), mask);
  }

  async fetchOr(rank: number, offset: number, mask: bigint, options?: CallOptions): Promise<bigint> {
    if (rank !== this.rank) return BigInt.asIntN(64, await this.#remote(rank).fetchOr(offset, mask, options));
    return Atomics.or(this.#words, this.#word(offset), mask);
  }

  async fetchXor(rank: number, offset: number, mask: bigint, options?: CallOptions): Promise<bigint> {
    if (rank !== this.rank) return BigInt.asIntN(64, await this.#remote(rank).fetchXor(offset, mask, options));
    return Atomics.xor(this.#words, this.#word(offset), mask);
  }

  #word(offset: number): number {
    if (offset % 8 !== 0 || !(offset >= 0 && offset < this.local.length)) {
      throw new MessagingError('MSG_INVALID', `an atomic works on 8 aligned bytes of the heap: got offset ${offset}`);
    }
    return offset / 8;
  }

  /** Waits until a word of this rank compares with a value, because a peer wrote there. Throws MSG_TIMEOUT, the signal's reason. */
  async waitUntil(offset: number, comparison: Comparison, value: bigint, options: CallOptions = {}): Promise<bigint> {
    const at = this.#word(offset);
    const { signal, timeoutMs = this.#worker.timeoutMs } = options;
    const holds = COMPARE[comparison];
    if (holds === undefined)
      throw new MessagingError('MSG_INVALID', `compare with ${Object.keys(COMPARE).join(' ')}: got '${String(comparison)}'`);
    const start = performance.now();
    const deadline = start + timeoutMs;
    for (;;) {
      for (let look = 0; look < 256; look++) {
        const found = Atomics.load(this.#words, at);
        if (holds(found, value)) return found;
      }
      signal?.throwIfAborted();
      if (performance.now() > deadline) {
        throw new MessagingError(
          'MSG_TIMEOUT',
          `the word at ${offset} did not become ${comparison} ${value} within ${timeoutMs} ms`,
        );
      }
      this.#worker.poll();
      // A peer that writes memory wakes nobody: after a while one looks less often.
      const isLong = performance.now() - start > SPIN_MS;
      await new Promise<void>((resolve) => (isLong ? setTimeout(resolve, 1) : setImmediate(resolve)));
    }
  }

  /** Gives this rank's memory back. The other ranks must not use it any more. */
  close(): void {
    this.#exposed.close();
    this.#worker.context.free(this.local);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
