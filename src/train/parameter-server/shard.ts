/**
 * A shard: a part of the parameters, its optimizer, and the rules by which gradients are applied. No messages and no waiting in here, so that every
 * rule can be tested as it stands.
 *
 *   clocks   [ 7 | 6 | 7 ]     steps of each worker that are in the parameters: a push of an earlier step was applied before and is only granted again
 *   waiting  [ - | 7 | 7 ]     pushes that are not granted yet
 *   round    7                 sync: the step that is gathered, the highest of the clocks
 *
 * - sync: a step is applied when every living worker has pushed it, as the mean over all samples. With backups it need not be all: when a quorum has pushed, the rest may be
 *   closed out, and the mean is over the samples that came. A push of a step that is over is dropped and granted with the round that is open: its worker goes on from there.
 * - async: every push is applied when it comes. Gradients are of parameters that others have changed meanwhile.
 * - ssp: as async, but a worker that is more than `staleness` steps ahead of the slowest gets its grant only when that one has come closer.
 */
import type { Optimizer, ParameterRange } from '../../nn/index.js';
import { addressOf, KERNEL } from '../../nn/kernels.js';
import { applyUpdate, weightedSum } from '../compression/kernels.js';
import { makeOptimizer, type ServerOptimizer } from './server-optimizer.js';

/** Where the addresses begin among the arguments of an update, by kernel. */
const FIRST_ADDRESS: Readonly<Record<number, number>> = { [KERNEL.sgd]: 4, [KERNEL.adam]: 8 };

export const SERVER_MODES = ['sync', 'async', 'ssp'] as const;
/** When gradients are applied: when all workers' are there, at once, or at once within a bound of staleness. */
export type ServerMode = (typeof SERVER_MODES)[number];

export interface ShardOptions {
  readonly mode: ServerMode;
  /** ssp: steps that a worker may be ahead of the slowest. */
  readonly staleness: number;
  /** sync: workers that a step can do without. */
  readonly backups: number;
  readonly workers: number;
  readonly optimizer: ServerOptimizer;
  /** Tensors inside the shard. */
  readonly ranges: readonly ParameterRange[];
}

interface Push {
  readonly step: number;
  readonly weight: number;
  readonly rate: number;
  readonly gradient: Float32Array;
  applied: boolean;
}

export interface Grant {
  readonly worker: number;
  readonly step: number;
  /** Samples in the last update. */
  readonly weight: number;
  /** The worker's next step: the one after `step`, but for a push that came too late. */
  readonly next: number;
  /** The push came when its step was over, and was dropped. */
  readonly late: boolean;
}

export class Shard {
  readonly parameters: Float32Array;
  readonly optimizer: Optimizer;
  /** Steps of each worker that have been applied. */
  readonly clocks: Float64Array;
  /** Updates so far; a replica is of one version. */
  version = 0;
  /** Pushes applied so far. */
  applied = 0;
  readonly #options: ShardOptions;
  readonly #waiting: (Push | undefined)[];
  readonly #gone: boolean[];
  /** The round that each worker was last told. */
  readonly #told: Float64Array;
  readonly #gradients: Float32Array;
  /** Where new parameters are written as they are made: those of workers, where they can be reached. */
  deliverTo: readonly Float32Array[] = [];
  #weight = 0;
  /** What the update under way adds up; empty when the optimizer reads the only gradient where it lies. */
  #summands: readonly Float32Array[] = [];
  #factors: readonly number[] = [];

