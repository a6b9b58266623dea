/**
 * Two processes that use each other's objects as if they were their own, so that a suite written for one process plays in two. Every access waits for its answer
 * (the suites poll and look in turns), and while a side waits it serves the other.
 *
 * ```
 *   objects, functions    a name at the other side; gets, sets and calls travel
 *   typed arrays          copied with the call, and back when it ends or its promise does; handed back they mean the same memory
 *   promises              settle over there when they settle here
 * ```
 * The line is a pair of named pipes, read without blocking.
 */

import { constants, openSync, readSync, writeSync } from 'node:fs';
import { deserialize, serialize } from 'node:v8';
import { MessagingError, PeerLost } from '../../../src/messaging/index.js';

const WAIT_MS = 60_000;
const BUSY_MS = 20;
const PIECE = 65_536;

type Wire = unknown;

/** A value that is no plain one. */
interface Coded {
  readonly $: 'method' | 'yours' | 'mine' | 'error' | 'list' | 'plain' | 'promise' | 'array';
  readonly id: number;
  readonly isFunction: boolean;
  readonly isMine: boolean;
  readonly type: string;
  readonly data: Uint8Array;
  readonly items: readonly Wire[];
  readonly entries: readonly (readonly [string, Wire])[];
  readonly said: { name: string; message: string; code?: string; peer?: string };
}

type Callable = (...args: unknown[]) => unknown;

interface Said {
  readonly kind: 'get' | 'set' | 'call' | 'answer' | 'settle';
  /** Number of the call that is made or answered, or of the promise. */
  readonly call: number;
  readonly id?: number;
  readonly name?: string;
  readonly value?: Wire;
  readonly error?: Wire;
  /** What arrays of the call hold now, where it changed. */
  readonly back?: readonly (Uint8Array | undefined)[];
}

/** An array that came with a call, and what it held then. */
interface Passed {
  readonly array: ArrayBufferView;
  readonly data: Uint8Array;
}

type Answer = Pick<Said, 'value' | 'error' | 'back'>;

const bytesOf = (array: ArrayBufferView): Uint8Array => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

const ARRAYS: Readonly<Record<string, new (buffer: ArrayBuffer) => ArrayBufferView>> = {
  Uint8Array,
  Uint32Array,
  Float64Array,
  BigUint64Array,
};

/** The error that a side threw, of the same class. */
function errorOf(said: Coded['said']): Error {
  let error: Error;
  if (said.code === 'MSG_PEER_LOST') error = new PeerLost(said.peer ?? '', '', '');
  else if (said.code?.startsWith('MSG_')) error = new MessagingError(said.code as 'MSG_INVALID', '');
  else error = Object.assign(new Error(), said.code === undefined ? {} : { code: said.code });
  error.message = said.message;
  return error;
}

export class Membrane {
  readonly #in: number;
  readonly #out: number;
  readonly #own = new Map<number, object>();
  readonly #ownIds = new WeakMap<object, number>();
  readonly #theirs = new Map<number, object>();
  readonly #theirIds = new WeakMap<object, number>();
  readonly #answers = new Map<number, Answer>();
  readonly #promises = new Map<number, (answer: Answer) => void>();
  readonly #settled = new Map<number, Answer>();
  readonly #nap = new Int32Array(new SharedArrayBuffer(4));
  readonly #chunk = Buffer.alloc(PIECE);
  #heard: Buffer[] = [];
  #heardBytes = 0;
  #next = 1;
  #lastHeard = performance.now();

  /** @param root what the other side gets as `root` */
  constructor(inPath: string, outPath: string, root: object) {
    const flags = constants.O_RDWR | constants.O_NONBLOCK;
    this.#in = openSync(inPath, flags);
    this.#out = openSync(outPath, flags);
    this.#own.set(0, root);
    this.#serve();
  }

  /** The root of the other side. */
  get root(): unknown {
    return this.#adopt(0, this.#proxy(0));
  }

  // ---- the line ----

