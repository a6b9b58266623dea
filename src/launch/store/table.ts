/**
 * What the store holds: keys, values, and those who wait. No I/O; time comes as timers that a test can replace.
 *
 * The bound covers keys, values and 64 bytes for each entry, so a client that writes for ever gets an error and the others go on.
 */

import { LaunchError } from '../errors.js';
import { bytesOf, MAX_KEY_BYTES, MAX_VALUE_BYTES } from './store.js';

/** What an entry costs beside its key and value, bytes. */
const ENTRY_BYTES = 64;

/** Something that waits: either it gets its answer or it is cancelled; never both. */
interface Waiter<T> {
  resolve(value: T): void;
  reject(error: LaunchError): void;
  timer: NodeJS.Timeout | undefined;
}

interface Barrier {
  readonly count: number;
  readonly arrived: Map<string, Waiter<void>>;
}

export interface TableOptions {
  /** Bytes. Default 64 MiB. */
  maxBytes?: number;
  /** Waiting calls at a time. Default 65,536. */
  maxWaiters?: number;
}

/** A pending call of the table: `cancel` forgets it, for a client that has gone. */
export interface Pending<T> {
  readonly done: Promise<T>;
  cancel(): void;
}

function checkKey(key: unknown): asserts key is string {
  if (typeof key !== 'string' || key === '' || Buffer.byteLength(key) > MAX_KEY_BYTES) {
    throw new LaunchError('LAUNCH_INVALID', `a key is a text of 1 to ${MAX_KEY_BYTES} bytes: got ${JSON.stringify(key)}`);
  }
}

export class StoreTable {
  readonly #maxBytes: number;
  readonly #maxWaiters: number;
  readonly #values = new Map<string, Uint8Array>();
  readonly #waiters = new Map<string, Set<Waiter<Uint8Array>>>();
  readonly #barriers = new Map<string, Barrier>();
  #bytes = 0;
  #waiting = 0;

  constructor({ maxBytes = 64 << 20, maxWaiters = 65_536 }: TableOptions = {}) {
    this.#maxBytes = maxBytes;
    this.#maxWaiters = maxWaiters;
  }

  /** Bytes counted against the bound. */
  get bytes(): number {
    return this.#bytes;
  }

  get(key: string): Uint8Array | undefined {
    checkKey(key);
    return this.#values.get(key);
  }

  set(key: string, value: Uint8Array): void {
    checkKey(key);
    if (value.length > MAX_VALUE_BYTES) {
      throw new LaunchError('LAUNCH_INVALID', `a value has at most ${MAX_VALUE_BYTES} bytes: '${key}' got ${value.length}`);
    }
    const old = this.#values.get(key);
    const growth = value.length - (old?.length ?? -(ENTRY_BYTES + Buffer.byteLength(key)));
    if (this.#bytes + growth > this.#maxBytes) {
      throw new LaunchError(
        'LAUNCH_FULL',
        `the store is full: '${key}' needs ${value.length} bytes and ${this.#bytes} of ${this.#maxBytes} are taken. ` +
          'Delete keys that are no longer needed, and send data through messages instead: the store is for wire-up.',
      );
    }
    this.#bytes += growth;
    this.#values.set(key, value);
    const waiters = this.#waiters.get(key);
    this.#waiters.delete(key);
    for (const waiter of waiters ?? []) this.#settle(waiter).resolve(value);
  }

  delete(key: string): boolean {
    checkKey(key);
    const old = this.#values.get(key);
    if (!old) return false;
    this.#bytes -= old.length + ENTRY_BYTES + Buffer.byteLength(key);
    return this.#values.delete(key);
  }

  add(key: string, amount: number): number {
    const old = this.get(key);
    const text = old === undefined ? '0' : Buffer.from(old).toString();
    const sum = Number(text) + amount;
    if (!/^-?\d+$/.test(text) || !Number.isSafeInteger(sum)) {
      throw new LaunchError('LAUNCH_INVALID', `'${key}' holds ${JSON.stringify(text.slice(0, 40))}: cannot add ${amount} to it`);
    }
    this.set(key, bytesOf(String(sum)));
    return sum;
  }

