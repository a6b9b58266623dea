/**
 * The training loop: epochs over a data set by all ranks, with reports, evaluation at the end of epochs, checkpoints, and going on after a loss.
 *
 *   step:   read share ── forward ── backward ∥ exchange ── update      every rank, the same number of times
 *   every `reportEvery` steps: the ranks tell each other loss and times in one small all-gather; newcomers are let in here
 *   end of an epoch: onEpoch, usually an evaluation
 *
 * Where the loop stands follows from the number of steps done and nothing else: epoch, samples, learning rate and dropout are functions of it. So a
 * checkpoint needs no more than that number, and a run that loses ranks goes on with the same global batches.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { CollectiveError } from '../collectives/index.js';
import type { LearningRate, Sampler } from '../nn/index.js';
import { sizeOf } from '../nn/layer.js';
import { softmaxCrossEntropy } from '../nn/softmax-cross-entropy.js';
import { cutBySpeed, cutEvenly } from './batch-cut.js';
import type { CheckpointWriter } from './checkpoint/checkpoint-writer.js';
import { nowMs } from './clock.js';
import { type Distributed, isLoss } from './distribute.js';
import type { Examples } from './evaluate.js';
import { findStraggler, type RankTimes, type StragglerReport } from './stragglers.js';

export interface FitOptions {
  /** What is learned from; the same at all ranks. */
  readonly data: Examples;
  /** Its global batch is shared by the ranks. */
  readonly sampler: Sampler;
  /** Passes over the data; at least 1. */
  readonly epochs: number;
  /** The rate of a step, or a function of the step's number. */
  readonly learningRate: number | LearningRate;
  /** Steps between two reports; at least 1. Default 20. */
  readonly reportEvery?: number;
  /** Stop after so many steps altogether. Default: when the epochs are done. */
  readonly steps?: number;
  /** At every rank, every `reportEvery` steps. */
  onReport?(report: FitReport): void;
  /**
   * At every rank, when an epoch is done; parameters are settled. May use the communicator: all ranks call it. Returning false ends the training. Called
   * again for the same epoch when a rank was lost meanwhile.
   */
  onEpoch?(epoch: number): Promise<boolean>;
  /** Before each step, at every rank: the number of the step. For shows and tests. */
  beforeStep?(step: number): void;
  /** The group changed: ranks were lost or joined. */
  onMembers?(change: MemberChange): void;
  /** Writes checkpoints; default: none. */
  readonly checkpoints?: CheckpointWriter;
  /** Whoever calls `Communicator.join` with the `key` of the ranks' communicator is let in at the next report. Synchronous modes only. Default false. */
  readonly newcomers?: boolean;
  /**
   * Ranks that have been faster get more samples of a batch, up to the model's maxBatch: give that some room. The update is the same but for rounding, which then differs
   * from run to run. Default: even shares.
   */
  readonly balance?: boolean;
  /** What to do when a rank is lost. 'shrink': go on with the rest; 'throw': end with the error, for a launcher that starts the job again. Default 'shrink'. */
  readonly onLoss?: 'shrink' | 'throw';
  /**
   * Ends the training at the next report, at all ranks: here with the signal's reason, at the others with an AbortError that names this rank. All have done the same steps, so `fit` can
   * be called again to go on. In asynchronous modes this rank alone ends. Default: none.
   */
  readonly signal?: AbortSignal;
}

/** Ranks that were lost, or joined. */
export interface MemberChange {
  readonly what: 'lost' | 'joined';
  readonly ranks: number;
  readonly step: number;
  /** What it took, ms. */
  readonly tookMs: number;
}

/** How a training stands. */
export interface FitReport {
  /** Steps done. */
  readonly step: number;
  readonly epoch: number;
  /** Steps of the whole training. */
  readonly steps: number;
  /** Mean loss and share of right answers since the last report, before each update. Of this rank alone in asynchronous modes. */
  readonly loss: number;
  readonly accuracy: number;
  /** Of all ranks. */
  readonly samplesPerSecond: number;
  /** Shares of the step's time, mean over the ranks: moving bytes, waiting for slower ranks; both only where backward did not hide them. */
  readonly transferShare: number;
  readonly waitShare: number;
  /** Of the exchange, waiting left out, what backward hid; 0 .. 1. 1 where nothing was exchanged. */
  readonly overlap: number;
  readonly ranks: number;
  /** Samples of each rank in a whole batch, as it is cut now. */
  readonly shares: readonly number[];
  readonly straggler: StragglerReport;
}

