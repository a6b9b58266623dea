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
import type { LeftOut, ShardLayout, ShardWritten } from './checkpoint-thread.js';
import { partOf } from './layout.js';
import { restoreCheckpoint } from './restore.js';
import { safetensorsHeader, type Tensor } from './safetensors.js';
import { cutPieces, PIECE } from './snapshot.js';

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
  readonly #busy: boolean[] = Array.from({ length: SLOTS }, () => false);
  #layout: ShardLayout | undefined;
  /** The pieces as this thread sees them. */
  #sources: readonly { readonly bytes: Uint8Array; readonly place: number }[] = [];
  /** What the thread has not answered. */
  #asked = 0;
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

  /** Lays out memory for the copies: at the start, and when the ranks have changed, so that no step has to. */
  prepare(training: Distributed): void {
    const { rank, size } = training;
    if (this.#layout?.shard === rank && this.#layout.shards === size) return;
    this.#layout = this.#layOut(training);
    this.#thread.postMessage(this.#layout);
  }

  /**
   * Hands this rank's share to the thread. All ranks call it after the same step. Half of a checkpoint is none: a rank that has no room for it says so on the disk, and
   * the first one leaves it unfinished.
   */
  async begin(training: Distributed): Promise<void> {
    const began = nowMs();
    this.prepare(training);
    const { bell, slots } = this.#layout as ShardLayout;
    const slot = bell[0] % SLOTS;
    if (this.#options.whenBusy === 'wait') while (this.#busy[slot]) await once(this.#thread, 'message');
    const { model, optimizer, stepsDone } = training;
    this.#asked++;
    this.#thread.ref();
    if (this.#busy[slot]) {
      this.#skipped++;
      this.#thread.postMessage({ leftOut: stepsDone } satisfies LeftOut);
      return;
    }
    const { words, saved, steps, state } = slots[slot];
    words.fill(PIECE.open);
    [steps[0], steps[1]] = [stepsDone, optimizer.steps];
    // Untrained state changes with the next forward, parameters and moments with the next update.
    if (state.length > 0) state.set(model.state);
    this.#busy[slot] = true;
    this.#begun++;
    Atomics.add(bell, 0, 1);
    Atomics.notify(bell, 0);
    const sources = this.#sources;
    training.beforeNextUpdate(() => {
      const at = nowMs();
      for (const [i, { bytes, place }] of sources.entries()) {
        if (Atomics.load(words, i) === PIECE.copied) continue;
        saved.set(bytes, place);
        Atomics.store(words, i, PIECE.saved);
      }
      this.#stallMs += nowMs() - at;
    });
    this.#stallMs += nowMs() - began;
  }

  /** Puts the newest good checkpoint of its directory into model and optimizer; returns its step, undefined where there is none. @throws as `restoreCheckpoint`. */
  restore({ model, optimizer }: Distributed): number | undefined {
    const { directory, settings } = this.#options;
    return restoreCheckpoint(directory, model, optimizer, { settings })?.step;
  }

  /** What stays the same as long as the ranks do. */
  #layOut({ model, optimizer, rank, size }: Distributed): ShardLayout {
    const slice = (name: string, all: Float32Array): Tensor => {
      const data = all.subarray(...partOf(all.length, rank, size));
      return { name, shape: [data.length], data };
    };
    const moving = [slice('parameters', model.parameters), slice('optimizer', optimizer.state)];
    const state = rank === 0 ? [{ name: 'state', shape: [model.state.length], data: model.state }] : [];
    const pieces = cutPieces(moving.map(({ data }) => ({ address: addressOf(data), bytes: data.byteLength })));
    const views = moving.map(({ data }) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    this.#sources = pieces.map(({ at, bytes }) => {
      const [view, from] = at < views[0].length ? [views[0], at] : [views[1], at - views[0].length];
      return { bytes: view.subarray(from, from + bytes), place: at };
    });
    const bytes = moving.reduce((sum, { data }) => sum + data.byteLength, 0);
    const { directory, keep = 3, settings = {}, commitTimeoutMs = 30_000 } = this.#options;
    return {
      directory,
      shard: rank,
      shards: size,
      header: safetensorsHeader([...moving, ...state], { format: 'verbena checkpoint', shard: `${rank} of ${size}` }),
      pieces,
      bell: new Int32Array(new SharedArrayBuffer(4)),
      slots: Array.from({ length: SLOTS }, () => ({
        words: new Int32Array(new SharedArrayBuffer(4 * pieces.length)),
        saved: new Uint8Array(new SharedArrayBuffer(bytes)).fill(0), // its pages are there before a step needs them
        steps: new Float64Array(new SharedArrayBuffer(16)),
        state: new Float32Array(new SharedArrayBuffer(rank === 0 ? model.state.byteLength : 0)),
      })),
      manifest: {
        format: 1,
        optimizer: { kind: optimizer.kind, floats: optimizer.state.length },
        parameters: model.parameters.length,
        state: model.state.length,
        settings,
      },
      keep,
      commitTimeoutMs,
    };
  }

  #written({ slot, step, outcome, error, ms }: ShardWritten): void {
    if (slot !== undefined) this.#busy[slot] = false;
    if (--this.#asked === 0) this.#thread.unref();
    this.#writeMs += ms;
    if (outcome === 'whole') this.#committed = step;
    if (outcome === 'left out' && slot !== undefined) {
      this.#begun--;
      this.#skipped++;
    }
    if (error === undefined) return;
    if (error !== this.#failure)
      process.emitWarning(`the checkpoint of step ${step} was not written: ${error}`, {
        type: 'VerbenaWarning',
        code: 'VERBENA_CHECKPOINT',
      });
    this.#failure = error;
  }

  /** How it went: the stall is what steps paid. */
  get totals(): {
    /** Checkpoints that this rank wrote its share of; those that others had no room for do not count where the first rank is asked. */
    readonly begun: number;
    readonly skipped: number;
    /** Step of the last whole checkpoint, as the first rank knows it; -1: none. */
    readonly committed: number;
    readonly stallMs: number;
    readonly writeMs: number;
    /** What went wrong last; said in a warning (VERBENA_CHECKPOINT), too, and training goes on. */
    readonly failure: string | undefined;
  } {
    const [begun, skipped, committed, stallMs] = [this.#begun, this.#skipped, this.#committed, this.#stallMs];
    return { begun, skipped, committed, stallMs, writeMs: this.#writeMs, failure: this.#failure };
  }

  /** Waits until everything that was begun is written. */
  async flush(): Promise<void> {
    while (this.#asked > 0) await once(this.#thread, 'message');
  }

  /** Writes what was begun and ends the thread. Idempotent. */
  async close(): Promise<void> {
    await this.flush();
    await this.#thread.terminate();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