  compareAndSet(key: string, expected: Uint8Array | undefined, desired: Uint8Array): Uint8Array | undefined {
    const old = this.get(key);
    const same = old === undefined ? expected === undefined : expected !== undefined && Buffer.compare(old, expected) === 0;
    if (!same) return old;
    this.set(key, desired);
    return desired;
  }

  wait(key: string, timeoutMs: number): Pending<Uint8Array> {
    const value = this.get(key);
    if (value) return { done: Promise.resolve(value), cancel() {} };
    const group = this.#waiters.get(key) ?? new Set();
    const forget = (waiter: Waiter<Uint8Array>) => {
      if (group.delete(waiter) && group.size === 0 && this.#waiters.get(key) === group) this.#waiters.delete(key);
    };
    const pending = this.#wait<Uint8Array>(timeoutMs, forget, () => {
      return `nobody set '${key}' within ${timeoutMs} ms: check that the rank that sets it runs and spells it the same`;
    });
    group.add(pending.waiter);
    this.#waiters.set(key, group);
    return pending;
  }

  /**
   * @param who name of the caller, once per barrier: 'rank 3'
   * @param missing names those who have not arrived, given those who have
   */
  barrier(name: string, who: string, count: number, timeoutMs: number, missing: (arrived: string[]) => string): Pending<void> {
    checkKey(name);
    const barrier: Barrier = this.#barriers.get(name) ?? { count, arrived: new Map() };
    if (barrier.count !== count) {
      throw new LaunchError(
        'LAUNCH_INVALID',
        `barrier '${name}' waits for ${barrier.count} and ${who} came with a count of ${count}: give the same count everywhere`,
      );
    }
    if (barrier.arrived.has(who)) {
      throw new LaunchError('LAUNCH_INVALID', `${who} is in barrier '${name}' already: use two names for two barriers at a time`);
    }
    const forget = (waiter: Waiter<void>) => {
      if (barrier.arrived.get(who) === waiter) barrier.arrived.delete(who);
      if (barrier.arrived.size === 0 && this.#barriers.get(name) === barrier) this.#barriers.delete(name);
    };
    const pending = this.#wait<void>(timeoutMs, forget, () => {
      const arrived = [...barrier.arrived.keys()];
      return `barrier '${name}': ${arrived.length} of ${count} arrived within ${timeoutMs} ms. ${missing(arrived)}`;
    });
    barrier.arrived.set(who, pending.waiter);
    this.#barriers.set(name, barrier);
    if (barrier.arrived.size >= count) {
      this.#barriers.delete(name);
      for (const waiter of barrier.arrived.values()) this.#settle(waiter).resolve();
    }
    return pending;
  }

  /** Fails the barriers that wait for `count` or more: somebody of them cannot come any more. */
  failBarriers(count: number, error: LaunchError): void {
    for (const [name, barrier] of this.#barriers) {
      if (barrier.count < count) continue;
      this.#barriers.delete(name);
      for (const waiter of barrier.arrived.values()) this.#settle(waiter).reject(error);
    }
  }

  #settle<T>(waiter: Waiter<T>): Waiter<T> {
    clearTimeout(waiter.timer);
    this.#waiting--;
    return waiter;
  }

  #wait<T>(timeoutMs: number, forget: (waiter: Waiter<T>) => void, late: () => string): Pending<T> & { waiter: Waiter<T> } {
    if (this.#waiting >= this.#maxWaiters) {
      throw new LaunchError('LAUNCH_FULL', `${this.#waiting} calls wait in the store already: wait in fewer places at a time`);
    }
    this.#waiting++;
    let settled = false;
    const waiter: Waiter<T> = { resolve() {}, reject() {}, timer: undefined };
    const done = new Promise<T>((resolve, reject) => {
      waiter.resolve = (value) => {
        settled = true;
        resolve(value);
      };
      waiter.reject = (error) => {
        settled = true;
        reject(error);
      };
    });
    waiter.timer = setTimeout(() => {
      const words = late();
      this.#settle(waiter);
      forget(waiter);
      waiter.reject(new LaunchError('LAUNCH_TIMEOUT', words));
    }, timeoutMs);
    const cancel = () => {
      if (settled) return;
      settled = true;
      this.#settle(waiter);
      forget(waiter);
    };
    return { done, cancel, waiter };
  }
}