/** How a training went. */
export interface FitResult {
  readonly steps: number;
  /** Samples that this call trained on, over all ranks. */
  readonly samples: number;
  readonly ms: number;
  /** Means over the steps of this rank, ms. */
  readonly meanStep: MeanStep;
}

/** Where the time of the average step goes, ms. */
export interface MeanStep {
  readonly totalMs: number;
  readonly readMs: number;
  readonly forwardMs: number;
  readonly backwardMs: number;
  readonly waitMs: number;
  readonly transferMs: number;
  readonly hiddenMs: number;
  readonly optimizerMs: number;
}

/** Numbers that a rank tells the others. */
const FIELDS = 9;
/** Steps between two cuts by speed. The fastest of them counts: what else runs on the machine delays single steps. */
const BALANCE_EVERY = 2;
/** How long members wait for newcomers that they have let in, ms. */
const JOIN_MS = 10_000;
/** How far a cut by speed leans to an even one: where time hardly depends on the samples, shares would drift about. */
const LEANING = 0.05;

/** Trains from `training.stepsDone` on to the end. All ranks call it. @throws RankLost with `onLoss: 'throw'`, what callbacks throw, and what `signal` says. */
export async function fit(training: Distributed, options: FitOptions): Promise<FitResult> {
  return new Fit(training, options).run();
}

class Fit {
  readonly #training: Distributed;
  readonly #options: FitOptions;
  readonly #steps: number;
  readonly #reportEvery: number;
  readonly #inputs: Float32Array;
  readonly #labels: Int32Array;
  readonly #stretch = new Float64Array(FIELDS);
  readonly #sum = { total: 0, read: 0, forward: 0, backward: 0, wait: 0, transfer: 0, hidden: 0, optimizer: 0, count: 0 };
  #share: Uint32Array = new Uint32Array(0);
  /** Where the shares of a whole batch start, by speed. */
  #cut: readonly number[] | undefined;
  #msPerSample = Number.POSITIVE_INFINITY;
  /** Of all ranks: the same array every time, so that the call that fills it is prepared once. */
  #speeds = new Float64Array(0);
  #stretchBegan = nowMs();
  #lastTurn = nowMs();
  #samples = 0;
  #epochsEnded = Number.POSITIVE_INFINITY;
  #agreed = false;

  constructor(training: Distributed, options: FitOptions) {
    const { epochs, sampler, reportEvery = 20, steps } = options;
    if (!Number.isSafeInteger(epochs) || epochs < 1)
      throw new RangeError(`epochs must be an integer of at least 1, not ${epochs}`);
    if (!Number.isSafeInteger(reportEvery) || reportEvery < 1)
      throw new RangeError(`reportEvery must be an integer of at least 1, not ${reportEvery}`);
    if (options.balance && training.shards !== undefined)
      throw new RangeError('reproducible mode cuts a batch into equal shards: leave out balance');
    this.#training = training;
    this.#options = options;
    this.#reportEvery = reportEvery;
    this.#steps = Math.min(steps ?? Number.POSITIVE_INFINITY, epochs * sampler.stepsPerEpoch);
    const { maxBatch, inputShape } = training.model;
    this.#inputs = new Float32Array(maxBatch * sizeOf(inputShape));
    this.#labels = new Int32Array(maxBatch);
  }

