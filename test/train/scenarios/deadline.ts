/** Steps with a deadline that the last rank misses, in micro-batches as VERBENA_ACCUMULATE says; tells which samples were in each step. */

import { Communicator } from '../../../src/collectives/index.js';
import { Sgd, softmaxCrossEntropy } from '../../../src/nn/index.js';
import { arenaMemory, distribute } from '../../../src/train/index.js';
import { openDevice } from '../../../src/verbs/open-device.js';
import { asRank, say } from '../../collectives/rank.js';
import { bars, smallModel } from './digits.js';

const OWN = 12;
const STEPS = 3;

asRank(async ({ rank, size, exchange }) => {
  const device = await openDevice('shm');
  const communicator = await Communicator.create({ rank, size, exchange });
  const data = bars(200, 11);
  const model = smallModel('plain', OWN, arenaMemory(device));
  const accumulate = Number(process.env['VERBENA_ACCUMULATE']);
  const options = { device, accumulate, deadlineMs: 100 };
  const training = await distribute(model, new Sgd(model), communicator, options);
  const inputs = new Float32Array(OWN * 64);
  const labels = new Int32Array(OWN);
  const counts: number[] = [];
  const means: (number | undefined)[] = [];
  for (let step = 0; step < STEPS; step++) {
    const samples = Uint32Array.from({ length: OWN }, (_, i) => step * OWN * size + rank * OWN + i);
    const result = await training.step({
      count: OWN,
      globalCount: OWN * size,
      learningRate: 0.1,
      inputs(from, to) {
        const until = performance.now() + (rank === size - 1 ? 240 / accumulate : 0);
        while (performance.now() < until);
        data.read(samples.subarray(from, to), inputs, labels);
        return inputs;
      },
      loss: (outputs, from, to, gradient, scale) => softmaxCrossEntropy(outputs, labels, to - from, gradient, scale),
    });
    counts.push(result.count);
    means.push(result.samples);
  }
  say({ counts, means, parameters: [...model.parameters] });
  await training.close();
  device.close();
});
