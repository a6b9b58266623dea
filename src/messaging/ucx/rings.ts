/**
 * The two blocks of numbers between JavaScript and UCX, and the one call that carries both ways. native/ucx/engine.h is the other side.
 *
 * ```
 *   head | commands: SEND TAKE ... |  ──run()──>  ucp_am_send_nbx ...           result of the last command in head[RESULT]
 *        | events: MESSAGE DONE .. |  <──run()──  ucp_worker_progress
 * ```
 * A command is written and executed at once: its result says whether it is complete (0), goes on as an operation (> 0), or failed (< 0).
 * `progress` lets UCX work and leaves what happened in the events.
 */

import type { NativeWorker, Pointer, UcxAddon } from './addon.js';

const HEAD_BYTES = 256;
const COMMAND_BYTES = 32_768;
const EVENT_BYTES = 1 << 18;

// Words of the head.
const COMMANDS = 0;
const EVENTS = 1;
const MODE = 2;
const DONE = 3;
const RESULT = 4;
/** What an atomic that is complete found: two words. */
export const VALUE = 6;

const MODE_PROGRESS = 0;
const MODE_FLUSH = 1;

const SEND = 1;
const TAKE = 2;
const DROP = 3;
const PUT = 4;
const GET = 5;
const ATOMIC = 6;
const FLUSH = 7;

export const DATA_INLINE = 0;
export const DATA_RENDEZVOUS = 3;
/** In the sender's shared memory (shares.ts); the addon knows nothing of it. */
export const DATA_OFFER = 4;

export const EVENT_MESSAGE = 1;
export const EVENT_DONE = 2;
export const EVENT_FAILED = 3;

/** Payloads up to here that are whole words are copied one by one. */
export const WORD_COPY_BYTES = 64;

/** ucp_send_am_flags. */
const SEND_EAGER = 2;
export const SEND_RENDEZVOUS = 4;

/** ucp_atomic_op_t. */
export const ATOMIC_ADD = 0;
export const ATOMIC_CSWAP = 2;

/**
 * Words of the header that every message begins with. With eight bytes of payload and what UCX adds on shared memory that makes 64 bytes: one cache line.
 */
export const HEADER_WORDS = 5;
export const HEADER_BYTES: number = HEADER_WORDS * 4;
/** Words of a message event: bytes of its header, or 0: it is the beginning of the data; length of inline data; where the header begins. */
export const EVENT_HEADER_BYTES = 3;
export const EVENT_LENGTH = 6;
export const EVENT_HEADER = 8;
const COMMAND_HEADER = 10;
const PUT_DATA_BYTE = 48;

const round8 = (bytes: number): number => (bytes + 7) & ~7;

/** Bytes from the start of a header with `extra` bytes behind its words to what follows it. */
export function headerBytes(extra: number): number {
  return (HEADER_BYTES + extra + 3) & ~3;
}

export class Rings {
  /** Words and bytes of the events, for whoever reads them. */
  readonly e32: Int32Array;
  readonly e64: Float64Array;
  readonly eventBytes: Uint8Array;
  /** Words of the header of the next `send`: fill them, then call. */
  readonly header: Int32Array;
  /** The command block, for what travels in it. */
  readonly commandWords: Int32Array;
  readonly commandBytes: Uint8Array;
  /** Operands of the next atomic: what to add or compare with, and what to swap in. */
  readonly operands: BigUint64Array;
  readonly native: NativeWorker;
  readonly head: Int32Array;
  readonly #c64: Float64Array;
  readonly #handle: Pointer;
  readonly #current: Float64Array;
  readonly #call: () => void;

  /** Throws the number of a ucs_status_t. */
  constructor(addon: UcxAddon, context: Pointer, wake: () => void) {
    const memory = new ArrayBuffer(HEAD_BYTES + COMMAND_BYTES + EVENT_BYTES);
    const eventsAt = HEAD_BYTES + COMMAND_BYTES;
    this.head = new Int32Array(memory, 0, HEAD_BYTES >> 2);
    this.#c64 = new Float64Array(memory, HEAD_BYTES, COMMAND_BYTES >> 3);
    this.commandWords = new Int32Array(memory, HEAD_BYTES, COMMAND_BYTES >> 2);
    this.commandBytes = new Uint8Array(memory, HEAD_BYTES, COMMAND_BYTES);
    this.operands = new BigUint64Array(memory, HEAD_BYTES + 16, 2);
    this.header = this.commandWords.subarray(COMMAND_HEADER, COMMAND_HEADER + HEADER_WORDS);
    this.e32 = new Int32Array(memory, eventsAt, EVENT_BYTES >> 2);
    this.e64 = new Float64Array(memory, eventsAt, EVENT_BYTES >> 3);
    this.eventBytes = new Uint8Array(memory, eventsAt, EVENT_BYTES);
    const native = addon.workerOpen(context, memory, COMMAND_BYTES, EVENT_BYTES, wake);
    if (typeof native === 'number') throw native;
    this.native = native;
    this.#handle = native.handle;
    this.#current = new Float64Array(addon.current);
    this.#call = addon.run;
  }

