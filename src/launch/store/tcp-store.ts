/** The store as a rank sees it: one TCP connection to the coordinator, requests answered in any order. */

import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { unlessAborted } from '../abortable.js';
import { LaunchError, type LaunchErrorCode } from '../errors.js';
import { MAGIC, makeNonce, PROTOCOL, proofOf, proves } from './authentication.js';
import { encodeFrame, type Frame, FrameReader, readFrames } from './frame.js';
import { type BarrierOptions, bytesOf, DEFAULT_TIMEOUT_MS, MAX_VALUE_BYTES, type Store, type WaitOptions } from './store.js';

export interface TcpStoreOptions {
  readonly host: string;
  readonly port: number;
  readonly secret: string;
  readonly version: string;
  /** The server may start later than this process: tries until then, ms. Default 60,000. */
  readonly timeoutMs?: number;
  /** Calls that wait go through here, so that a stall can be explained. Default: nothing. */
  readonly waiting?: (site: string) => () => void;
  /** Size of the world, for barriers without a count. Default: a count is needed. */
  readonly size?: number;
  /** Ends the connecting, with its reason. Default: none. */
  readonly signal?: AbortSignal;
}

/** Extra time for the answer to arrive before the connection counts as dead, ms. */
const ANSWER_MS = 20_000;
const RETRY_MS = 50;

interface Call {
  resolve(frame: Frame): void;
  reject(error: Error): void;
}

function opened(socket: Socket, timeoutMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => socket.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    socket.once('close', () => clearTimeout(timer));
    socket.once('error', reject);
    socket.once('connect', () => {
      clearTimeout(timer);
      socket.removeAllListeners('error');
      resolve();
    });
  });
}

/** Errors that mean "not there yet": the host of rank 0 may still be booting, its name still be unknown. */
const NOT_YET = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'ETIMEDOUT', 'ECONNRESET']);

export class TcpStore implements Store {
  readonly #options: TcpStoreOptions;
  readonly #socket: Socket;
  readonly #calls = new Map<number, Call>();
  /** Calls that do not keep the process alive. */
  #background = 0;
  #next = 1;
  #ended: LaunchError | undefined;

  private constructor(options: TcpStoreOptions, socket: Socket) {
    this.#options = options;
    this.#socket = socket;
  }

  /** @throws LAUNCH_TIMEOUT when nobody listens there, LAUNCH_REFUSED, LAUNCH_VERSION, the signal's reason. */
  static async connect(options: TcpStoreOptions): Promise<TcpStore> {
    const { host, port, timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
    const deadline = performance.now() + timeoutMs;
    let delay = RETRY_MS;
    for (;;) {
      const left = Math.max(1, deadline - performance.now());
      const socket = connect({ host, port, noDelay: true });
      try {
        const store = new TcpStore(options, socket);
        await unlessAborted(
          opened(socket, Math.min(left, 10_000)).then(() => store.#greet()),
          signal,
        );
        return store;
      } catch (error) {
        socket.destroy();
        signal?.throwIfAborted();
        const code = (error as NodeJS.ErrnoException).code ?? '';
        if (LaunchError.is(error)) throw error;
        if (performance.now() + delay > deadline || (code !== '' && !NOT_YET.has(code))) {
          throw new LaunchError(
            'LAUNCH_TIMEOUT',
            `the store of this job at ${host}:${port} did not answer within ${timeoutMs} ms (${(error as Error).message}). Rank 0 or the launcher ` +
              'holds it: check that it runs, that the address is right (VERBENA_STORE, MASTER_ADDR and MASTER_PORT), and that no firewall is between.',
            { cause: error },
          );
        }
        await unlessAborted(pause(delay), signal);
        delay = Math.min(delay * 1.5, 500);
      }
    }
  }

  /** Numeric address of the server. */
  get remoteAddress(): string {
    return this.#socket.remoteAddress ?? '127.0.0.1';
  }

  #greet(): Promise<void> {
    const { secret, version } = this.#options;
    const nonce = makeNonce();
    return new Promise((resolve, reject) => {
      let serverNonce = '';
      const fail = (error: Error) => {
        this.#socket.destroy();
        reject(error);
      };
      const early = () => fail(Object.assign(new Error('the store closed the connection'), { code: 'ECONNRESET' }));
      let step = (frame: Frame): void => {
        const { magic, nonce: theirs } = frame.header;
        if (magic !== MAGIC || typeof theirs !== 'string') {
          fail(new LaunchError('LAUNCH_REFUSED', `what listens at ${this.#where} is no Verbena store: check the address`));
          return;
        }
        serverNonce = theirs;
        this.#socket.write(encodeFrame(secret === '' ? {} : { mac: proofOf(secret, 'client', serverNonce, nonce) }));
        step = (welcome) => {
          if (!proves(welcome.header['mac'], proofOf(secret, 'server', serverNonce, nonce))) {
            fail(
              new LaunchError(
                'LAUNCH_REFUSED',
                `the store at ${this.#where} does not know the secret of this job: another job's?`,
              ),
            );
            return;
          }
          this.#socket.off('close', early);
          step = (answer) => this.#answer(answer);
          resolve();
        };
      };
      const reader = new FrameReader(MAX_VALUE_BYTES + 1024 * 1024, (frame) => {
        const error = errorOf(frame);
        if (error && frame.header['id'] === undefined) fail(error);
        else step(frame);
      });
      this.#socket.on('close', early);
      this.#socket.on('close', () => this.#end(this.#lost()));
      this.#socket.on('error', () => {});
      readFrames(this.#socket, reader, fail);
      this.#socket.write(encodeFrame({ magic: MAGIC, protocol: PROTOCOL, version, nonce }));
    });
  }

  get #where(): string {
    return `${this.#options.host}:${this.#options.port}`;
  }

  #lost(): LaunchError {
    return new LaunchError(
      'LAUNCH_COORDINATOR_LOST',
      `the connection to the store at ${this.#where} is gone: the process that holds it (the launcher, or rank 0) ended or its host vanished. ` +
        'The job cannot go on; look at that process first.',
    );
  }

