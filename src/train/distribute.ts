/**
 * Data parallelism: `distribute` turns a model and its optimizer into one that trains together with other ranks.
 *
 * ```ts
 * const device = await openDevice('shm');
 * const model = new Model({ ..., memory: arenaMemory(device) });        // gradients lie where peers can reach them: no copy
 * const training = await distribute(model, new Sgd(model), world, { device });
 * for (...) await training.step({ ...batch, learningRate: 0.1 });       // forward, backward, exchange, update
 * ```
 *
 * All ranks start from the state of rank 0 and apply the same update in every step, so they stay equal without ever comparing. Each rank's loss is
 * divided by the samples of ALL ranks, so the sum of the gradients is that of the mean loss also when ranks have different numbers of samples.
 *
 * After a loss `recover` makes a communicator of those who are left. A step counts as done when the optimizer has run; a rank that was cut off in
 * the middle of the last exchange takes the state of one that was not, so a gradient is applied once everywhere or nowhere.
 */
import { availableParallelism } from 'node:os';
import { Communicator } from '../collectives/communicator.js';
import { CollectiveError } from '../collectives/errors.js';
import type { World } from '../launch/index.js';
import { clipByGlobalNorm } from '../nn/clipping.js';
import type { Loss, Model, Optimizer } from '../nn/index.js';
import { sizeOf } from '../nn/layer.js';
import { PassAbandoned } from '../nn/model.js';
import type { Device } from '../verbs/index.js';
import { allReduceExchange } from './all-reduce-exchange.js';
import { allreduceCost, measureBackward } from './bucket-costs.js';
import { type BucketPlan, planBuckets, type ReadyRange } from './buckets.js';
import { nowMs } from './clock.js';
import type { BucketTimes, ExchangeTotals, GradientExchange, MakeExchange, StepExchanged } from './gradient-exchange.js';
import { ShardLost } from './parameter-server/client.js';
import { ShardGradients } from './shard-gradients.js';
import { exposure, type StepTimes } from './step-times.js';
import type { Timeline } from './timeline.js';

export interface DistributeOptions {
  /** Where the model's memory comes from (`arenaMemory`). Exchanges that register memory need it. */
  readonly device: Device;
  /** How gradients are exchanged. Default: all-reduce. */
  readonly exchange?: MakeExchange;
  /** A bucket has at least so many bytes; above 0. Default: chosen by cost. */
  readonly bucketBytes?: number;
  /** Micro-batches of a step: forward and backward run for each, the exchange once. At least 1. Default: as few as fit into the model's maxBatch. */
  readonly accumulate?: number;
  /** Gradients longer than this are shortened before the update; above 0. Default: never. */
  readonly maxNorm?: number;
  /**
   * Reproducible mode: every step is cut into so many shards, and their gradients are added in one fixed order. The result has the same bits for
   * every number of ranks that divides it. Costs a copy of the gradient per shard, and overlap. Default: off.
   */
  readonly shards?: number;
  /** Where spans are recorded. Default: nowhere. */
  readonly timeline?: Timeline;
  /** Steps that are in the parameters already, of a checkpoint; given by any rank, the others follow. At least 0. Default 0. */
  readonly stepsDone?: number;
  /**
   * A rank that is not through with its samples so many ms after its step began leaves out what is not computed, between two layers: the micro-batches (`accumulate`) that
   * are not begun or are in the middle, so all of its samples where there is but one. The others do not wait for more than a layer, and the mean is over the samples
   * that came. When none came, nothing is updated. Takes overlap; not with batch norm over all ranks. Above 0. Default: no deadline.
   */
  readonly deadlineMs?: number;
  /**
   * With a world: a rank that does not come to an exchange for so many ms, because it was stopped, say, is left out, and the others go on without it; longer than any step,
   * evaluation and checkpoint takes. A communicator that is given has a `timeoutMs` of its own. Above 0. Default: only ranks that die are left out.
   */
  readonly timeoutMs?: number;
  /** The world behind a communicator; known by itself when `distribute` gets a world. */
  readonly world?: World;
}

