/** A member or a newcomer of an elastic group that trains; whoever is first of the group tells what happens. */

import { setTimeout as pause } from 'node:timers/promises';
import { Communicator } from '../../../src/collectives/index.js';
import { FileStore } from '../../../src/launch/store/file-store.js';
import { openContext } from '../../../src/messaging/index.js';
import { constantRate, Sampler, Sgd } from '../../../src/nn/index.js';
import { arenaMemory, distribute, fit } from '../../../src/train/index.js';
import { openDevice } from '../../../src/verbs/open-device.js';
import { say } from '../../collectives/rank.js';
import type { RankInput } from '../../collectives/ranks.js';
import { bars, smallModel } from './digits.js';

async function train({ rank, size, directory }: RankInput): Promise<void> {
  const exchange = new FileStore({ directory });
  const device = await openDevice('shm');
  const data = bars(203, 11);
  const model = smallModel('plain', 24, arenaMemory(device));
  // As ranks of several hosts do: by messages.
  const over = process.env['VERBENA_OVER'];
  const context = over ? await openContext({ device: over }) : undefined;
  const timeoutMs = Number(process.env['VERBENA_TIMEOUT_MS'] ?? Number.POSITIVE_INFINITY);
  const options = { exchange, key: 'training', worker: await context?.createWorker(), timeoutMs };
  const communicator = await (rank < 0 ? Communicator.join(options) : Communicator.create({ ...options, rank, size }));
  const training = await distribute(model, new Sgd(model, { momentum: 0.9 }), communicator, { device });
  const stepMs = Number(process.env['VERBENA_STEP_MS'] ?? 3);
  let joined = rank < 0;
  say({ what: 'started', step: training.stepsDone, directory, pid: process.pid });
  const result = await fit(training, {
    data: {
      count: data.count,
      read(samples, inputs, labels) {
        const until = performance.now() + stepMs;
        while (performance.now() < until);
        data.read(samples, inputs, labels);
      },
    },
    sampler: new Sampler({ count: 203, globalBatch: 24, seed: 3 }),
    epochs: 12,
    learningRate: constantRate(0.02),
    reportEvery: 2,
    newcomers: true,
    onMembers({ what, ranks, step }) {
      say({ what, ranks, step });
      joined ||= what === 'joined';
    },
    async onEpoch(epoch) {
      // Half way: nobody is through before the blows have fallen, and whoever was promised a newcomer waits for it, however busy the machine is.
      if (epoch >= 6) await exchange.wait('struck', { timeoutMs: 150_000 });
      const awaited = process.env['VERBENA_AWAIT_NEWCOMER'] === '1' && epoch >= 6;
      while (awaited && !joined && (await training.communicator.newcomers()) === 0) await pause(10);
      return true;
    },
  });
  const parameters = Buffer.from(model.parameters.buffer, model.parameters.byteOffset, model.parameters.byteLength);
  say({ what: 'done', steps: result.steps, ranks: training.size, parameters: parameters.toString('base64') });
  await training.close();
  context?.close();
  exchange.close();
  device.close();
}

train(JSON.parse(process.argv[2]) as RankInput).then(
  () => process.exit(0),
  (error: unknown) => {
    console.error(error);
    process.exit(1);
  },
);
