/**
 * One rank of `verbena bench train`: trains in short turns. What is compared takes turns in the same processes, on the same cores, within the same second:
 *
 *   together | alone    alone | together    together | alone    ...      a pair's order is the reverse of that of the pair before it
 *
 * Rank 0 prints what came of each turn.
 */

import { writeSync } from 'node:fs';
import { join } from 'node:path';
import { Communicator } from '../../../collectives/communicator.js';
import { FileStore } from '../../../launch/store/file-store.js';
import { digitCnn, digitMlp } from '../../../nn/architectures.js';
import { loadMnist } from '../../../nn/data/mnist.js';
import { Sampler } from '../../../nn/data/sampler.js';
import { Model } from '../../../nn/model.js';
import { Sgd } from '../../../nn/optimizers/sgd.js';
import { CheckpointWriter } from '../../../train/checkpoint/checkpoint-writer.js';
import { arenaMemory, distribute } from '../../../train/distribute.js';
import { fit } from '../../../train/fit.js';
import type { Distributed, FitReport } from '../../../train/index.js';
import { openDevice } from '../../../verbs/open-device.js';
import { failureWords } from '../../system-error.js';
import type { ArchitectureName } from './training-task.js';

/** 'together': all ranks train one model; 'alone': each one of its own; 'checkpoints': together, with checkpoints. */
export type TurnKind = 'together' | 'alone' | 'checkpoints';

/** What a rank gets as its argument; its number comes from the launcher. */
export interface TurnTask {
  readonly meeting: string;
  readonly model: ArchitectureName;
  /** Samples of a rank in a step. */
  readonly batch: number;
  /** Faster ranks get more samples. */
  readonly balance: boolean;
  /** One or two, compared in pairs of turns. */
  readonly kinds: readonly TurnKind[];
  readonly pairs: number;
  /** Steps of a turn, and between two checkpoints. */
  readonly steps: number;
  readonly everySteps: number;
}

export interface Turn {
  readonly kind: TurnKind;
  /** Of all ranks: samples over time, together; the sum of what each reached, alone. */
  readonly samplesPerSecond: number;
  /** Means over the turn's reports. */
  readonly transferShare: number;
  readonly waitShare: number;
  readonly overlap: number;
  /** Checkpoints written, left out, and what the steps of the rank that was held up most paid for them, ms. */
  readonly begun: number;
  readonly skipped: number;
  readonly stallMs: number;
}

/** Room for the larger shares of faster ranks. */
const BALANCE_ROOM = 1.5;

async function run(task: TurnTask): Promise<void> {
  const { meeting, batch, kinds, steps, everySteps } = task;
  const rank = Number(process.env['VERBENA_RANK']);
  const size = Number(process.env['VERBENA_SIZE']);
  const device = await openDevice('shm');
  const { train: data } = loadMnist();
  const stores: FileStore[] = [];
  const start = async (name: string, own: number, ranks: number): Promise<{ training: Distributed; sampler: Sampler }> => {
    const exchange = new FileStore({ directory: join(meeting, name), size: ranks });
    stores.push(exchange);
    const layers = task.model === 'cnn' ? digitCnn() : digitMlp();
    const maxBatch = task.balance ? Math.ceil(BALANCE_ROOM * batch) : batch;
    const model = new Model({ input: [1, 28, 28], layers, maxBatch, memory: arenaMemory(device) });
    const communicator = await Communicator.create({ rank: own, size: ranks, exchange });
    const training = await distribute(model, new Sgd(model, { momentum: 0.9 }), communicator, { device });
    return { training, sampler: new Sampler({ count: data.count, globalBatch: batch * ranks }) };
  };
  const together = await start('together', rank, size);
  const alone = kinds.includes('alone') ? await start(`alone-${rank}`, 0, 1) : undefined;
  const writer = kinds.includes('checkpoints')
    ? new CheckpointWriter({ directory: join(meeting, 'checkpoints'), everySteps })
    : undefined;
  const { communicator } = together.training;

  const turn = async (kind: TurnKind, length: number): Promise<Turn> => {
    const { training, sampler } = kind === 'alone' && alone !== undefined ? alone : together;
    const reports: FitReport[] = [];
    const before = writer?.totals;
    communicator.barrierSync();
    const { samples, ms } = await fit(training, {
      data,
      sampler,
      epochs: 1e6,
      learningRate: () => 0.01,
      steps: training.stepsDone + length,
      balance: task.balance,
      onReport: (report) => reports.push(report),
      ...(kind === 'checkpoints' ? { checkpoints: writer } : {}),
    });
    await writer?.flush();
    const after = writer?.totals;
    const rates = Float64Array.of((1e3 * samples) / ms);
    if (kind === 'alone') communicator.allreduceSync(rates, 'sum');
    const mean = (what: 'transferShare' | 'waitShare' | 'overlap') =>
      reports.reduce((sum, report) => sum + report[what], 0) / reports.length;
    const counted = (what: 'begun' | 'skipped' | 'stallMs') => (after?.[what] ?? 0) - (before?.[what] ?? 0);
    const stalls = Float64Array.of(counted('stallMs'));
    communicator.allreduceSync(stalls, 'max');
    return {
      kind,
      samplesPerSecond: rates[0],
      transferShare: mean('transferShare'),
      waitShare: mean('waitShare'),
      overlap: mean('overlap'),
      begun: counted('begun'),
      skipped: counted('skipped'),
      stallMs: stalls[0],
    };
  };

  // To warm up; the last checkpoint of a turn is then written within the turn.
  for (const kind of kinds) await turn(kind, steps - Math.floor(everySteps / 2));
  const turns: Turn[] = [];
  for (let pair = 0; pair < task.pairs; pair++) {
    for (const kind of pair % 2 === 0 ? kinds : kinds.toReversed()) turns.push(await turn(kind, steps));
  }
  if (rank === 0) writeSync(1, `${JSON.stringify(turns)}\n`);
  communicator.barrierSync();
  await writer?.close();
  await alone?.training.close();
  await together.training.close();
  for (const store of stores) store.close();
  device.close();
}

run(JSON.parse(process.argv[2]) as TurnTask).then(
  () => process.exit(0),
  (error: unknown) => {
    console.error(failureWords(error));
    process.exit(1);
  },
);
