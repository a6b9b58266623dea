/**
 * Writes checkpoints while training goes on: a thread copies this rank's share of parameters and optimizer state while the next step computes, and does the rest.
 *
 * Everything else that a run needs to go on exactly follows from the number of steps: the order of samples, dropout and the learning rate are functions of it.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { addressOf } from '../../nn/kernels.js';
import { nowMs } from '../clock.js';
import type { Distributed } from '../distribute.js';
import type { ShardWritten, WriteDecision, WriteShard } from './checkpoint-thread.js';
import { COPY } from './copy.js';
import { partOf } from './layout.js';
import { safetensorsHeader, type Tensor } from './safetensors.js';

export interface CheckpointOptions {
  /** Where checkpoints lie; the same for all ranks, on a file system that they share. Made when it is not there. */
  readonly directory: string;
  /** Steps between two; at least 1. */
  readonly everySteps: number;
  /** How many are kept; at least 1. Default 3. */
  readonly keep?: number;
  /** What the run was made with; a resumed run compares. Default: nothing. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** When the copies of the last two are still being written: leave this one out, or let the step wait. Default 'skip'. */
  readonly whenBusy?: 'skip' | 'wait';
  /** How long the first rank waits for the shards of the others, ms. Default 30,000. */
  readonly commitTimeoutMs?: number;
}

/** What a rank says when it is asked whether it has room; the sum tells whether all have, and an unanswered question is no yes. */
const FREE = 2;
const BUSY = 1;
/** Copies under way at once. */
const SLOTS = 2;

export class CheckpointWriter {
  readonly #options: CheckpointOptions;
  readonly #thread: Worker;
  readonly #buffers: (SharedArrayBuffer | undefined)[] = Array.from({ length: SLOTS }, () => undefined);
  readonly #controls = Array.from({ length: SLOTS }, () => new Int32Array(new SharedArrayBuffer(4)));
  readonly #busy: boolean[] = Array.from({ length: SLOTS }, () => false);
  readonly #undecided: ({ readonly answered: Promise<void>; readonly decide: () => void } | undefined)[] = [];
  #begun = 0;
  #committed = -1;
  #skipped = 0;
  #stallMs = 0;
  #writeMs = 0;
  #failure: string | undefined;

  /** @throws RangeError for a bad option. */
  constructor(options: CheckpointOptions) {
    const { everySteps, keep = 3 } = options;
    for (const [what, value] of Object.entries({ everySteps, keep })) {
      if (!Number.isSafeInteger(value) || value < 1)
        throw new RangeError(`${what} must be an integer of at least 1, not ${value}`);
    }
    this.#options = options;
    this.#thread = new Worker(new URL('./checkpoint-thread.js', import.meta.url), { execArgv: [] });
    this.#thread.unref();
    this.#thread.on('message', (said: ShardWritten) => this.#written(said));
  }

  /** Whether a checkpoint belongs after so many steps. */
  due(stepsDone: number): boolean {
    return stepsDone % this.#options.everySteps === 0;
  }

