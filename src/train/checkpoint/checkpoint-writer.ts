/**
 * Writes checkpoints while training goes on: the step copies this rank's share of parameters and optimizer state, and a thread does the rest.
 *
 * Everything else that a run needs to go on exactly follows from the number of steps: the order of samples, dropout and the learning rate are functions of it.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { nowMs } from '../clock.js';
import type { Distributed } from '../distribute.js';
import type { ShardWritten, WriteShard } from './checkpoint-thread.js';
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

/** Copies under way at once. */
const SLOTS = 2;

export class CheckpointWriter {
  readonly #options: CheckpointOptions;
  readonly #thread: Worker;
  readonly #buffers: (SharedArrayBuffer | undefined)[] = Array.from({ length: SLOTS }, () => undefined);
  readonly #busy: boolean[] = Array.from({ length: SLOTS }, () => false);
  readonly #free = new Int32Array(1);
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

  /** Copies this rank's share and hands it to the thread. All ranks call it after the same step. @throws RankLost. */
  async begin(training: Distributed): Promise<void> {
    const began = nowMs();
    if (this.#options.whenBusy === 'wait') while (!this.#busy.includes(false)) await once(this.#thread, 'message');
    const slot = this.#busy.indexOf(false);
    // All write it or none: half of a checkpoint is none.
    this.#free[0] = slot < 0 ? 0 : 1;
    training.communicator.allreduceSync(this.#free, 'min');
    if (this.#free[0] === 0) {
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
    let buffer = this.#buffers[slot];
    if (buffer?.byteLength !== bytes) buffer = this.#buffers[slot] = new SharedArrayBuffer(bytes);
    let at = 0;
    for (const { data } of tensors) {
      new Float32Array(buffer, at, data.length).set(data);
      at += data.byteLength;
    }
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
      data: buffer,
      manifest,
      keep,
      commitTimeoutMs,
    };
    this.#busy[slot] = true;
    this.#begun++;
    this.#thread.ref();
    this.#thread.postMessage(task);
    this.#stallMs += nowMs() - began;
  }

  #written({ slot, step, committed, error, ms }: ShardWritten): void {
    this.#busy[slot] = false;
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
    while (this.#busy.includes(true)) await once(this.#thread, 'message');
  }

  /** Writes what was begun and ends the thread. Idempotent. */
  async close(): Promise<void> {
    await this.flush();
    await this.#thread.terminate();
  }
}
