/** A rank that makes several small trainings one after the other, as VERBENA_TRIALS says, and tells what came out. */

import { Communicator } from '../../../src/collectives/index.js';
import { Adam, constantRate, Sampler, Sgd } from '../../../src/nn/index.js';
import {
  arenaMemory,
  CheckpointWriter,
  distribute,
  evaluate,
  type FitOptions,
  fit,
  localSgdExchange,
  restoreCheckpoint,
} from '../../../src/train/index.js';
import { openDevice } from '../../../src/verbs/open-device.js';
import { asRank, say } from '../../collectives/rank.js';
import type { Trial } from '../trials.js';
import { bars, smallModel } from './digits.js';

const COUNT = 203;
const GLOBAL_BATCH = 24;

asRank(async ({ rank, size, exchange, directory }) => {
  const trials = JSON.parse(process.env['VERBENA_TRIALS'] as string) as Trial[];
  const device = await openDevice('shm');
  const data = bars(COUNT, 11);
  for (const [i, trial] of trials.entries()) {
    const communicator = await Communicator.create({ rank, size, exchange, key: `trial-${i}` });
    const model = smallModel(trial.model ?? 'plain', GLOBAL_BATCH, arenaMemory(device));
    // Ranks start apart: distribute makes them equal.
    if (rank > 0) model.parameters.fill(rank);
    const optimizer = trial.optimizer === 'adam' ? new Adam(model) : new Sgd(model, { momentum: trial.momentum ?? 0 });
    const settings = { batch: GLOBAL_BATCH };
    const restored =
      trial.resume && rank === 0 ? restoreCheckpoint(`${trial.resume}`, model, optimizer, { settings }) : undefined;
    const training = await distribute(model, optimizer, communicator, {
      device,
      stepsDone: restored?.step ?? 0,
      ...(trial.shards === undefined ? {} : { shards: trial.shards }),
      ...(trial.accumulate === undefined ? {} : { accumulate: trial.accumulate }),
      ...(trial.bucketBytes === undefined ? {} : { bucketBytes: trial.bucketBytes }),
      ...(trial.deadlineMs === undefined ? {} : { deadlineMs: trial.deadlineMs }),
      ...(trial.localSteps === undefined ? {} : { exchange: localSgdExchange({ every: trial.localSteps }) }),
    });
    const slow = trial.slowRank === rank;
    const examples = {
      count: data.count,
      read(samples: Uint32Array, inputs: Float32Array, labels: Int32Array) {
        const until = performance.now() + (slow ? (trial.balance ? 3 * samples.length : 30) : 0);
        while (performance.now() < until);
        data.read(samples, inputs, labels);
      },
    };
    const checkpoints =
      trial.checkpoints === undefined
        ? undefined
        : new CheckpointWriter({
            directory: trial.checkpoints,
            everySteps: trial.checkpointEvery ?? 4,
            keep: 3,
            settings,
            whenBusy: trial.whenBusy ?? 'wait',
          });
    const sampler = new Sampler({ count: COUNT, globalBatch: GLOBAL_BATCH, seed: 3 });
    const losses: number[] = [];
    let straggler: unknown;
    let shares: readonly number[] = [];
    const options: FitOptions = {
      data: examples,
      sampler,
      epochs: trial.epochs ?? 6,
      learningRate: constantRate(trial.rate ?? 0.05),
      reportEvery: 4,
      onReport(report) {
        losses.push(report.loss);
        straggler = report.straggler;
        shares = report.shares;
      },
      balance: trial.balance ?? false,
      ...(trial.steps === undefined ? {} : { steps: trial.steps }),
      ...(checkpoints === undefined ? {} : { checkpoints }),
    };
    let aborted: { error: string; steps: number } | undefined;
    if (trial.abortAt !== undefined) {
      const control = new AbortController();
      const beforeStep = (step: number) => {
        if (step === trial.abortAt && rank === size - 1) control.abort(new Error('enough'));
      };
      const error = await fit(training, { ...options, beforeStep, signal: control.signal }).catch((reason) => String(reason));
      aborted = { error: String(error), steps: training.stepsDone };
    }
    const result = await fit(training, options);
    await checkpoints?.close();
    const scores = await evaluate(model, bars(77, 5), training.communicator, 3);
    const parameters = Buffer.from(model.parameters.buffer, model.parameters.byteOffset, model.parameters.byteLength);
    say({
      trial: i,
      parameters: parameters.toString('base64'),
      state: [...model.state],
      steps: result.steps,
      samples: result.samples,
      buckets: training.plan.buckets.length,
      bytes: training.exchangeTotals().bytes,
      hiddenMs: result.meanStep.hiddenMs,
      accuracy: scores.accuracy,
      counted: scores.count,
      losses,
      shares,
      straggler,
      restored: restored?.step ?? 0,
      aborted,
      checkpoints: checkpoints?.totals ?? null,
    });
    await training.close();
  }
  void directory;
  device.close();
});