/** This rank's part of a step. */
export interface StepInput {
  /** Samples of this rank; may be 0. */
  readonly count: number;
  /** Samples of all ranks. */
  readonly globalCount: number;
  readonly learningRate: number;
  /** Ids of the own samples, which seed dropout. Default: their places. */
  readonly samples?: Uint32Array;
  /** In reproducible mode: where each of the own shards starts, and the end: shards / ranks + 1 places, from 0 to `count`. */
  readonly shardStarts?: readonly number[];
  /** The inputs of own samples `from` up to, not including, `to`, one after the other. */
  inputs(from: number, to: number): Float32Array | Int32Array;
  /** Their loss; writes into `gradient` the gradient of scale x sum of losses. */
  loss(outputs: Float32Array, from: number, to: number, gradient: Float32Array, scale: number): Loss;
  /**
   * Called when the gradients of all ranks are there, with what forward and backward took for so many own samples. In synchronous modes the ranks have just met: a small collective
   * waits for nobody here.
   */
  exchanged?(computeMs: number, samples: number): void;
}

/** What one step did. */
export interface StepResult {
  /** Steps done, this one included. */
  readonly step: number;
  /** Of this rank. */
  readonly lossSum: number;
  readonly correct: number;
  /** Own samples in the update: fewer than given when the deadline passed, none when the step went on without this rank. */
  readonly count: number;
  /** Samples of all ranks in the update; undefined in asynchronous modes. */
  readonly samples: number | undefined;
  readonly times: StepTimes;
}

/** Whether an error means that ranks are gone, or have not come for the communicator's `timeoutMs`, and those who are left may go on: `recover`. */
export function isLoss(error: unknown): boolean {
  if (error instanceof ShardLost) return true;
  const codes = ['COLL_PEER_LOST', 'COLL_TIMEOUT', 'COLL_ABORTED', 'COLL_CLOSED'];
  return error instanceof CollectiveError && codes.includes(error.code);
}

/** Memory for a model: parameters and gradients as arena memory that peers map. */
export function arenaMemory(device: Device): (floats: number) => Float32Array {
  return (floats) => new Float32Array(device.alloc(Math.max(4, 4 * floats)), 0, floats);
}

/**
 * Makes a model and an optimizer train together with the other ranks: all call it. Parameters, optimizer state and steps become those of rank 0.
 * @throws RangeError for a bad option, RankLost and other errors of collectives.
 */
export async function distribute(
  model: Model,
  optimizer: Optimizer,
  group: World | Communicator,
  options: DistributeOptions,
): Promise<Distributed> {
  const { accumulate = 1, shards, timeoutMs } = options;
  if (timeoutMs !== undefined && (group instanceof Communicator || !(timeoutMs > 0)))
    throw new RangeError('timeoutMs must be above 0 and goes with a world: a communicator is made with its own');
  const communicator = group instanceof Communicator ? group : await Communicator.of(group, { timeoutMs });
  const world = group instanceof Communicator ? options.world : group;
  if (!Number.isSafeInteger(accumulate) || accumulate < 1)
    throw new RangeError(`accumulate must be an integer of at least 1, not ${accumulate}`);
  if (options.maxNorm !== undefined && !(options.maxNorm > 0))
    throw new RangeError(`maxNorm must be above 0, not ${options.maxNorm}`);
  if (shards !== undefined && (!Number.isSafeInteger(shards) || shards % communicator.size !== 0 || shards < 1))
    throw new RangeError(`shards must be a multiple of the ${communicator.size} ranks, not ${shards}`);
  if (shards !== undefined && (options.exchange !== undefined || accumulate > 1))
    throw new RangeError('reproducible mode has an exchange and micro-batches of its own: leave out exchange and accumulate');
  if (options.stepsDone !== undefined && (!Number.isSafeInteger(options.stepsDone) || options.stepsDone < 0))
    throw new RangeError(`stepsDone must be an integer of at least 0, not ${options.stepsDone}`);
  if (options.deadlineMs !== undefined && (!(options.deadlineMs > 0) || shards !== undefined))
    throw new RangeError('deadlineMs must be above 0, and leaves out samples, which reproducible mode cannot');
  if (options.deadlineMs !== undefined && model.state.length > 0 && communicator.size > 1)
    throw new RangeError('batch norm meets the other ranks in every layer: a deadline cannot leave a rank out there');
  const training = new Distributed(model, optimizer, world, options);
  await training.adopt(communicator);
  return training;
}

