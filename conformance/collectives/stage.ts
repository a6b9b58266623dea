/** What the suite of collectives needs of a way to run them, and the stage of a case: ranks in one process, each with a communicator of its own. */

import { Communicator, type CommunicatorOptions, type Exchange } from '../../src/collectives/index.js';
import type { Context, WorkerOptions } from '../../src/messaging/index.js';

export interface CollectivesFactory {
  /** Shown in the test names. */
  readonly name: string;
  /** A context per rank; undefined: on shared memory. */
  readonly open?: () => Promise<Context>;
  /** Options of every worker. */
  readonly worker?: WorkerOptions;
  /** Numbers of ranks that every algorithm is tried with. */
  readonly sizes: readonly number[];
  /** Cases that cannot be passed, each with the reason. */
  readonly skip?: readonly { readonly reason: string; readonly tests: readonly string[] }[];
}

/** A table in memory. */
export class MemoryExchange implements Exchange {
  readonly #values = new Map<string, Uint8Array>();
  readonly #waiting = new Map<string, ((value: Uint8Array) => void)[]>();

  async set(key: string, value: string | Uint8Array): Promise<void> {
    const bytes = typeof value === 'string' ? new TextEncoder().encode(value) : value;
    this.#values.set(key, bytes);
    for (const wake of this.#waiting.get(key) ?? []) wake(bytes);
    this.#waiting.delete(key);
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return this.#values.get(key);
  }

  wait(key: string, { timeoutMs = 60_000 }: { timeoutMs?: number } = {}): Promise<Uint8Array> {
    const value = this.#values.get(key);
    if (value !== undefined) return Promise.resolve(value);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`nobody set '${key}' within ${timeoutMs} ms`)), timeoutMs);
      const wake = (bytes: Uint8Array) => {
        clearTimeout(timer);
        resolve(bytes);
      };
      this.#waiting.set(key, [...(this.#waiting.get(key) ?? []), wake]);
    });
  }

  async compareAndSet(key: string, _expected: undefined, desired: string | Uint8Array): Promise<Uint8Array | undefined> {
    if (!this.#values.has(key)) await this.set(key, desired);
    return this.#values.get(key);
  }
}

export type Options = Omit<CommunicatorOptions, 'rank' | 'size' | 'exchange' | 'key' | 'worker'>;

/** The ranks of one case. */
export class Stage {
  readonly exchange = new MemoryExchange();
  readonly contexts: Context[] = [];
  readonly #factory: CollectivesFactory;
  readonly #workers: Promise<CommunicatorOptions['worker']>[] = [];
  readonly #made: Communicator[] = [];
  #groups = 0;

  constructor(factory: CollectivesFactory) {
    this.#factory = factory;
  }

  /** Communicators of `size` ranks, one per rank. */
  async ranks(size: number, options: Options = {}): Promise<Communicator[]> {
    const key = `group-${this.#groups++}`;
    const made = await Promise.all(Array.from({ length: size }, (_, rank) => this.rank(rank, size, key, options)));
    return made;
  }

  async rank(rank: number, size: number, key: string, options: Options = {}): Promise<Communicator> {
    const worker = await this.worker(rank);
    const { exchange } = this;
    const made = await Communicator.create({ timeoutMs: 20_000, ...options, rank, size, exchange, key, worker });
    this.#made.push(made);
    return made;
  }

  /** The worker of a rank, the same for all its communicators. */
  worker(rank: number): Promise<CommunicatorOptions['worker']> {
    this.#workers[rank] ??= this.#open(rank);
    return this.#workers[rank];
  }

  async #open(rank: number): Promise<CommunicatorOptions['worker']> {
    const context = await this.#factory.open?.();
    if (context === undefined) return undefined;
    this.contexts[rank] = context;
    return context.createWorker({ ...this.#factory.worker });
  }

  async close(): Promise<void> {
    for (const communicator of this.#made) communicator.close();
    for (const context of this.contexts) await context?.close();
  }
}

export type Case = (stage: Stage, factory: CollectivesFactory) => Promise<void>;

/** Does the same at every rank, at the same time. */
export async function all<T>(ranks: readonly Communicator[], body: (rank: Communicator) => Promise<T> | T): Promise<T[]> {
  return Promise.all(ranks.map(async (rank) => body(rank)));
}