  #run(): void {
    this.#current[0] = this.#handle;
    this.#call();
  }

  /** Bytes of events that wait to be read. */
  get events(): number {
    return this.head[EVENTS];
  }

  /** Lets UCX work; returns how many things it did. */
  progress(): number {
    this.head[MODE] = MODE_PROGRESS;
    this.#run();
    return this.head[DONE];
  }

  /** The events before this offset were read. */
  consumed(bytes: number): void {
    const rest = this.head[EVENTS] - bytes;
    if (rest > 0) this.eventBytes.copyWithin(0, bytes, bytes + rest);
    this.head[EVENTS] = rest;
  }

  #execute(opcode: number, bytes: number): number {
    const c = this.commandWords;
    c[0] = opcode;
    c[1] = round8(bytes);
    this.head[COMMANDS] = c[1];
    this.head[MODE] = MODE_FLUSH;
    this.#run();
    return this.head[RESULT];
  }

  /** Where bytes behind the words of the header go in `commandBytes`. */
  get extraAt(): number {
    return (COMMAND_HEADER << 2) + HEADER_BYTES;
  }

  /** Where inline bytes go in `commandBytes` when `extra` bytes follow the words of the header. */
  inlineAt(extra: number): number {
    return (COMMAND_HEADER << 2) + headerBytes(extra);
  }

  /** Sends bytes that were put into `commandBytes` at `inlineAt(extra)`; `header` is filled. */
  sendInline(endpoint: number, extra: number, length: number): number {
    const c = this.commandWords;
    c[2] = endpoint;
    c[3] = SEND_EAGER;
    c[4] = HEADER_BYTES + extra;
    c[5] = length;
    return this.#execute(SEND, this.inlineAt(extra) + length);
  }

  /** Sends a few words behind the words of a header. */
  sendWords(endpoint: number, kind: number, peer: number, lo: number, hi: number, sequence: number, words: Int32Array): number {
    const c = this.commandWords;
    const count = words.length;
    c[2] = endpoint;
    c[3] = SEND_EAGER;
    c[4] = HEADER_BYTES;
    c[5] = count << 2;
    c[COMMAND_HEADER] = kind;
    c[COMMAND_HEADER + 1] = peer;
    c[COMMAND_HEADER + 2] = lo;
    c[COMMAND_HEADER + 3] = hi;
    c[COMMAND_HEADER + 4] = sequence;
    for (let w = 0; w < count; w++) c[COMMAND_HEADER + HEADER_WORDS + w] = words[w];
    return this.#execute(SEND, (COMMAND_HEADER + HEADER_WORDS + count) << 2);
  }

  /** Sends bytes at an address; `header` is filled. `flags`: 0, UCX chooses, or SEND_RENDEZVOUS. */
  sendAt(endpoint: number, extra: number, address: number, length: number, flags: number): number {
    const c = this.commandWords;
    c[2] = endpoint;
    c[3] = flags;
    c[4] = HEADER_BYTES + extra;
    c[5] = -1;
    this.#c64[3] = address;
    this.#c64[4] = length;
    return this.#execute(SEND, this.inlineAt(extra));
  }

  /** Moves the data of a message to an address. */
  take(kind: number, data: Pointer, address: number, length: number): number {
    this.commandWords[2] = kind;
    this.#c64[2] = data;
    this.#c64[3] = address;
    this.#c64[4] = length;
    return this.#execute(TAKE, 40);
  }

  /** Gives the data of a message back. */
  discard(kind: number, data: Pointer): void {
    if (kind === DATA_INLINE) return;
    this.commandWords[2] = kind;
    this.#c64[2] = data;
    this.#execute(DROP, 24);
  }

  /** Where the bytes of a small put go in `commandBytes`. */
  get putAt(): number {
    return PUT_DATA_BYTE;
  }

  /** Writes bytes that were put into `commandBytes` at `putAt`. */
  putInline(endpoint: number, length: number, remote: number, key: Pointer): number {
    this.commandWords[3] = length;
    return this.#oneSided(PUT, endpoint, 0, length, remote, key, PUT_DATA_BYTE + length);
  }

  put(endpoint: number, address: number, length: number, remote: number, key: Pointer): number {
    this.commandWords[3] = -1;
    return this.#oneSided(PUT, endpoint, address, length, remote, key, PUT_DATA_BYTE);
  }

  get(endpoint: number, address: number, length: number, remote: number, key: Pointer): number {
    this.commandWords[3] = -1;
    return this.#oneSided(GET, endpoint, address, length, remote, key, PUT_DATA_BYTE);
  }

  #oneSided(
    opcode: number,
    endpoint: number,
    address: number,
    length: number,
    remote: number,
    key: Pointer,
    bytes: number,
  ): number {
    this.commandWords[2] = endpoint;
    this.#c64[2] = address;
    this.#c64[3] = length;
    this.#c64[4] = remote;
    this.#c64[5] = key;
    return this.#execute(opcode, bytes);
  }

  /** An atomic; `operands` are filled. What it found stands in the head when it is complete at once, else in the event. */
  atomic(endpoint: number, operation: number, remote: number, key: Pointer): number {
    this.commandWords[2] = endpoint;
    this.commandWords[3] = operation;
    this.#c64[4] = remote;
    this.#c64[5] = key;
    return this.#execute(ATOMIC, PUT_DATA_BYTE);
  }

  /** Ends when everything that was begun on an endpoint is there. */
  flush(endpoint: number): number {
    this.commandWords[2] = endpoint;
    return this.#execute(FLUSH, 16);
  }
}

/** A 64-bit number that stands in two words. */
export function wordsOf(words: Int32Array, at: number): bigint {
  return (BigInt(words[at + 1] >>> 0) << 32n) | BigInt(words[at] >>> 0);
}
