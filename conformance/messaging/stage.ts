/** What the messaging suite needs of an engine, and the stage that every case plays on: workers that are closed when it is over. */

import assert from 'node:assert/strict';
import type { Context, Endpoint, Worker, WorkerOptions } from '../../src/messaging/index.js';
import type { VerbsEndpoint } from '../../src/messaging/verbs-endpoint.js';
import type { VerbsWorker } from '../../src/messaging/verbs-worker.js';

/** What the messaging suite is run on: an engine over a device. */
export interface MessagingFactory {
  /** Shown in the test names. */
  readonly name: string;
  /** Opens the nth context of a case. They can reach each other, and are used from one process. */
  open(nth: number): Promise<Context>;
  /** Options of every worker, under those of the case. */
  readonly worker?: WorkerOptions;
  /** Cases that this engine cannot pass, each with the reason; named 'chapter: sentence'. */
  readonly skip?: readonly { readonly reason: string; readonly tests: readonly string[] }[];
}

export interface Pair {
  readonly near: Worker;
  readonly far: Worker;
  /** From near to far. */
  readonly out: Endpoint;
  /** From far to near. */
  readonly back: Endpoint;
}

export class Stage {
  readonly factory: MessagingFactory;
  readonly #contexts: Context[] = [];

  constructor(factory: MessagingFactory) {
    this.factory = factory;
  }

  async context(): Promise<Context> {
    const context = await this.factory.open(this.#contexts.length);
    this.#contexts.push(context);
    return context;
  }

  async worker(options: WorkerOptions = {}): Promise<Worker> {
    const context = await this.context();
    return context.createWorker({ timeoutMs: 20_000, ...this.factory.worker, ...options });
  }

  /** Two workers with an endpoint each way. */
  async pair(options: WorkerOptions = {}, farOptions: WorkerOptions = options): Promise<Pair> {
    const near = await this.worker(options);
    const far = await this.worker(farOptions);
    return { near, far, ...(await connectPair(near, far)) };
  }

  async close(): Promise<void> {
    for (const context of this.#contexts) await context.close();
  }
}

/** Connects two workers and waits until both sides stand. */
export async function connectPair(near: Worker, far: Worker): Promise<{ out: Endpoint; back: Endpoint }> {
  const arrived = new Promise<Endpoint>((resolve) => {
    far.onEndpoint = resolve;
  });
  const out = near.connect(far.address);
  await out.ready();
  return { out, back: await arrived };
}

export type Case = (stage: Stage) => Promise<void>;

export interface Chapter {
  readonly name: string;
  readonly cases: Readonly<Record<string, Case>>;
}

export async function runCase(factory: MessagingFactory, body: Case): Promise<void> {
  const stage = new Stage(factory);
  try {
    await body(stage);
  } finally {
    await stage.close();
  }
}

/** What is the verbs engine's own: rings, lanes, the store. Other engines skip the cases that look there. */
export const ringsOf = (endpoint: Endpoint): VerbsEndpoint => endpoint as VerbsEndpoint;
export const partsOf = (worker: Worker): VerbsWorker => worker as VerbsWorker;

/** Bytes that tell their place and their seed. */
export function pattern(length: number, seed = 1): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) bytes[i] = (i * 31 + seed * 7 + (i >> 8)) & 0xff;
  return bytes;
}

/** Compares without printing megabytes. */
export function assertBytes(actual: Uint8Array, expected: Uint8Array, what = 'the bytes'): void {
  assert.equal(actual.length, expected.length, `${what}: length`);
  assert.ok(Buffer.compare(actual, expected) === 0, `${what} differ`);
}

/** Drives workers until a condition holds. */
export async function until(condition: () => boolean, what: string, ...workers: Worker[]): Promise<void> {
  const deadline = performance.now() + 20_000;
  while (!condition()) {
    assert.ok(performance.now() < deadline, `${what} did not happen`);
    for (const worker of workers) worker.poll();
    await new Promise((resolve) => setImmediate(resolve));
  }
}
