/**
 * The two blocks of numbers between JavaScript and UCX, and the one call that carries both ways. native/ucx/engine.h is the other side.
 *
 * ```
 *   head | commands: SEND TAKE ... |  ──run()──>  ucp_am_send_nbx ...           result of the last command in head[RESULT]
 *        | events: MESSAGE DONE .. |  <──run()──  ucp_worker_progress
 * ```
 * A command is written and executed at once (`flush`): its result says whether it is complete (0), goes on as an operation (> 0), or failed (< 0).
 * `progress` also lets UCX work and leaves what happened in the events.
 */

import type { NativeWorker, Pointer, UcxAddon } from './addon.js';

const HEAD_BYTES = 256;
const COMMAND_BYTES = 16_384;
const EVENT_BYTES = 65_536;

// Words of the head.
const COMMANDS = 0;
const EVENTS = 1;
const MODE = 2;
const DONE = 3;
const RESULT = 4;

const MODE_PROGRESS = 0;
const MODE_FLUSH = 1;

const SEND = 1;
const TAKE = 2;
const DROP = 3;

/** Payloads up to here travel in the rings. */
export const INLINE_BYTES = 256;

export const DATA_INLINE = 0;
export const DATA_RENDEZVOUS = 3;

export const EVENT_MESSAGE = 1;
export const EVENT_DONE = 2;
export const EVENT_FAILED = 3;

/** Words of the header that every message begins with. */
const HEADER_WORDS = 8;
const HEADER_BYTES = HEADER_WORDS * 4;

/** Offset of the header in a message event, in words. */
export const EVENT_HEADER = 8;

export class Rings {
  /** Words and bytes of the events, for whoever reads them. */
  readonly e32: Int32Array;
  readonly e64: Float64Array;
  readonly eventBytes: Uint8Array;
  /** Words of the header of the next `send`: fill them, then call. */
  readonly header: Int32Array;
  readonly native: NativeWorker;
  readonly #head: Int32Array;
  readonly #c32: Int32Array;
  readonly #c64: Float64Array;
  readonly #commandBytes: Uint8Array;
  readonly #operands: Int32Array;

  /** Throws the number of a ucs_status_t. */
  constructor(addon: UcxAddon, context: Pointer, wake: () => void) {
    const memory = new ArrayBuffer(HEAD_BYTES + COMMAND_BYTES + EVENT_BYTES);
    this.#head = new Int32Array(memory, 0, HEAD_BYTES >> 2);
    this.#c32 = new Int32Array(memory, HEAD_BYTES, COMMAND_BYTES >> 2);
    this.#c64 = new Float64Array(memory, HEAD_BYTES, COMMAND_BYTES >> 3);
    this.#operands = this.#c32.subarray(10 + HEADER_WORDS, 14 + HEADER_WORDS);
    this.#commandBytes = new Uint8Array(memory, HEAD_BYTES, COMMAND_BYTES);
    this.header = this.#c32.subarray(10, 10 + HEADER_WORDS);
    this.e32 = new Int32Array(memory, HEAD_BYTES + COMMAND_BYTES, EVENT_BYTES >> 2);
    this.e64 = new Float64Array(memory, HEAD_BYTES + COMMAND_BYTES, EVENT_BYTES >> 3);
    this.eventBytes = new Uint8Array(memory, HEAD_BYTES + COMMAND_BYTES, EVENT_BYTES);
    const native = addon.workerOpen(context, memory, COMMAND_BYTES, EVENT_BYTES, wake);
    if (typeof native === 'number') throw native;
    this.native = native;
  }

  /** Bytes of events that wait to be read. */
  get events(): number {
    return this.#head[EVENTS];
  }

  /** Lets UCX work; returns how many things it did. */
  progress(): number {
    this.#head[MODE] = MODE_PROGRESS;
    this.native.run();
    return this.#head[DONE];
  }

  /** The events before this offset were read. */
  consumed(bytes: number): void {
    const rest = this.#head[EVENTS] - bytes;
    if (rest > 0) this.eventBytes.copyWithin(0, bytes, bytes + rest);
    this.#head[EVENTS] = rest;
  }

  #execute(opcode: number, bytes: number): number {
    this.#c32[0] = opcode;
    this.#c32[1] = (bytes + 7) & ~7;
    this.#head[COMMANDS] = this.#c32[1];
    this.#head[MODE] = MODE_FLUSH;
    this.native.run();
    return this.#head[RESULT];
  }

  /** Bytes of the command block, for headers longer than the words. */
  get commandBytes(): Uint8Array {
    return this.#commandBytes;
  }

  /** Where inline bytes go in `commandBytes` when `extra` bytes follow the header words. */
  inlineAt(extra: number): number {
    return 40 + ((HEADER_BYTES + extra + 7) & ~7);
  }

  /** Sends bytes that were put into `commandBytes` at `inlineAt(extra)`; `header` is filled. */
  sendInline(endpoint: number, extra: number, length: number, rendezvous: boolean): number {
    const c = this.#c32;
    c[2] = endpoint;
    c[3] = rendezvous ? 1 : 0;
    c[4] = HEADER_BYTES + extra;
    c[5] = length;
    this.#c64[4] = length;
    return this.#execute(SEND, this.inlineAt(extra) + length);
  }

  /** Sends bytes at an address; `header` is filled. */
  sendAt(endpoint: number, extra: number, address: number, length: number, rendezvous: boolean): number {
    const c = this.#c32;
    c[2] = endpoint;
    c[3] = rendezvous ? 1 : 0;
    c[4] = HEADER_BYTES + extra;
    c[5] = -1;
    this.#c64[3] = address;
    this.#c64[4] = length;
    return this.#execute(SEND, this.inlineAt(extra));
  }

  /** Moves the data of a message to an address. */
  take(kind: number, data: Pointer, address: number, length: number): number {
    this.#c32[2] = kind;
    this.#c64[2] = data;
    this.#c64[3] = address;
    this.#c64[4] = length;
    return this.#execute(TAKE, 40);
  }

  /** 64-bit operands of an atomic, as words where inline bytes go. */
  get operandWords(): Int32Array {
    return this.#operands;
  }

  /** Gives the data of a message back. */
  discard(kind: number, data: Pointer): void {
    if (kind === DATA_INLINE || data === 0) return;
    this.#c32[2] = kind;
    this.#c64[2] = data;
    this.#execute(DROP, 24);
  }
}