  #end(error: LaunchError): void {
    this.#ended ??= error;
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const call of calls) call.reject(this.#ended);
  }

  #answer(frame: Frame): void {
    const id = frame.header['id'] as number;
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    const error = errorOf(frame);
    if (error) call?.reject(error);
    else call?.resolve(frame);
  }

  /** Sends a request and waits for its answer. */
  call(header: object, value?: Uint8Array, timeoutMs = 0, signal?: AbortSignal): Promise<Frame> {
    return this.#send({ ...header, timeoutMs }, value, timeoutMs + ANSWER_MS, signal);
  }

  /** @param limitMs without an answer for so long the server counts as stuck; undefined: never */
  #send(header: object, value: Uint8Array | undefined, limitMs: number | undefined, signal?: AbortSignal): Promise<Frame> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#ended) return Promise.reject(this.#ended);
    const id = this.#next++;
    this.#socket.ref();
    return new Promise<Frame>((resolve, reject) => {
      const settle = (act: () => void) => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', aborted);
        this.#calls.delete(id);
        this.#idle();
        act();
      };
      const stuck = () =>
        new LaunchError(
          'LAUNCH_TIMEOUT',
          `the store at ${this.#where} gave no answer: its process is stopped or its host overloaded`,
        );
      const aborted = () => settle(() => reject(signal?.reason));
      signal?.addEventListener('abort', aborted);
      const timer = limitMs === undefined ? undefined : setTimeout(() => settle(() => reject(stuck())), limitMs);
      this.#calls.set(id, {
        resolve: (frame) => settle(() => resolve(frame)),
        reject: (error) => settle(() => reject(error)),
      });
      this.#socket.write(encodeFrame({ ...header, id }, value));
    });
  }

  async #waitingCall(site: string, header: object, { timeoutMs = DEFAULT_TIMEOUT_MS, signal }: WaitOptions): Promise<Frame> {
    const done = this.#options.waiting?.(site);
    try {
      return await this.call(header, undefined, checkTimeout(timeoutMs), signal);
    } finally {
      done?.();
    }
  }

  async set(key: string, value: string | Uint8Array): Promise<void> {
    await this.call({ op: 'set', key }, bytesOf(value));
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return found(await this.call({ op: 'get', key }));
  }

  async wait(key: string, options: WaitOptions = {}): Promise<Uint8Array> {
    return (await this.#waitingCall(`store.wait '${key}'`, { op: 'wait', key }, options)).value;
  }

  /** As `wait`, for ever, seen in no report and without keeping the process alive. Rejects when the store is closed. */
  async waitInBackground(key: string): Promise<Uint8Array> {
    this.#background++;
    const answer = this.#send({ op: 'wait', key, timeoutMs: 2 ** 31 - 1 }, undefined, undefined);
    this.#idle();
    try {
      return (await answer).value;
    } finally {
      this.#background--;
    }
  }

  async add(key: string, amount: number): Promise<number> {
    if (!Number.isSafeInteger(amount)) throw new LaunchError('LAUNCH_INVALID', `store.add takes a whole number: got ${amount}`);
    return (await this.call({ op: 'add', key, amount })).header['sum'] as number;
  }

  async compareAndSet(
    key: string,
    expected: string | Uint8Array | undefined,
    desired: string | Uint8Array,
  ): Promise<Uint8Array | undefined> {
    const old = expected === undefined ? undefined : bytesOf(expected);
    const header = { op: 'compareAndSet', key, expectedBytes: old?.length ?? -1 };
    return found(await this.call(header, Buffer.concat([old ?? new Uint8Array(0), bytesOf(desired)])));
  }

  async delete(key: string): Promise<boolean> {
    return (await this.call({ op: 'delete', key })).header['found'] === true;
  }

  async barrier(name: string, { count = this.#options.size, ...options }: BarrierOptions = {}): Promise<void> {
    if (!Number.isInteger(count) || (count as number) < 1) {
      throw new LaunchError('LAUNCH_INVALID', `barrier '${name}' needs a count of 1 or more: got ${count}`);
    }
    await this.#waitingCall(`barrier '${name}'`, { op: 'barrier', key: name, count }, options);
  }

  close(): void {
    this.#end(new LaunchError('LAUNCH_CLOSED', 'the store was closed: call it before finalize()'));
    this.#socket.destroySoon();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** A connection on which nobody waits does not keep the process alive. */
  #idle(): void {
    if (this.#calls.size <= this.#background) this.#socket.unref();
  }
}

function checkTimeout(timeoutMs: number): number {
  if (!(timeoutMs >= 0 && timeoutMs <= 2 ** 31 - 1)) {
    throw new LaunchError('LAUNCH_INVALID', `timeoutMs is 0 to ${2 ** 31 - 1} milliseconds: got ${timeoutMs}`);
  }
  return timeoutMs;
}

function found(frame: Frame): Uint8Array | undefined {
  return frame.header['found'] === true ? frame.value : undefined;
}

/** The error that an answer carries. */
function errorOf(frame: Frame): LaunchError | undefined {
  const error = frame.header['error'] as { code: LaunchErrorCode; message: string; rank?: number } | undefined;
  return error && new LaunchError(error.code, error.message, { rank: error.rank });
}