  /**
   * `parameters`: where they live; workers read them there. `only`: the gradient of the only worker, which the optimizer then reads where it lies; the gradients of
   * several are summed up in memory of the shard.
   */
  constructor(parameters: Float32Array, options: ShardOptions, only?: Float32Array) {
    const { workers, ranges } = options;
    this.parameters = parameters;
    this.#options = options;
    this.#gradients = workers === 1 && only !== undefined ? only : new Float32Array(parameters.length);
    const run = (kernel: number, ...numbers: number[]) => this.#apply(kernel, numbers);
    this.optimizer = makeOptimizer(options.optimizer, { parameters, gradients: this.#gradients, ranges, run });
    this.clocks = new Float64Array(workers);
    this.#waiting = Array.from({ length: workers }, () => undefined);
    this.#gone = Array.from({ length: workers }, () => false);
    this.#told = new Float64Array(workers);
  }

  /** sync: the step that is gathered. */
  get round(): number {
    return this.clocks.reduce((most, clock) => Math.max(most, clock), 0);
  }

  /** Takes a gradient of a worker's step (from 0). It must stay as it is until the push is granted. Throws a RangeError when a step is left out. */
  push(worker: number, step: number, weight: number, rate: number, gradient: Float32Array): void {
    const done = this.#options.backups > 0 ? this.round : this.clocks[worker];
    if (step > done) throw new RangeError(`worker ${worker} pushed step ${step}, but its step ${done} has not been applied`);
    this.#waiting[worker] = { step, weight, rate, gradient, applied: step < done };
  }

  /** A worker will push no more: nobody waits for it. A push of it that is not applied is forgotten. */
  drop(worker: number): void {
    this.#gone[worker] = true;
    this.#waiting[worker] = undefined;
  }

  /** Whether `apply` would change something. */
  get hasWork(): boolean {
    const missing = this.#missing();
    if (missing.length === this.#living) return false;
    if (this.#options.mode !== 'sync' || missing.length === 0) return true;
    // Who has not been told of this round yet may stand still: nobody waits for it.
    return this.hasQuorum && missing.every((worker) => this.#told[worker] < this.round);
  }

  /** sync with backups: enough workers have pushed the step, though not all. The rest may be closed out: `apply(true)`. */
  get hasQuorum(): boolean {
    const { mode, backups, workers } = this.#options;
    const missing = this.#missing().length;
    return mode === 'sync' && missing > 0 && this.#living - missing >= Math.max(1, Math.min(this.#living, workers - backups));
  }

  get #living(): number {
    return this.#gone.filter((gone) => !gone).length;
  }

  /** Living workers without a push that could be applied. */
  #missing(): number[] {
    return [...this.#waiting.keys()].filter((worker) => !this.#gone[worker] && this.#waiting[worker]?.applied !== false);
  }

  /** Applies what can be applied; `early`: also a step that has a quorum only. */
  apply(early = false): void {
    if (!this.hasWork && !(early && this.hasQuorum)) return;
    if (this.#options.mode === 'sync') this.#applyTogether();
    else this.#applyEach();
  }

  /** Takes the pushes that may return to their workers. After `apply`, and after the replica has what was applied. */
  grants(): Grant[] {
    const { mode, staleness } = this.#options;
    const living = [...this.clocks].filter((_, worker) => !this.#gone[worker]);
    const slowest = Math.min(...living);
    const { round } = this;
    const granted: Grant[] = [];
    for (const [worker, push] of this.#waiting.entries()) {
      if (!push?.applied) continue;
      if (mode === 'ssp' && this.clocks[worker] - slowest > staleness) continue;
      this.#waiting[worker] = undefined;
      const late = mode === 'sync' && this.clocks[worker] <= push.step;
      const next = mode === 'sync' ? round : push.step + 1;
      this.#told[worker] = next;
      granted.push({ worker, step: push.step, weight: this.#weight, next, late });
    }
    return granted;
  }

  #applyTogether(): void {
    const pushes = this.#waiting.filter((push) => push !== undefined && !push.applied) as Push[];
    this.#update(pushes);
  }

  #applyEach(): void {
    for (const push of this.#waiting) {
      if (push !== undefined && !push.applied) this.#update([push]);
    }
  }

  #update(pushes: readonly Push[]): void {
    const total = pushes.reduce((sum, { weight }) => sum + weight, 0);
    const useful = pushes.filter(({ weight }) => weight > 0);
    if (total > 0) {
      const inPlace = useful[0].gradient === this.#gradients;
      this.#summands = inPlace ? [] : useful.map(({ gradient }) => gradient);
      this.#factors = useful.map(({ weight }) => weight / total);
      this.#step(useful[0].rate);
      this.version++;
    }
    this.#weight = total;
    this.applied += pushes.length;
    for (const push of pushes) {
      push.applied = true;
      this.clocks[this.#waiting.indexOf(push)] = push.step + 1;
    }
  }

  #step(rate: number): void {
    if (this.optimizer.kind !== 'lamb') {
      this.optimizer.step(rate);
      return;
    }
    // The length of a tensor's step depends on all of it.
    if (this.#summands.length > 0) weightedSum(this.#gradients, this.#summands, this.#factors);
    this.optimizer.step(rate);
    for (const target of this.deliverTo) target.set(this.parameters);
  }

  /** A range of the update, as the optimizer calls it: gradients are added up before and new parameters delivered after, while they are in the cache. */
  #apply(kernel: number, numbers: readonly number[]): void {
    const first = FIRST_ADDRESS[kernel];
    const offset = numbers[first] - addressOf(this.parameters);
    const places = (arrays: readonly Float32Array[]) => arrays.map((array) => addressOf(array) + offset);
    applyUpdate([kernel, ...numbers], first, places(this.#summands), this.#factors, places(this.deliverTo));
  }
}