  #serve(): void {
    this.#pump();
    const isBusy = performance.now() - this.#lastHeard < BUSY_MS;
    if (isBusy) setImmediate(() => this.#serve());
    else setTimeout(() => this.#serve(), 1).unref();
  }

  /** Reads what is there and does it. False when there was nothing. */
  #pump(): boolean {
    let count = 0;
    for (;;) {
      try {
        count = readSync(this.#in, this.#chunk, 0, PIECE, null);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
        return false;
      }
      this.#heard.push(Buffer.from(this.#chunk.subarray(0, count)));
      this.#heardBytes += count;
      this.#lastHeard = performance.now();
      if (this.#takeWhole()) return true;
    }
  }

  #takeWhole(): boolean {
    let any = false;
    while (this.#heardBytes >= 4) {
      if (this.#heard.length > 1 && this.#heard[0].length < 4) this.#heard = [Buffer.concat(this.#heard)];
      const length = this.#heard[0].readUInt32LE(0);
      if (this.#heardBytes < 4 + length) return any;
      const all = Buffer.concat(this.#heard);
      this.#heard = [all.subarray(4 + length)];
      this.#heardBytes -= 4 + length;
      any = true;
      this.#hear(deserialize(all.subarray(4, 4 + length)) as Said);
    }
    return any;
  }

  #say(said: Said): void {
    const body = serialize(said);
    const frame = Buffer.alloc(4 + body.length);
    frame.writeUInt32LE(body.length, 0);
    body.copy(frame, 4);
    for (let at = 0; at < frame.length; ) {
      try {
        at += writeSync(this.#out, frame, at, Math.min(PIECE, frame.length - at));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
        Atomics.wait(this.#nap, 0, 0, 0.05);
      }
    }
  }

  /** Asks, and serves until the answer is there. */
  #ask(said: Omit<Said, 'call'>, arrays: ArrayBufferView[]): unknown {
    const call = this.#next++;
    this.#say({ ...said, call });
    const deadline = performance.now() + WAIT_MS;
    while (!this.#answers.has(call)) {
      if (this.#pump()) continue;
      if (performance.now() > deadline) throw new Error(`the other process does not answer: ${said.kind} ${said.name}`);
      Atomics.wait(this.#nap, 0, 0, 0.02);
    }
    const answer = this.#answers.get(call) as Answer;
    this.#answers.delete(call);
    return this.#ended(answer, arrays);
  }

  #ended({ value, error, back }: Answer, arrays: ArrayBufferView[]): unknown {
    back?.forEach((bytes, i) => {
      if (bytes !== undefined) bytesOf(arrays[i]).set(bytes);
    });
    if (error !== undefined) throw this.#decode(error, []);
    return this.#decode(value, [], arrays);
  }

  // ---- what the other side wants ----

  #hear(said: Said): void {
    if (said.kind === 'answer') this.#answers.set(said.call, said);
    else if (said.kind === 'settle') {
      const settle = this.#promises.get(said.call);
      this.#promises.delete(said.call);
      // It may settle before whoever asked has read the answer that promises it.
      if (settle === undefined) this.#settled.set(said.call, said);
      else settle(said);
    } else {
      const passed: Passed[] = [];
      const back = () =>
        passed.map(({ array, data }) => (Buffer.compare(bytesOf(array), data) === 0 ? undefined : bytesOf(array).slice()));
      let answer: Answer;
      try {
        const value = this.#perform(said, passed);
        answer = value instanceof Promise ? { value: this.#follow(value, back) } : { value: this.#encode(value), back: back() };
      } catch (error) {
        answer = { error: this.#encode(error) };
      }
      this.#say({ kind: 'answer', call: said.call, ...answer });
    }
  }

  #perform({ kind, id = 0, name, value }: Said, passed: Passed[]): unknown {
    const object = this.#own.get(id) as Record<string, unknown>;
    if (kind === 'set') return Reflect.set(object, name as string, this.#decode(value, passed));
    if (kind === 'get') {
      const found = object[name as string];
      return typeof found === 'function' ? METHOD : found;
    }
    const args = this.#decode(value, passed) as unknown[];
    if (name === undefined) return (object as unknown as Callable)(...args);
    return (object[name] as Callable).apply(object, args);
  }

  #follow(promise: Promise<unknown>, back: () => Said['back']): Wire {
    const call = this.#next++;
    promise.then(
      (value) => this.#say({ kind: 'settle', call, value: this.#encode(value), back: back() }),
      (error) => this.#say({ kind: 'settle', call, error: this.#encode(error), back: back() }),
    );
    return { $: 'promise', id: call };
  }

  // ---- values ----

  #encode(value: unknown, arrays: ArrayBufferView[] = []): Wire {
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return value;
    if (value === METHOD) return { $: 'method' };
    const id = this.#theirIds.get(value);
    if (ArrayBuffer.isView(value)) {
      arrays.push(value);
      const data = bytesOf(value).slice();
      return { $: 'array', type: value.constructor.name, isMine: id === undefined, id: id ?? this.#idOf(value), data };
    }
    if (id !== undefined) return { $: 'yours', id };
    if (value instanceof Error) {
      const { code, peer } = value as { code?: string; peer?: string };
      return { $: 'error', said: { name: value.name, message: value.message, code, peer } };
    }
    if (Array.isArray(value)) return { $: 'list', items: value.map((item) => this.#encode(item, arrays)) };
    if (Object.getPrototypeOf(value) === Object.prototype) {
      return { $: 'plain', entries: Object.entries(value).map(([name, item]) => [name, this.#encode(item, arrays)]) };
    }
    return { $: 'mine', id: this.#idOf(value), isFunction: typeof value === 'function' };
  }

  #idOf(value: object): number {
    let id = this.#ownIds.get(value);
    if (id === undefined) {
      id = this.#next++;
      this.#ownIds.set(value, id);
      this.#own.set(id, value);
    }
    return id;
  }

  /** @param called arrays that were passed in the call whose result this is */
  #decode(wire: Wire, passed: Passed[], called: ArrayBufferView[] = []): unknown {
    if (typeof wire !== 'object' || wire === null) return wire;
    const said = wire as Coded;
    switch (said.$) {
      case 'method':
        return METHOD;
      case 'yours':
        return this.#own.get(said.id);
      case 'error':
        return errorOf(said.said);
      case 'list':
        return said.items.map((item) => this.#decode(item, passed));
      case 'plain':
        return Object.fromEntries(said.entries.map(([name, item]) => [name, this.#decode(item, passed)]));
      case 'promise':
        return new Promise((resolve, reject) => {
          const settle = (answer: Answer) => {
            try {
              resolve(this.#ended(answer, called));
            } catch (error) {
              reject(error);
            }
          };
          const early = this.#settled.get(said.id);
          this.#settled.delete(said.id);
          if (early === undefined) this.#promises.set(said.id, settle);
          else settle(early);
        });
      case 'array': {
        let array = (said.isMine ? this.#theirs : this.#own).get(said.id) as ArrayBufferView | undefined;
        if (array === undefined) {
          const Kind = ARRAYS[said.type] ?? Uint8Array;
          array = new Kind(said.data.slice().buffer as ArrayBuffer);
          this.#adopt(said.id, array);
        } else bytesOf(array).set(said.data);
        passed.push({ array, data: said.data });
        return array;
      }
      default:
        return this.#theirs.get(said.id) ?? this.#adopt(said.id, said.isFunction ? this.#stub(said.id) : this.#proxy(said.id));
    }
  }

  #adopt<T extends object>(id: number, value: T): T {
    this.#theirs.set(id, value);
    this.#theirIds.set(value, id);
    return value;
  }

  #stub(id: number, name?: string): Callable {
    return (...args) => {
      const arrays: ArrayBufferView[] = [];
      const value = this.#encode(args, arrays);
      return this.#ask({ kind: 'call', id, value, ...(name === undefined ? {} : { name }) }, arrays);
    };
  }

  #proxy(id: number): object {
    const methods = new Map<string, Callable>();
    return new Proxy(
      {},
      {
        get: (_, name) => {
          if (typeof name === 'symbol' || name === 'then') return undefined;
          const known = methods.get(name);
          if (known !== undefined) return known;
          const value = this.#ask({ kind: 'get', id, name }, []);
          if (value !== METHOD) return value;
          const method = this.#stub(id, name);
          methods.set(name, method);
          return method;
        },
        set: (_, name, value) => {
          this.#ask({ kind: 'set', id, name: String(name), value: this.#encode(value) }, []);
          return true;
        },
      },
    );
  }
}

/** Stands for a method, which is called at its object. */
const METHOD = Object.freeze({ $: 'method' });