  /**
   * Hands this rank's share to the thread. All ranks call it after the same step. They write it only when all have room for it, for half of a checkpoint is none;
   * that is asked in the background and known before the next update. @throws RankLost.
   */
  async begin(training: Distributed): Promise<void> {
    const began = nowMs();
    if (this.#options.whenBusy === 'wait') {
      while (!this.#busy.includes(false)) {
        // The one before may wait for its word, which the next update would give.
        await this.#settle();
        if (!this.#busy.includes(false)) await once(this.#thread, 'message');
      }
    }
    const slot = this.#busy.indexOf(false);
    const asked = training.size;
    const answers = Int32Array.of(slot < 0 ? BUSY : FREE);
    const answered = asked === 1 ? Promise.resolve() : training.communicator.allreduce(answers, 'sum').catch(() => {});
    if (!training.synchronous) await answered;
    if (slot < 0) {
      this.#skipped++;
      return;
    }
    const { model, optimizer, rank, size, stepsDone } = training;
    const slice = (name: string, all: Float32Array): Tensor => {
      const data = all.subarray(...partOf(all.length, rank, size));
      return { name, shape: [data.length], data };
    };
    const tensors = [slice('parameters', model.parameters), slice('optimizer', optimizer.state)];
    if (rank === 0) tensors.push({ name: 'state', shape: [model.state.length], data: model.state });
    const header = safetensorsHeader(tensors, { format: 'verbena checkpoint', shard: `${rank} of ${size}` });
    const bytes = tensors.reduce((sum, { data }) => sum + data.byteLength, 0);
    let fallback = this.#buffers[slot];
    if (fallback?.byteLength !== bytes) fallback = this.#buffers[slot] = new SharedArrayBuffer(bytes);
    const control = this.#controls[slot];
    Atomics.store(control, 0, COPY.open);
    // Parameters and moments stay as they are until the next update; untrained state changes with the next forward.
    const moving = tensors.slice(0, 2).map(({ data }) => data as Float32Array);
    const sources = moving.map((data) => ({ address: addressOf(data), bytes: data.byteLength }));
    const state = rank === 0 ? model.state.slice() : new Float32Array(0);
    const { directory, keep = 3, settings = {}, commitTimeoutMs = 30_000 } = this.#options;
    const manifest = {
      format: 1 as const,
      step: stepsDone,
      optimizer: { kind: optimizer.kind, steps: optimizer.steps, floats: optimizer.state.length },
      parameters: model.parameters.length,
      state: model.state.length,
      settings,
    };
    const task: WriteShard = {
      slot,
      directory,
      shard: rank,
      shards: size,
      header,
      sources,
      state,
      control,
      fallback,
      manifest,
      keep,
      commitTimeoutMs,
    };
    this.#busy[slot] = true;
    this.#thread.ref();
    this.#thread.postMessage(task);
    let told = false;
    const decide = () => {
      if (told) return;
      told = true;
      const at = nowMs();
      this.#finishCopy(control, fallback, [...moving, state]);
      // Left as it was, the question was never answered: a rank is gone.
      const write = answers[0] === FREE * asked;
      if (write) this.#begun++;
      else this.#skipped++;
      this.#thread.postMessage({ slot, write } satisfies WriteDecision);
      this.#stallMs += nowMs() - at;
    };
    this.#undecided[slot] = { answered, decide };
    training.beforeNextUpdate(decide);
    this.#stallMs += nowMs() - began;
  }

  /** Decides on what no update has decided on. */
  async #settle(): Promise<void> {
    for (const one of this.#undecided) {
      await one?.answered;
      one?.decide();
    }
  }

  /** The step is about to write: the copy must be made by now. */
  #finishCopy(control: Int32Array, fallback: SharedArrayBuffer, parts: readonly Float32Array[]): void {
    if (Atomics.compareExchange(control, 0, COPY.open, COPY.byStep) === COPY.open) {
      // The thread is busy with the one before.
      let at = 0;
      for (const part of parts) {
        new Float32Array(fallback, at, part.length).set(part);
        at += part.byteLength;
      }
      Atomics.store(control, 0, COPY.copiedByStep);
      Atomics.notify(control, 0);
    }
    while (Atomics.load(control, 0) === COPY.byThread) Atomics.wait(control, 0, COPY.byThread);
  }

  #written({ slot, step, committed, error, ms }: ShardWritten): void {
    this.#busy[slot] = false;
    this.#undecided[slot] = undefined;
    if (!this.#busy.includes(true)) this.#thread.unref();
    this.#writeMs += ms;
    if (committed) this.#committed = step;
    if (error !== undefined) this.#failure = error;
  }

  /** How it went: the stall is what steps paid. */
  get totals(): {
    readonly begun: number;
    readonly skipped: number;
    /** Step of the last whole checkpoint, as the first rank knows it; -1: none. */
    readonly committed: number;
    readonly stallMs: number;
    readonly writeMs: number;
    /** What went wrong last. */
    readonly failure: string | undefined;
  } {
    const [begun, skipped, committed, stallMs] = [this.#begun, this.#skipped, this.#committed, this.#stallMs];
    return { begun, skipped, committed, stallMs, writeMs: this.#writeMs, failure: this.#failure };
  }

  /** Waits until everything that was begun is written. */
  async flush(): Promise<void> {
    await this.#settle();
    while (this.#busy.includes(true)) await once(this.#thread, 'message');
  }

  /** Writes what was begun and ends the thread. Idempotent. */
  async close(): Promise<void> {
    await this.flush();
    await this.#thread.terminate();
  }
}