/** A model that several ranks train together: made by `distribute`. */
export class Distributed {
  readonly model: Model;
  readonly optimizer: Optimizer;
  readonly #world: World | undefined;
  readonly #options: DistributeOptions;
  readonly #ready: readonly Omit<ReadyRange, 'readyMs'>[];
  readonly #readyMs: Float64Array;
  readonly #outputGradient: Float32Array;
  readonly #counted = new Float64Array(1);
  readonly #beforeUpdate: (() => void)[] = [];
  #communicator: Communicator | undefined;
  #exchange: GradientExchange | undefined;
  #shardGradients: ShardGradients | undefined;
  #plan: BucketPlan | undefined;
  #stepsDone = 0;
  /** Parameters or moments went with a server: what this rank has is of no one step. */
  #lost: ShardLost | undefined;

  /** Use `distribute`. */
  constructor(model: Model, optimizer: Optimizer, world: World | undefined, options: DistributeOptions) {
    this.model = model;
    this.optimizer = optimizer;
    this.#world = world;
    this.#options = options;
    this.#stepsDone = options.stepsDone ?? 0;
    this.#outputGradient = new Float32Array(model.maxBatch * sizeOf(model.outputShape));
    const dry = measureBackward(model);
    this.#ready = dry;
    this.#readyMs = Float64Array.from(dry, ({ readyMs }) => readyMs);
  }

  get communicator(): Communicator {
    return this.#communicator as Communicator;
  }

  get rank(): number {
    return this.communicator.rank;
  }

  get size(): number {
    return this.communicator.size;
  }

  /** Steps that are in the parameters. */
  get stepsDone(): number {
    return this.#stepsDone;
  }

  /** Shards of reproducible mode; undefined when it is off. */
  get shards(): number | undefined {
    return this.#options.shards;
  }

  get timeline(): Timeline | undefined {
    return this.#options.timeline;
  }

  /** How the gradient is cut, and what other sizes would have left exposed. */
  get plan(): BucketPlan {
    return this.#plan as BucketPlan;
  }

  get exchangeName(): string {
    return this.#exchange?.name ?? 'reproducible';
  }

  /** Whether all ranks do every step together. */
  get synchronous(): boolean {
    return this.#exchange?.weighting !== 'own';
  }

  /** Totals of the exchange since this communicator was adopted. */
  exchangeTotals(): ExchangeTotals {
    return this.#exchange?.totals() ?? { transferMs: 0, waitMs: 0, bytes: 0 };
  }

