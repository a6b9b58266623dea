/** A rank of a short training whose gradients go by messages of the world's engine; says by which, and what it ended with. */

import { Communicator } from '../../../src/collectives/index.js';
import { init } from '../../../src/launch/index.js';
import { constantRate, Sampler, Sgd } from '../../../src/nn/index.js';
import { arenaMemory, distribute, fit } from '../../../src/train/index.js';
import { openDevice } from '../../../src/verbs/index.js';
import { bars, smallModel } from '../../train/scenarios/digits.js';

const world = await init();
const device = await openDevice('shm');
const data = bars(96, 11);
const model = smallModel('rich', 24, arenaMemory(device));
const communicator = await Communicator.of(world, { executor: 'messaging' });
const training = await distribute(model, new Sgd(model, { momentum: 0.9 }), communicator, { device, shards: 2, world });
const { samples } = await fit(training, {
  data,
  sampler: new Sampler({ count: data.count, globalBatch: 24 }),
  epochs: 3,
  learningRate: constantRate(0.02),
});
const parameters = Buffer.from(model.parameters.buffer, model.parameters.byteOffset, model.parameters.byteLength).toString(
  'base64',
);
console.log(
  JSON.stringify({ type: 'trained', rank: world.rank, providers: communicator.executor.providers, samples, parameters }),
);
await training.close();
await world.finalize();
device.close();
