/**
 * The store as files of one directory, for ranks of one host that have a directory in common and nothing else. No server: whoever comes first makes it.
 *
 * A value is a file whose name is the key in hexadecimal; it appears whole, by rename. What reads and then writes (add, compareAndSet, barriers) does so under a lock: a
 * name in the abstract socket namespace, which the kernel takes back when its owner dies, so a killed process never leaves a lock behind.
 * The directory belongs to the caller: remove it when the job is done.
 */

import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, realpathSync, renameSync, rmSync, statSync, watch, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { LaunchError } from '../errors.js';
import {
  type BarrierOptions,
  bytesOf,
  DEFAULT_TIMEOUT_MS,
  MAX_KEY_BYTES,
  MAX_VALUE_BYTES,
  type Store,
  type WaitOptions,
} from './store.js';

export interface FileStoreOptions {
  /** Made when it is not there, for this user only. */
  readonly directory: string;
  /** For barriers without a count. Default: a count is needed. */
  readonly size?: number;
}

/** Without a lock for so long, somebody holds it who is stopped or the machine is overloaded, ms. */
const LOCK_MS = 60_000;

export class FileStore implements Store {
  readonly #directory: string;
  readonly #size: number | undefined;
  readonly #lockName: string;
  readonly #closed = new AbortController();
  #temporary = 0;

  /** @throws LAUNCH_INVALID for a directory that another user can write to. */
  constructor({ directory, size }: FileStoreOptions) {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    const { uid, mode } = statSync(directory);
    if (uid !== process.getuid?.() || (mode & 0o022) !== 0) {
      throw new LaunchError(
        'LAUNCH_INVALID',
        `${directory} belongs to or can be written by somebody else: use a directory of your own (mode 700)`,
      );
    }
    this.#directory = realpathSync(directory);
    this.#size = size;
    this.#lockName = `\0verbena-${uid}-files-${createHash('sha256').update(this.#directory).digest('hex').slice(0, 32)}`;
  }

  #path(key: string): string {
    if (key === '' || Buffer.byteLength(key) > MAX_KEY_BYTES) {
      throw new LaunchError('LAUNCH_INVALID', `a key is a text of 1 to ${MAX_KEY_BYTES} bytes: got ${JSON.stringify(key)}`);
    }
    // Names of files have at most 255 bytes; longer keys go by their digest.
    const hex = Buffer.from(key).toString('hex');
    return join(this.#directory, hex.length <= 200 ? hex : createHash('sha256').update(key).digest('hex'));
  }