  /**
   * Takes a communicator: all of its ranks call this. Those with fewer steps take parameters, optimizer and state of one that has most; then the
   * exchange is made anew. `restore`: as for `recover`.
   */
  async adopt(communicator: Communicator, restore?: () => number | undefined): Promise<void> {
    const first = this.#communicator === undefined;
    const old = this.#communicator;
    await this.#watch(this.#exchange?.close()).catch(passOverShardLost);
    this.#exchange = undefined;
    this.#shardGradients?.close();
    this.#shardGradients = undefined;
    this.#communicator = communicator;
    await this.#align(first, restore);
    // Not before: a rank that is still on its way out of the old one's last call must not find it closed.
    if (old !== undefined && old !== communicator) old.close();
    const readyMs = Float64Array.from(this.#readyMs);
    await communicator.allreduce(readyMs, 'max');
    const ranges = this.#ready.map((range, i) => ({ ...range, readyMs: readyMs[i] }));
    const spareCore = availableParallelism() > communicator.size;
    this.#plan = planBuckets(ranges, allreduceCost(communicator), { bucketBytes: this.#options.bucketBytes, spareCore });
    const { model, optimizer } = this;
    const { parameters, gradients, ranges: tensors } = model;
    const { device, exchange = allReduceExchange(), shards } = this.#options;
    if (shards !== undefined) {
      if (shards % communicator.size !== 0)
        throw new RangeError(`${shards} shards cannot be shared by ${communicator.size} ranks evenly`);
      this.#shardGradients = new ShardGradients(model, communicator, device, shards);
    } else {
      const { buckets } = this.#plan;
      const context = { communicator, world: this.#world, device, parameters, gradients, ranges: tensors, buckets, optimizer };
      this.#exchange = await exchange(context);
      if (this.#options.deadlineMs !== undefined && this.#exchange.weighting !== 'global')
        throw new RangeError(
          `${this.#exchange.name} has no sum over all ranks that a deadline could leave samples out of; servers have \`backups\``,
        );
    }
  }

  /**
   * After a loss (`isLoss`): goes on with those who are left. All of them call it. `restore` is called at the first rank when parameters were lost with the servers that had them: it
   * fills model and optimizer from a checkpoint and returns the steps that are in it; undefined: there is none. @throws ShardLost then, and what `shrink` throws.
   */
  async recover(restore?: () => number | undefined): Promise<void> {
    const begin = nowMs();
    for (;;) {
      const { communicator } = this;
      try {
        await this.adopt(await communicator.shrink(), restore);
        break;
      } catch (error) {
        // Another one was lost meanwhile: shrink what shrink has given.
        if (this.communicator === communicator || !isLoss(error)) throw error;
      }
    }
    this.#options.timeline?.add('recover', begin, nowMs(), this.#stepsDone);
  }

  /**
   * Everybody takes the state of the rank that has done most steps; nothing moves when all are equal, unless it is the first time. Where a shard was lost, everybody takes
   * the checkpoint that the first rank restores.
   */
  async #align(first: boolean, restore: (() => number | undefined) | undefined): Promise<void> {
    const { communicator, model, optimizer } = this;
    const steps = new Float64Array(communicator.size);
    steps[communicator.rank] = this.#lost !== undefined ? Number.NaN : first && this.#stepsDone === 0 ? -1 : this.#stepsDone;
    await communicator.allgather(steps);
    const isLost = steps.some(Number.isNaN);
    const most = Math.max(...steps);
    const root = isLost ? 0 : steps.indexOf(most);
    if (most >= 0 && steps.every((one) => one === most)) return;
    if (isLost && communicator.rank === root) this.#stepsDone = restore?.() ?? -1;
    const counts = Float64Array.of(this.#stepsDone, optimizer.steps);
    await communicator.broadcast(counts, root);
    if (counts[0] < 0)
      throw this.#lost ?? new Error('another rank lost a shard of the parameters, and there is no checkpoint to go on from');
    this.#lost = undefined;
    // Into copies: when the root dies in the middle, nobody is left with half of its state.
    const states = [model.parameters, optimizer.state, model.state].filter(({ length }) => length > 0);
    const copies = states.map((state) => state.slice());
    for (const copy of copies) await communicator.broadcast(copy, root);
    if (communicator.rank === root) return;
    this.#announceUpdate();
    for (const [i, state] of states.entries()) state.set(copies[i]);
    [this.#stepsDone, optimizer.steps] = counts;
  }

  /** One step: forward, backward, exchange, update. @throws RankLost: nothing of the step was applied here; call `recover`. */
  async step(input: StepInput): Promise<StepResult> {
    const beginMs = nowMs();
    const passes = this.#shardGradients === undefined ? this.#pass(input) : this.#shardPass(input, this.#shardGradients);
    const { lossSum, correct, forwardMs } = passes;
    const backwardEndMs = nowMs();
    const exchanged = await this.#finish(input, passes.samples);
    // Counted where it is applied: a rank may be lost in between.
    if (exchanged.updated !== 'gradients') this.#stepsDone += exchanged.steps ?? 1;
    input.exchanged?.(backwardEndMs - beginMs, passes.samples);
    const exchangedMs = nowMs();
    if (exchanged.updated === 'gradients') {
      if (this.#options.maxNorm !== undefined) clipByGlobalNorm(this.model.gradients, this.#options.maxNorm);
      this.#announceUpdate();
      this.optimizer.step(input.learningRate);
      this.#stepsDone += exchanged.steps ?? 1;
    }
    const endMs = nowMs();
    const buckets = this.#exchange?.times?.() ?? [];
    const exposed = exposure(buckets, backwardEndMs, exchangedMs);
    const times: StepTimes = {
      totalMs: endMs - beginMs,
      forwardMs,
      backwardMs: backwardEndMs - beginMs - forwardMs,
      ...exposed,
      optimizerMs: endMs - exchangedMs,
    };
    this.#record(beginMs, backwardEndMs, exchangedMs, endMs, times, buckets);
    const { samples, late } = exchanged;
    const own = late ? { lossSum: 0, correct: 0, count: 0 } : { lossSum, correct, count: passes.samples };
    return { step: this.#stepsDone, ...own, samples, times };
  }

  /**
   * Brings together what may have drifted apart (asynchronous modes, local steps): parameters, and the running averages of batch norms, which there are of the own batches.
   * All ranks call it.
   */
  async settle(): Promise<void> {
    await this.#watch(this.#exchange?.settle?.());
    if (!this.synchronous && this.model.state.length > 0) await this.communicator.allreduce(this.model.state, 'avg');
  }

  /**
   * Calls `action` once, right before parameters or optimizer state are written next: until then they may be read in the background. At once where the exchange
   * writes parameters by itself.
   */
  beforeNextUpdate(action: () => void): void {
    if (this.synchronous) this.#beforeUpdate.push(action);
    else action();
  }

  /** Notes when parameters are lost. */
  async #watch<T>(work: Promise<T> | undefined): Promise<T> {
    try {
      return (await work) as T;
    } catch (error) {
      if (error instanceof ShardLost) this.#lost = error;
      throw error;
    }
  }

  #announceUpdate(): void {
    for (const action of this.#beforeUpdate.splice(0)) action();
  }

  /** Gives up the exchange, and the communicator. Idempotent. */
  async close(): Promise<void> {
    this.#announceUpdate();
    await this.#exchange?.close();
    this.#shardGradients?.close();
    this.#communicator?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #pass(input: StepInput): Passed {
    const { count, globalCount, learningRate } = input;
    const exchange = this.#exchange as GradientExchange;
    exchange.start({ step: this.#stepsDone, ownSamples: count, globalSamples: globalCount, learningRate });
    const { buckets } = this.plan;
    const passed = { lossSum: 0, correct: 0, forwardMs: 0, samples: 0 };
    if (count === 0) {
      if (this.#needsSums) throw new RangeError('batch norm over all ranks needs at least one sample at every rank');
      this.model.gradients.fill(0);
      for (const bucket of buckets) exchange.begin(bucket);
      return passed;
    }
    const scale = exchange.weighting === 'global' ? 1 / globalCount : 1 / count;
    const pieces = Math.min(count, Math.max(this.#options.accumulate ?? 1, Math.ceil(count / this.model.maxBatch)));
    let next = 0;
    const beginFrom = (start: number) => {
      for (; next < buckets.length && buckets[next].from >= start; next++) exchange.begin(buckets[next]);
    };
    const { deadlineMs } = this.#options;
    const deadline = nowMs() + (deadlineMs ?? 0);
    const isLate = deadlineMs === undefined ? undefined : () => nowMs() > deadline;
    for (let piece = 0; piece < pieces && !isLate?.(); piece++) {
      const from = Math.floor((count * piece) / pieces);
      const to = Math.floor((count * (piece + 1)) / pieces);
      // What may be given up goes nowhere before it is whole.
      const onGradient = piece === pieces - 1 && isLate === undefined ? beginFrom : undefined;
      try {
        this.#samples(input, from, to, scale, passed, { accumulate: piece > 0, onGradient, isLate });
      } catch (error) {
        if (!(error instanceof PassAbandoned)) throw error;
        break;
      }
    }
    if (passed.samples === 0) this.model.gradients.fill(0);
    beginFrom(0);
    return passed;
  }

  /** Reproducible mode: each shard is a pass of its own, whose gradient and state are kept apart. */
  #shardPass(input: StepInput, shards: ShardGradients): Passed {
    const { count, globalCount, shardStarts } = input;
    const passed = { lossSum: 0, correct: 0, forwardMs: 0, samples: 0 };
    const starts = shardStarts ?? Array.from({ length: shards.own + 1 }, (_, i) => Math.floor((count * i) / shards.own));
    for (let shard = 0; shard < shards.own; shard++) {
      const [from, to] = [starts[shard], starts[shard + 1]];
      shards.begin();
      if (to > from) this.#samples(input, from, to, 1 / globalCount, passed, {});
      else this.model.gradients.fill(0);
      shards.keep(shard);
    }
    return passed;
  }

  #samples(
    input: StepInput,
    from: number,
    to: number,
    scale: number,
    passed: Passed,
    options: { accumulate?: boolean; onGradient?: (from: number) => void; isLate?: () => boolean },
  ): void {
    const { model } = this;
    const batch = to - from;
    if (batch > model.maxBatch)
      throw new RangeError(`a shard of ${batch} samples is larger than the model's maxBatch ${model.maxBatch}`);
    const begin = nowMs();
    const outputs = model.forward(input.inputs(from, to), batch, {
      training: true,
      step: this.#stepsDone,
      ...(input.samples === undefined ? {} : { samples: input.samples.subarray(from, to) }),
      ...(this.#needsSums ? { reduce: this.#sum } : {}),
      isLate: options.isLate,
    });
    const { lossSum, correct } = input.loss(outputs, from, to, this.#outputGradient, scale);
    passed.forwardMs += nowMs() - begin;
    const { accumulate = false, onGradient, isLate } = options;
    // A micro-batch that is half in the sum cannot be taken out again: only the first may still be given up.
    model.backward(this.#outputGradient, { accumulate, onGradient, isLate: accumulate ? undefined : isLate });
    passed.lossSum += lossSum;
    passed.correct += correct;
    passed.samples += batch;
  }

  readonly #sum = (values: Float64Array) => this.communicator.allreduceSync(values, 'sum');

  /** Batch norm over the batch of all ranks. In reproducible mode a shard is normalised by itself, in asynchronous modes the own batch. */
  get #needsSums(): boolean {
    return this.model.state.length > 0 && this.size > 1 && this.#exchange?.weighting === 'global';
  }

  async #finish(input: StepInput, samples: number): Promise<StepExchanged> {
    if (this.#shardGradients !== undefined) {
      this.#shardGradients.reduce();
      return { updated: 'gradients', samples: input.globalCount };
    }
    const exchanged = await this.#watch((this.#exchange as GradientExchange).finish());
    if (this.#options.deadlineMs === undefined) return exchanged;
    // Each gradient was divided by the samples that were planned; the mean is over those that came.
    this.#counted[0] = samples;
    this.communicator.allreduceSync(this.#counted, 'sum');
    const [came] = this.#counted;
    if (came === 0) return { updated: 'nothing', samples: 0 };
    if (came < input.globalCount) scaleBy(this.model.gradients, input.globalCount / came);
    return { updated: 'gradients', samples: came };
  }

  #record(
    beginMs: number,
    backwardEndMs: number,
    exchangedMs: number,
    endMs: number,
    { forwardMs, waitMs }: StepTimes,
    buckets: readonly BucketTimes[],
  ): void {
    const { timeline } = this.#options;
    if (timeline === undefined) return;
    const step = this.#stepsDone;
    timeline.add('forward', beginMs, beginMs + forwardMs, step);
    timeline.add('backward', beginMs + forwardMs, backwardEndMs, step);
    timeline.add('wait', backwardEndMs, backwardEndMs + waitMs, step);
    timeline.add('transfer', backwardEndMs + waitMs, exchangedMs, step);
    timeline.add('optimizer', exchangedMs, endMs, step);
    for (const { bucket, beganMs, metMs, endedMs } of buckets) {
      timeline.add('bucket-wait', beganMs, metMs, step, bucket.index);
      timeline.add('bucket-transfer', metMs, endedMs, step, bucket.index);
    }
  }
}

interface Passed {
  lossSum: number;
  correct: number;
  forwardMs: number;
  /** Samples that are in the gradient: all, but for a deadline. */
  samples: number;
}

function passOverShardLost(error: unknown): void {
  if (!(error instanceof ShardLost)) throw error;
}

function scaleBy(values: Float32Array, factor: number): void {
  for (let i = 0; i < values.length; i++) values[i] *= factor;
}
