/** A rank that makes the same small training by all-reduce and by parameter servers in each of their modes, through `distribute` and `fit`. */
import { Communicator } from '../../../src/collectives/index.js';
import { Adam, constantRate, Sampler } from '../../../src/nn/index.js';
import { arenaMemory, distribute, evaluate, fit, parameterServerExchange } from '../../../src/train/index.js';
import { openDevice } from '../../../src/verbs/open-device.js';
import { asRank, say } from '../../collectives/rank.js';
import { bars, smallModel } from './digits.js';

const COUNT = 203;
const GLOBAL_BATCH = 24;

asRank(async ({ rank, size, exchange: store }) => {
  const device = await openDevice('shm');
  const data = bars(COUNT, 11);
  const optimizer = { kind: 'adam' } as const;
  const modes = {
    allreduce: undefined,
    ps: parameterServerExchange({ optimizer }),
    'ps, one server': parameterServerExchange({ optimizer, servers: 1 }),
    async: parameterServerExchange({ mode: 'async', optimizer }),
    ssp: parameterServerExchange({ mode: 'ssp', staleness: 2, optimizer }),
  };
  for (const [mode, exchange] of Object.entries(modes)) {
    const communicator = await Communicator.create({ rank, size, exchange: store, key: mode });
    const model = smallModel('plain', GLOBAL_BATCH, arenaMemory(device));
    const own = new Adam(model);
    const training = await distribute(model, own, communicator, { device, ...(exchange === undefined ? {} : { exchange }) });
    await fit(training, {
      data,
      sampler: new Sampler({ count: COUNT, globalBatch: GLOBAL_BATCH, seed: 3 }),
      epochs: 8,
      learningRate: constantRate(0.01),
    });
    const { accuracy } = await evaluate(model, data, communicator);
    say({
      mode,
      name: training.exchangeName,
      parameters: [...model.parameters],
      state: [...own.state],
      optimizerSteps: own.steps,
      steps: training.stepsDone,
      accuracy,
      ...training.exchangeTotals(),
    });
    await training.close();
  }
  device.close();
});
