/** One rank: a network for handwritten digits, trained together with the other ranks. */

import { init } from 'verbena/launch';
import { Adam, constantRate, digitMlp, loadMnist, Model, Sampler } from 'verbena/nn';
import { arenaMemory, distribute, evaluate, fit } from 'verbena/train';
import { openDevice } from 'verbena/verbs';

const world = await init();
const device = await openDevice('shm');

// Parameters and gradients lie in memory that the other ranks map: adding gradients up copies nothing.
const model = new Model({ input: [1, 28, 28], layers: digitMlp(), maxBatch: 128, memory: arenaMemory(device) });
const training = await distribute(model, new Adam(model), world, { device });

const { train, test } = loadMnist();
const { samples, meanStep } = await fit(training, {
  data: train,
  sampler: new Sampler({ count: train.count, globalBatch: 128 }), // every rank takes its share of the 128
  epochs: 1,
  steps: 300,
  learningRate: constantRate(1e-3),
  onReport({ step, loss, ranks }) {
    if (world.rank === 0 && step % 100 === 0) console.log(`step ${step}, ${ranks} ranks: loss ${loss.toFixed(2)}`);
  },
});

const { accuracy } = await evaluate(model, test, training.communicator); // every rank a part of the 10,000
if (world.rank === 0) {
  const exchanged = meanStep.transferMs + meanStep.hiddenMs;
  console.log(`${samples} images seen; the gradients of a step took ${exchanged.toFixed(2)} ms to add up`);
  console.log(`test accuracy ${(100 * accuracy).toFixed(1)} %`);
}
await training.close();
await world.finalize();
