/**
 * Atomics that the device cannot run on some memory (ordinary ArrayBuffers; memory of another device of the context) are asked of the owner by message:
 * its worker runs them with the CPU's own atomics, so they are atomic against everybody else's. Unlike the device's, they wait for the owner to make progress.
 *
 * ```
 *   ATOMIC        words 2, 3: request, operation   4 rkey   6, 7 address   8, 9 add or compare   10, 11 swap
 *   ATOMIC_DONE   words 2, 3: request, status      4, 5 what was there
 * ```
 */

import type { RemoteStart } from '../endpoint.js';
import { MessagingError } from '../errors.js';
import type { Registration } from '../memory/registration-cache.js';
import type { VerbsEndpoint } from '../verbs-endpoint.js';
import type { VerbsWorker } from '../verbs-worker.js';
import { ATOMIC, ATOMIC_DONE, S_LENGTH, S_TAG_HI, S_TAG_LO } from '../wire/slot.js';

const ADD = 0;
const COMPARE_SWAP = 1;
const OK = 0;
const REFUSED = 1;
const WORD = 8;

/** What an atomic does. */
export type AtomicOperands =
  | { readonly opcode: 'ATOMIC_FETCH_AND_ADD'; readonly add: bigint }
  | { readonly opcode: 'ATOMIC_CMP_AND_SWP'; readonly compare: bigint; readonly swap: bigint };

interface Exposed {
  readonly registration: Registration;
  /** How often it is exposed. */
  count: number;
}

export class EmulatedAtomics {
  readonly #worker: VerbsWorker;
  /** Memory that peers may change, by rail and key. */
  readonly #exposed = new Map<number, Exposed>();
  /** What was there, by request. */
  readonly #results = new Map<number, bigint>();
  readonly #asked = new Map<VerbsEndpoint, Set<number>>();
  readonly #block = new DataView(new ArrayBuffer(32));
  readonly #words = new Int32Array(this.#block.buffer);

  constructor(worker: VerbsWorker) {
    this.#worker = worker;
  }

  expose(rail: number, registration: Registration): void {
    const key = rail * 2 ** 32 + registration.region.rkey;
    const known = this.#exposed.get(key);
    if (known === undefined) this.#exposed.set(key, { registration, count: 1 });
    else known.count++;
  }

  conceal(rail: number, registration: Registration): void {
    const key = rail * 2 ** 32 + registration.region.rkey;
    const known = this.#exposed.get(key);
    if (known !== undefined && --known.count === 0) this.#exposed.delete(key);
  }

  /** A request that asks the owner. */
  start(endpoint: VerbsEndpoint, request: number, rkey: number, address: number, operands: AtomicOperands): RemoteStart {
    return {
      begin: () => {
        const block = this.#block;
        const isAdd = operands.opcode === 'ATOMIC_FETCH_AND_ADD';
        block.setUint32(0, rkey, true);
        block.setUint32(4, 0, true);
        block.setFloat64(8, address, true);
        block.setBigUint64(16, isAdd ? operands.add : operands.compare, true);
        block.setBigUint64(24, isAdd ? 0n : operands.swap, true);
        const asked = this.#asked.get(endpoint) ?? new Set<number>();
        this.#asked.set(endpoint, asked.add(request));
        endpoint.control(ATOMIC, request, isAdd ? ADD : COMPARE_SWAP, this.#words);
      },
    };
  }

  /** The result of a request that is complete. */
  take(request: number): bigint {
    const value = this.#results.get(request) ?? 0n;
    this.#results.delete(request);
    return value;
  }

  /** A peer asks. */
  onRequest(endpoint: VerbsEndpoint, i32: Int32Array, slot: number): void {
    const block = this.#block;
    this.#words.set(i32.subarray(slot + S_LENGTH, slot + S_LENGTH + WORD));
    const exposed = this.#exposed.get(endpoint.port.index * 2 ** 32 + block.getUint32(0, true));
    const region = exposed?.registration.region;
    const offset = region === undefined ? -1 : block.getFloat64(8, true) - region.addr;
    const at = region === undefined ? -1 : region.bytes.byteOffset + offset;
    let status = REFUSED;
    let old = 0n;
    if (region !== undefined && offset >= 0 && offset + WORD <= region.length && at % WORD === 0) {
      const word = new BigUint64Array(region.bytes.buffer, at, 1);
      const operand = block.getBigUint64(16, true);
      old =
        i32[slot + S_TAG_HI] === ADD
          ? Atomics.add(word, 0, operand)
          : Atomics.compareExchange(word, 0, operand, block.getBigUint64(24, true));
      status = OK;
    }
    block.setBigUint64(0, old, true);
    endpoint.control(ATOMIC_DONE, i32[slot + S_TAG_LO], status, this.#words.subarray(0, 2));
  }

  /** The owner answers. */
  onDone(endpoint: VerbsEndpoint, i32: Int32Array, slot: number): void {
    const request = i32[slot + S_TAG_LO];
    if (this.#asked.get(endpoint)?.delete(request) !== true) return;
    const { requests } = this.#worker;
    const row = requests.find(request);
    if (row !== undefined) {
      if (i32[slot + S_TAG_HI] === OK) {
        this.#words.set(i32.subarray(slot + S_LENGTH, slot + S_LENGTH + 2));
        this.#results.set(request, this.#block.getBigUint64(0, true));
        requests.complete(row);
      } else {
        requests.fail(
          row,
          new MessagingError(
            'MSG_REMOTE',
            `${endpoint.peer} does not expose this memory any more, or its words are not aligned there`,
          ),
        );
      }
    }
    endpoint.endRemote();
  }

  /** The endpoint is gone: no answers come. */
  abandon(endpoint: VerbsEndpoint): void {
    const asked = this.#asked.get(endpoint);
    this.#asked.delete(endpoint);
    for (let left = asked?.size ?? 0; left > 0; left--) endpoint.endRemote();
  }
}
