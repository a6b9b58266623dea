/** One rank: a model of TensorFlow.js, trained together with the other ranks. */

import '@tensorflow/tfjs-backend-cpu';
import { tensor2d, train, type Variable } from '@tensorflow/tfjs-core';
import { initializers, layers, sequential } from '@tensorflow/tfjs-layers';
import { distributed } from 'verbena/adapters/tfjs';
import { init } from 'verbena/launch';

const POINTS = 64;

const world = await init();
const { rank, size } = world;
const optimizer = await distributed(train.adam(0.02), world); // the one line: gradients are averaged over the ranks

const kernelInitializer = initializers.glorotUniform({ seed: 1 + rank });
const model = sequential({
  layers: [
    layers.dense({ units: 16, activation: 'tanh', inputShape: [1], kernelInitializer }),
    layers.dense({ units: 1, kernelInitializer }),
  ],
});
// Every rank drew its own weights; now all have those of rank 0.
optimizer.broadcast(model.trainableWeights.map((weight) => weight.read() as unknown as Variable));
model.compile({ optimizer, loss: 'meanSquaredError' });

// This rank's share of the points.
const own = Array.from({ length: POINTS / size }, (_, i) => (2 * (i * size + rank)) / POINTS - 1);
const x = tensor2d(own, [own.length, 1]);
const y = tensor2d(
  own.map((one) => Math.sin(3 * one)),
  [own.length, 1],
);
const { history } = await model.fit(x, y, { epochs: 300, batchSize: own.length, verbose: 0 });

const left = Number(history['loss'].at(-1));
const [first] = model.getWeights();
const sum = String(first.dataSync<'float32'>().reduce((total, one) => total + one, 0));
await world.store.set(`weights/${rank}`, sum);
await world.barrier();
const theirs = Buffer.from((await world.store.get(`weights/${(rank + 1) % size}`)) ?? []).toString();
console.log(
  `rank ${rank}: loss ${left < 0.05 ? 'below 0.05' : left}, ${theirs === sum ? 'the same weights as' : 'other weights than'} its neighbour`,
);
optimizer.dispose();
await world.finalize();
