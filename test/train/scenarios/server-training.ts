/** A rank of a training over parameter servers, with Adam, so that moments which are lost or stepped twice show in the result. */

import { Communicator } from '../../../src/collectives/index.js';
import { Adam, constantRate, Sampler } from '../../../src/nn/index.js';
import {
  arenaMemory,
  CheckpointWriter,
  distribute,
  fit,
  parameterServerExchange,
  restoreCheckpoint,
} from '../../../src/train/index.js';
import { openDevice } from '../../../src/verbs/open-device.js';
import { asRank, say } from '../../collectives/rank.js';
import { bars, smallModel } from './digits.js';

export interface ServerTraining {
  readonly servers: number;
  readonly steps: number;
  /** Checkpoints are written there and, where there are some, gone on from. */
  readonly checkpoints?: string;
  readonly checkpointEvery?: number;
  /** Default 'shrink'. */
  readonly onLoss?: 'throw';
}

asRank(async ({ rank, size, exchange }) => {
  const {
    servers,
    steps,
    checkpoints: directory,
    checkpointEvery = 5,
    onLoss = 'shrink',
  } = JSON.parse(process.env['JOB'] as string) as ServerTraining;
  const device = await openDevice('shm');
  const model = smallModel('plain', 24, arenaMemory(device));
  const optimizer = new Adam(model);
  const restored = directory === undefined ? undefined : restoreCheckpoint(directory, model, optimizer);
  const communicator = await Communicator.create({ rank, size, exchange, key: 'training' });
  const training = await distribute(model, optimizer, communicator, {
    device,
    stepsDone: restored?.step ?? 0,
    exchange: parameterServerExchange({ servers, optimizer: { kind: 'adam' } }),
  });
  const checkpoints =
    directory === undefined ? undefined : new CheckpointWriter({ directory, everySteps: checkpointEvery, whenBusy: 'wait' });
  say({ restored: restored?.step ?? 0 });
  await fit(training, {
    data: bars(203, 11),
    sampler: new Sampler({ count: 203, globalBatch: 24, seed: 3 }),
    epochs: 100,
    steps,
    learningRate: constantRate(0.003),
    reportEvery: 4,
    beforeStep: (step) => say({ step }),
    onMembers: ({ ranks, step }) => say({ ranks, from: step }),
    onLoss,
    ...(checkpoints === undefined ? {} : { checkpoints }),
  });
  say({ parameters: [...model.parameters], adamSteps: optimizer.steps });
  await checkpoints?.close();
  await training.close();
  device.close();
});