  #read(key: string): Uint8Array | undefined {
    if (this.#closed.signal.aborted) throw new LaunchError('LAUNCH_CLOSED', 'the store was closed');
    try {
      return new Uint8Array(readFileSync(this.#path(key)));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
  }

  #write(key: string, value: Uint8Array): void {
    if (value.length > MAX_VALUE_BYTES) {
      throw new LaunchError('LAUNCH_INVALID', `a value has at most ${MAX_VALUE_BYTES} bytes: '${key}' got ${value.length}`);
    }
    const path = this.#path(key);
    const temporary = join(this.#directory, `.${process.pid}-${this.#temporary++}-${randomBytes(4).toString('hex')}`);
    try {
      writeFileSync(temporary, value, { mode: 0o600, flag: 'wx' });
      renameSync(temporary, path);
    } catch (error) {
      rmSync(temporary, { force: true });
      throw error;
    }
  }

  /** Runs `action` while nobody else of this host does. */
  async #locked<T>(action: () => T): Promise<T> {
    const deadline = performance.now() + LOCK_MS;
    for (let delay = 1; ; delay = Math.min(delay * 1.5, 20)) {
      const lock = await takeName(this.#lockName);
      if (lock) {
        try {
          return action();
        } finally {
          await new Promise<void>((resolve) => lock.close(() => resolve()));
        }
      }
      if (performance.now() > deadline) {
        throw new LaunchError(
          'LAUNCH_TIMEOUT',
          `another process has held the lock of ${this.#directory} for ${LOCK_MS} ms: is it stopped?`,
        );
      }
      await new Promise((resolve) => setTimeout(resolve, delay * (0.5 + Math.random())));
    }
  }

  async set(key: string, value: string | Uint8Array): Promise<void> {
    if (this.#closed.signal.aborted) throw new LaunchError('LAUNCH_CLOSED', 'the store was closed');
    this.#write(key, bytesOf(value));
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return this.#read(key);
  }

  async wait(key: string, { timeoutMs = DEFAULT_TIMEOUT_MS, signal }: WaitOptions = {}): Promise<Uint8Array> {
    return this.#until(
      timeoutMs,
      signal,
      () => this.#read(key),
      () => `nobody set '${key}' within ${timeoutMs} ms: check that the rank that sets it runs and spells it the same`,
    );
  }

  /** Waits for a change in the directory until `look` finds something. */
  async #until<T>(timeoutMs: number, signal: AbortSignal | undefined, look: () => T | undefined, late: () => string): Promise<T> {
    signal?.throwIfAborted();
    const found = look();
    if (found !== undefined) return found;
    return new Promise<T>((resolve, reject) => {
      const watcher = watch(this.#directory);
      const settle = (act: () => void) => {
        watcher.close();
        clearTimeout(timer);
        this.#closed.signal.removeEventListener('abort', closed);
        signal?.removeEventListener('abort', aborted);
        act();
      };
      const closed = () => settle(() => reject(new LaunchError('LAUNCH_CLOSED', 'the store was closed')));
      const aborted = () => settle(() => reject(signal?.reason));
      const check = () => {
        try {
          const value = look();
          if (value !== undefined) settle(() => resolve(value));
        } catch (error) {
          settle(() => reject(error));
        }
      };
      const timer = setTimeout(() => settle(() => reject(new LaunchError('LAUNCH_TIMEOUT', late()))), timeoutMs);
      this.#closed.signal.addEventListener('abort', closed);
      signal?.addEventListener('abort', aborted);
      watcher.on('change', check);
      watcher.on('error', (error) => settle(() => reject(error)));
      check(); // it may have appeared before the watch stood
    });
  }

  add(key: string, amount: number): Promise<number> {
    return this.#locked(() => this.#add(key, amount));
  }

  #add(key: string, amount: number): number {
    const text = Buffer.from(this.#read(key) ?? bytesOf('0')).toString();
    const sum = Number(text) + amount;
    if (!/^-?\d+$/.test(text) || !Number.isSafeInteger(sum)) {
      throw new LaunchError('LAUNCH_INVALID', `'${key}' holds ${JSON.stringify(text.slice(0, 40))}: cannot add ${amount} to it`);
    }
    this.#write(key, bytesOf(String(sum)));
    return sum;
  }

  compareAndSet(
    key: string,
    expected: string | Uint8Array | undefined,
    desired: string | Uint8Array,
  ): Promise<Uint8Array | undefined> {
    return this.#locked(() => {
      const old = this.#read(key);
      const same =
        old === undefined ? expected === undefined : expected !== undefined && Buffer.compare(old, bytesOf(expected)) === 0;
      if (!same) return old;
      this.#write(key, bytesOf(desired));
      return new Uint8Array(bytesOf(desired));
    });
  }

  delete(key: string): Promise<boolean> {
    return this.#locked(() => {
      if (this.#read(key) === undefined) return false;
      rmSync(this.#path(key));
      return true;
    });
  }

  async barrier(
    name: string,
    { count = this.#size, timeoutMs = DEFAULT_TIMEOUT_MS, signal }: BarrierOptions = {},
  ): Promise<void> {
    if (count === undefined || !Number.isInteger(count) || count < 1) {
      throw new LaunchError('LAUNCH_INVALID', `barrier '${name}' needs a count of 1 or more: got ${count}`);
    }
    signal?.throwIfAborted();
    const key = `barrier/${name}`;
    // Arrivals are counted for ever; the round of an arrival is complete when the count reaches the end of that round.
    const arrival = await this.#locked(() => this.#add(key, 1));
    const target = Math.ceil(arrival / count) * count;
    const arrived = () => Number(Buffer.from(this.#read(key) ?? bytesOf('0')).toString());
    await this.#until(
      timeoutMs,
      signal,
      () => (arrived() >= target ? true : undefined),
      () => `barrier '${name}': ${arrived() - (target - count)} of ${count} arrived within ${timeoutMs} ms`,
    );
  }

  close(): void {
    this.#closed.abort();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** Binds an abstract name, or undefined when somebody has it. */
function takeName(name: string): Promise<Server | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once('error', (error: NodeJS.ErrnoException) => (error.code === 'EADDRINUSE' ? resolve(undefined) : reject(error)));
    server.listen(name, () => resolve(server));
  });
}