  async run(): Promise<FitResult> {
    const beganMs = nowMs();
    const training = this.#training;
    for (;;) {
      try {
        if (!(await this.#advance())) break;
      } catch (error) {
        if (!isLoss(error) || (this.#options.onLoss ?? 'shrink') === 'throw') throw error;
        const at = nowMs();
        await training.recover(() => this.#options.checkpoints?.restore(training));
        this.#agreed = false;
        this.#restart();
        const { stepsDone: step, size: ranks } = training;
        this.#epochsEnded = Math.min(this.#epochsEnded, Math.floor(step / this.#options.sampler.stepsPerEpoch));
        this.#options.onMembers?.({ what: 'lost', ranks, step, tookMs: nowMs() - at });
      }
    }
    const { total, read, forward, backward, wait, transfer, hidden, optimizer, count } = this.#sum;
    const mean = (ms: number) => ms / Math.max(1, count);
    const meanStep = {
      totalMs: mean(total),
      readMs: mean(read),
      forwardMs: mean(forward - read),
      backwardMs: mean(backward),
      waitMs: mean(wait),
      transferMs: mean(transfer),
      hiddenMs: mean(hidden),
      optimizerMs: mean(optimizer),
    };
    return { steps: training.stepsDone, samples: this.#samples, ms: nowMs() - beganMs, meanStep };
  }

  /** One step, or the end of an epoch. False: the training is over. */
  async #advance(): Promise<boolean> {
    const training = this.#training;
    const { sampler, checkpoints } = this.#options;
    if (!this.#agreed) await this.#agree();
    const { stepsPerEpoch } = sampler;
    const ended =
      training.stepsDone >= this.#steps ? Math.ceil(this.#steps / stepsPerEpoch) : Math.floor(training.stepsDone / stepsPerEpoch);
    if (ended > this.#epochsEnded) return this.#endEpoch(ended);
    if (training.stepsDone >= this.#steps) return false;
    const epoch = Math.floor(training.stepsDone / stepsPerEpoch);
    await this.#step(epoch, training.stepsDone % stepsPerEpoch);
    const done = training.stepsDone;
    if (done % this.#reportEvery === 0 || done === this.#steps) await this.#report(epoch);
    if (checkpoints?.due(done)) {
      await training.settle();
      const begin = nowMs();
      await checkpoints.begin(training);
      training.timeline?.add('checkpoint', begin, nowMs(), done);
    }
    if (nowMs() - this.#lastTurn > 50) {
      // Timers, bells and the lines of other ranks: a loop of synchronous collectives would never let them in.
      await turn();
      this.#lastTurn = nowMs();
    }
    return true;
  }

  async #endEpoch(ended: number): Promise<boolean> {
    const training = this.#training;
    await training.settle();
    const begin = nowMs();
    const goOn = (await this.#options.onEpoch?.(ended - 1)) ?? true;
    training.timeline?.add('evaluate', begin, nowMs(), training.stepsDone);
    this.#epochsEnded = ended;
    this.#restart();
    return goOn;
  }

  /**
   * Members of a new communicator agree on where they stand. A loss may catch them apart: one is through with the evaluation of an epoch, another is not. It is done
   * again.
   */
  async #agree(): Promise<void> {
    const told = Float64Array.of(-this.#epochsEnded);
    await this.#training.communicator.allreduce(told, 'max');
    // Whoever has just come has no opinion: -Infinity loses every maximum, unless all have just come.
    this.#epochsEnded = Number.isFinite(told[0])
      ? -told[0]
      : Math.floor(this.#training.stepsDone / this.#options.sampler.stepsPerEpoch);
    this.#options.checkpoints?.prepare(this.#training);
    this.#cut = undefined;
    this.#msPerSample = Number.POSITIVE_INFINITY;
    this.#agreed = true;
  }

  async #step(epoch: number, step: number): Promise<void> {
    const training = this.#training;
    const { data, sampler, learningRate, beforeStep } = this.#options;
    beforeStep?.(training.stepsDone);
    const { rank, size, shards } = training;
    const batch = sampler.batch(epoch, step);
    const globalCount = batch.length;
    const starts = this.#cut !== undefined && globalCount === sampler.globalBatch ? this.#cut : cutEvenly(globalCount, size);
    this.#share = batch.subarray(starts[rank], starts[rank + 1]);
    let readMs = 0;
    const result = await training.step({
      count: this.#share.length,
      globalCount,
      learningRate: typeof learningRate === 'number' ? learningRate : learningRate(training.stepsDone),
      samples: this.#share,
      ...(shards === undefined ? {} : { shardStarts: this.#shardStarts(globalCount, shards) }),
      inputs: (from, to) => {
        const begin = nowMs();
        data.read(this.#share.subarray(from, to), this.#inputs, this.#labels);
        const end = nowMs();
        readMs += end - begin;
        training.timeline?.add('read', begin, end, training.stepsDone + 1);
        return this.#inputs;
      },
      loss: (outputs, from, to, gradient, scale) => softmaxCrossEntropy(outputs, this.#labels, to - from, gradient, scale),
      exchanged: (computeMs, samples) => {
        if (this.#options.balance && training.synchronous && size > 1) this.#balance(computeMs / samples);
      },
    });
    const { totalMs, forwardMs, backwardMs, waitMs, transferMs, hiddenMs, optimizerMs } = result.times;
    const told = this.#stretch;
    told[0] += result.lossSum;
    told[1] += result.correct;
    told[2] += result.count;
    told[3] += forwardMs + backwardMs + optimizerMs;
    told[4] += waitMs;
    told[5] += transferMs;
    told[6] += hiddenMs;
    this.#samples += result.samples ?? result.count;
    const sum = this.#sum;
    sum.total += totalMs;
    sum.read += readMs;
    sum.forward += forwardMs;
    sum.backward += backwardMs;
    sum.wait += waitMs;
    sum.transfer += transferMs;
    sum.hidden += hiddenMs;
    sum.optimizer += optimizerMs;
    sum.count++;
  }

  /** Cuts the next batches by how fast the ranks have been. */
  #balance(msPerSample: number): void {
    const { communicator, model, stepsDone } = this.#training;
    if (Number.isFinite(msPerSample)) this.#msPerSample = Math.min(this.#msPerSample, msPerSample);
    if (stepsDone % BALANCE_EVERY !== 0) return;
    if (this.#speeds.length !== communicator.size) this.#speeds = new Float64Array(communicator.size);
    const all = this.#speeds;
    all[communicator.rank] = 1 / this.#msPerSample;
    communicator.allgatherSync(all);
    this.#msPerSample = Number.POSITIVE_INFINITY;
    const total = all.reduce((sum, speed) => sum + speed, 0);
    const speeds = Array.from(all, (speed) => (1 - LEANING) * speed + (LEANING * total) / all.length);
    if (total > 0) this.#cut = cutBySpeed(this.#options.sampler.globalBatch, speeds, model.maxBatch);
  }

  /** Where the own shards of the global batch start, counted from the own first sample. */
  #shardStarts(globalCount: number, shards: number): number[] {
    const { rank, size } = this.#training;
    const own = shards / size;
    const starts = cutEvenly(globalCount, shards).slice(rank * own, (rank + 1) * own + 1);
    return starts.map((start) => start - starts[0]);
  }

  /** The ranks tell each other how it goes, and let newcomers in. */
  async #report(epoch: number): Promise<void> {
    const training = this.#training;
    const { onReport } = this.#options;
    const { synchronous } = training;
    const size = synchronous ? training.size : 1;
    const rank = synchronous ? training.rank : 0;
    const all = new Float64Array(size * FIELDS);
    if (this.#options.newcomers && synchronous && rank === 0) this.#stretch[7] = await training.communicator.newcomers();
    this.#stretch[8] = this.#options.signal?.aborted ? 1 : 0;
    all.set(this.#stretch, rank * FIELDS);
    if (synchronous) training.communicator.allgatherSync(all);
    const rows = Array.from({ length: size }, (_, r) => all.subarray(r * FIELDS, (r + 1) * FIELDS));
    const total = (field: number) => rows.reduce((sum, row) => sum + row[field], 0);
    const ms = nowMs() - this.#stretchBegan;
    const [compute, wait, transfer, hidden] = [total(3), total(4), total(5), total(6)];
    const busy = Math.max(1e-9, compute + wait + transfer);
    const times: RankTimes[] = rows.map((row) => ({ computeMs: row[3], waitMs: row[4], transferMs: row[5] }));
    const { stepsDone: step, size: ranks } = training;
    const cut = this.#cut ?? cutEvenly(this.#options.sampler.globalBatch, ranks);
    onReport?.({
      step,
      epoch,
      steps: this.#steps,
      loss: total(0) / total(2),
      accuracy: total(1) / total(2),
      samplesPerSecond: ((synchronous ? 1 : ranks) * 1e3 * total(2)) / ms,
      transferShare: transfer / busy,
      waitShare: wait / busy,
      overlap: hidden + transfer > 0 ? hidden / (hidden + transfer) : 1,
      ranks,
      shares: cut.slice(1).map((end, r) => end - cut[r]),
      straggler: findStraggler(times),
    });
    const aborting = rows.findIndex((row) => row[8] > 0);
    if (aborting >= 0) {
      this.#options.signal?.throwIfAborted();
      throw new DOMException(`rank ${aborting} ended the training`, 'AbortError');
    }
    if (rows[0][7] > 0) await this.#letIn(rows[0][7]);
    this.#restart();
  }

  /** Goes on with newcomers, unless they died meanwhile. */
  async #letIn(newcomers: number): Promise<void> {
    const training = this.#training;
    const begin = nowMs();
    const { communicator } = training;
    const larger = await communicator.grow(newcomers, { timeoutMs: JOIN_MS }).catch((error: unknown) => {
      if (communicator.broken !== undefined || (error as CollectiveError).code !== 'COLL_TIMEOUT') throw error;
      return undefined;
    });
    if (larger === undefined) return;
    await training.adopt(larger);
    this.#agreed = false;
    const { stepsDone: step, size: ranks } = training;
    this.#options.onMembers?.({ what: 'joined', ranks, step, tookMs: nowMs() - begin });
  }

  #restart(): void {
    this.#stretch.fill(0);
    this.#stretchBegan = nowMs();
  }
}
