/** One rank of `verbena train`: a process that trains with the others, and says how it goes in JSON lines. The first rank of the group speaks for all. */

import { writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { Communicator } from '../../../collectives/communicator.js';
import { storeOfJob } from '../../../launch/store/store-of-job.js';
import { init } from '../../../launch/world.js';
import { digitCnn, digitMlp } from '../../../nn/architectures.js';
import { loadMnist } from '../../../nn/data/mnist.js';
import { Sampler } from '../../../nn/data/sampler.js';
import { selectBlas } from '../../../nn/kernels.js';
import { cosineRate, warmUp } from '../../../nn/learning-rate.js';
import { Model } from '../../../nn/model.js';
import { Adam } from '../../../nn/optimizers/adam.js';
import { Sgd } from '../../../nn/optimizers/sgd.js';
import { CheckpointWriter } from '../../../train/checkpoint/checkpoint-writer.js';
import { exportWeights, restoreCheckpoint } from '../../../train/checkpoint/restore.js';
import { arenaMemory, distribute } from '../../../train/distribute.js';
import { evaluate } from '../../../train/evaluate.js';
import { fit } from '../../../train/fit.js';
import type { SharedEvaluation } from '../../../train/index.js';
import { Timeline } from '../../../train/timeline.js';
import { openDevice } from '../../../verbs/open-device.js';
import { failureWords } from '../../system-error.js';
import { chooseExchange } from './exchange-choice.js';
import type { TrainingMessage, TrainingTask } from './training-task.js';

/** Wrong answers that each rank keeps for the show. */
const KEEP_WRONG = 6;
const WARM_UP_STEPS = 50;
/** Room for the larger shares of faster ranks. */
const BALANCE_ROOM = 1.5;

function say(message: TrainingMessage): void {
  writeSync(1, `${JSON.stringify(message)}\n`);
}

async function train(task: TrainingTask): Promise<void> {
  const { seed, batch, epochs, checkpoints: wanted } = task;
  // The launcher's word on who runs, and its reports of who waits for whom; newcomers have neither.
  const world = task.rank === undefined ? undefined : await init();
  const device = await openDevice('shm');
  const globalBatch = batch * task.size;
  const layers = task.model === 'cnn' ? digitCnn() : digitMlp();
  const maxBatch = task.balance ? Math.ceil(BALANCE_ROOM * batch) : batch;
  const model = new Model({ input: [1, 28, 28], layers, maxBatch, seed, memory: arenaMemory(device) });
  const optimizer = task.optimizer === 'adam' ? new Adam(model) : new Sgd(model, { momentum: 0.9 });
  const { train: data, test } = loadMnist();
  const sampler = new Sampler({ count: data.count, globalBatch, seed });
  const settings = { model: task.model, globalBatch, seed, epochs };
  const description = task.optimizer === 'adam' ? ({ kind: 'adam' } as const) : ({ kind: 'sgd', momentum: 0.9 } as const);
  const exchange = await chooseExchange(task, description);
  const restarted = Number(process.env['VERBENA_RESTART'] ?? 0);
  const onBad = (step: number, reason: string) => say({ type: 'bad-checkpoint', step, reason });
  const restored =
    wanted && task.rank === 0 && (wanted.resume || restarted > 0)
      ? restoreCheckpoint(wanted.directory, model, optimizer, { settings, onBad })
      : undefined;
  const store = world?.store ?? (await storeOfJob());
  const meeting = { exchange: store, key: 'training' };
  const communicator = await (task.rank === undefined
    ? Communicator.join(meeting)
    : Communicator.create({ ...meeting, rank: task.rank, size: task.size }));
  const timeline = task.trace ? new Timeline() : undefined;
  const training = await distribute(model, optimizer, communicator, {
    device,
    ...(world === undefined ? {} : { world }),
    accumulate: task.accumulate,
    deadlineMs: task.deadlineMs,
    stepsDone: restored?.step ?? 0,
    ...(exchange === undefined ? {} : { exchange }),
    ...(task.bucketBytes === undefined ? {} : { bucketBytes: task.bucketBytes }),
    ...(task.shards === undefined ? {} : { shards: task.shards }),
    ...(timeline === undefined ? {} : { timeline }),
  });
  const { implementation, lanes } = selectBlas((process.env['VERBENA_BLAS'] as 'auto' | undefined) || 'auto');
  const bytesOf = ({ from, to }: { from: number; to: number }) => 4 * (to - from);
  if (training.rank === 0 && task.rank !== undefined) {
    const blas = implementation === 'library' ? 'OpenBLAS' : `own kernel, ${lanes} floats wide`;
    const buckets = training.plan.buckets.map(bytesOf);
    const said = { parameters: model.parameters.length, buckets, exchange: training.exchangeName, blas };
    say({ type: 'ready', ...said, restored: restored?.step ?? 0 });
  }
  const writer = wanted === undefined ? undefined : new CheckpointWriter({ ...wanted, settings });
  const steps = epochs * sampler.stepsPerEpoch;
  const warm = Math.min(WARM_UP_STEPS, Math.ceil(steps / 10));
  const learningRate = warmUp(cosineRate(task.learningRate, { steps: Math.max(1, steps - warm) }), { steps: warm });
  const began = performance.now();
  let last: SharedEvaluation | undefined;
  const result = await fit(training, {
    data,
    sampler,
    epochs,
    learningRate,
    reportEvery: task.reportEvery,
    balance: task.balance,
    newcomers: true,
    onLoss: task.onLoss,
    ...(task.steps === undefined ? {} : { steps: task.steps }),
    ...(writer === undefined ? {} : { checkpoints: writer }),
    beforeStep(step) {
      if (step === task.killAt && task.rank === task.size - 1 && restarted === 0) process.kill(process.pid, 'SIGKILL');
    },
    onReport(report) {
      if (training.rank === 0) say({ type: 'report', ...report });
    },
    onMembers(change) {
      if (training.rank === 0) say({ type: 'members', ...change });
    },
    async onEpoch(epoch) {
      if (!task.evaluate) return true;
      last = await evaluate(model, test, training.communicator, KEEP_WRONG);
      const { wrong: _, ...scores } = last;
      if (training.rank === 0) say({ type: 'epoch', epoch, seconds: (performance.now() - began) / 1e3, ...scores });
      return true;
    },
  });
  await writer?.flush();
  if (task.output !== undefined) {
    if (timeline) writeFileSync(join(task.output, `spans-${task.rank ?? process.pid}.json`), JSON.stringify(timeline.spans()));
    if (training.rank === 0)
      exportWeights(model, join(task.output, 'weights.safetensors'), { model: task.model, steps: String(result.steps) });
  }
  if (training.rank === 0) {
    const { candidates } = training.plan;
    say({ type: 'done', ...result, wrong: last?.wrong ?? [], plan: candidates, checkpoints: writer?.totals });
  }
  await training.close();
  await writer?.close();
  device.close();
  await world?.finalize();
}

// A newcomer is told so; the ranks of a job are told their number by the launcher.
const given = JSON.parse(process.argv[2]) as TrainingTask;
const launched = process.env['VERBENA_RANK'];
train({ ...given, rank: launched === undefined ? undefined : Number(launched) }).then(
  () => process.exit(0),
  (error: unknown) => {
    console.error(failureWords(error));
    process.exit(1);
  },
);
