/** A rank that sums the same gradients over and over with every compression, and trains a small model with each. */
import { createHash } from 'node:crypto';
import { Communicator } from '../../../src/collectives/index.js';
import { linear, Model, Random, relu, Sgd, softmaxCrossEntropy } from '../../../src/nn/index.js';
import { compressedExchange } from '../../../src/train/compression/compressed-exchange.js';
import { COMPRESSIONS, nameOf } from '../../../src/train/compression/compression.js';
import { arenaMemory, distribute } from '../../../src/train/distribute.js';
import { openDevice } from '../../../src/verbs/open-device.js';
import { asRank, say } from '../../collectives/rank.js';
import { gradientOf, SHAPES } from './sums.js';

const TURNS = 40;
const BATCH = 48;

asRank(async ({ rank, size, exchange: store }) => {
  const device = await openDevice('shm');
  const communicator = await Communicator.create({ rank, size, exchange: store });
  let from = 0;
  const ranges = SHAPES.map((shape, i) => {
    const to = from + shape.reduce((product, one) => product * one, 1);
    const range = { name: `t${i}`, shape, from, to, decay: false };
    from = to;
    return range;
  });
  const memory = arenaMemory(device);
  const [parameters, gradients] = [memory(from), memory(from)];
  const buckets = [
    { index: 0, from: ranges[2].from, to: from },
    { index: 1, from: 0, to: ranges[2].from },
  ];
  const optimizer = new Sgd({ parameters, gradients, ranges });
  const own = gradientOf(rank, from);
  for (const compression of COMPRESSIONS) {
    const context = { communicator, world: undefined, device, parameters, gradients, ranges, buckets, optimizer };
    const exchange = await compressedExchange(compression)(context);
    const sum = new Float64Array(from);
    const digest = createHash('sha256');
    for (let step = 0; step < TURNS; step++) {
      exchange.start({ step, ownSamples: 1, globalSamples: size, learningRate: 1 });
      gradients.set(own);
      for (const bucket of buckets) exchange.begin(bucket);
      const { updated, samples } = await exchange.finish();
      if (updated !== 'gradients' || samples !== size) throw new Error(`${updated}, ${samples} samples`);
      digest.update(gradients);
      for (let i = 0; i < from; i++) sum[i] += gradients[i] / TURNS;
    }
    const { bytes } = exchange.totals();
    await exchange.close();
    say({ kind: nameOf(compression), sum: [...sum], digest: digest.digest('hex'), bytesPerStep: bytes / TURNS });
  }
  // One number of ranks is enough for training: the sums are the same test for all.
  for (const compression of size === 2 ? [undefined, ...COMPRESSIONS] : []) {
    const { loss, parameters: hash } = await train((await communicator.split(0)) as Communicator, device, compression);
    say({ trained: compression === undefined ? 'none' : nameOf(compression), loss, parameters: hash });
  }
  await communicator.barrier();
  communicator.close();
  device.close();
});

/** Two rings of points that no line separates; the loss at the end. */
async function train(
  communicator: Communicator,
  device: Awaited<ReturnType<typeof openDevice>>,
  compression: (typeof COMPRESSIONS)[number] | undefined,
): Promise<{ loss: number; parameters: string }> {
  const { rank, size } = communicator;
  const share = BATCH / size;
  const model = new Model({
    input: [2],
    layers: [linear(32), relu(), linear(16), relu(), linear(2)],
    maxBatch: share,
    seed: 5,
    memory: arenaMemory(device),
  });
  const training = await distribute(model, new Sgd(model), communicator, {
    device,
    ...(compression === undefined ? {} : { exchange: compressedExchange(compression) }),
  });
  const random = new Random(9, rank);
  let loss = 0;
  const points = new Float32Array(2 * share);
  const labels = new Int32Array(share);
  for (let step = 0; step < 250; step++) {
    for (let i = 0; i < share; i++) {
      labels[i] = i % 2;
      const [radius, angle] = [0.5 + labels[i] + 0.1 * random.normal(), 2 * Math.PI * random.uniform()];
      points.set([radius * Math.cos(angle), radius * Math.sin(angle)], 2 * i);
    }
    const { lossSum } = await training.step({
      count: share,
      globalCount: BATCH,
      learningRate: 0.5,
      inputs: (start, end) => points.subarray(2 * start, 2 * end),
      loss: (outputs, start, end, gradient, scale) =>
        softmaxCrossEntropy(outputs, labels.subarray(start, end), end - start, gradient, scale),
    });
    if (step >= 240) loss += lossSum / share / 10;
  }
  const mean = Float64Array.of(loss / size);
  communicator.allreduceSync(mean, 'sum');
  const parameters = createHash('sha256').update(model.parameters).digest('hex');
  await training.close();
  return { loss: mean[0], parameters };
}
