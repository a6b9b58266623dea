/** A rank that fits the curve with TensorFlow.js, alone or with others: by hand, and as a model of tfjs-layers. */
import '@tensorflow/tfjs-backend-cpu';
import * as tf from '@tensorflow/tfjs-core';
import * as layers from '@tensorflow/tfjs-layers';
import { distributed } from '../../../src/adapters/tfjs/index.js';
import { Communicator } from '../../../src/collectives/index.js';
import { asRank, say } from '../../collectives/rank.js';
import { HIDDEN, points, RATE, STEPS, weights } from './regression.js';

asRank(async ({ rank, size, exchange }) => {
  const communicator = await Communicator.create({ rank, size, exchange });
  const { inputs, targets } = points(rank, size);
  const x = tf.tensor2d(inputs, [inputs.length, 1]);
  const y = tf.tensor2d(targets, [targets.length, 1]);
  const start = weights();
  const own = (values: Float32Array, shape: number[]) =>
    tf.tensor(
      values.map((value) => value + rank),
      shape,
    );

  const optimizer = await distributed(tf.train.momentum(RATE / 10, 0.9), communicator);
  const [w1, b1, w2] = [own(start.w1, [1, HIDDEN]), own(start.b1, [HIDDEN]), own(start.w2, [HIDDEN, 1])].map((one) =>
    tf.variable(one),
  );
  optimizer.broadcast([w1, b1, w2]);
  const loss = () => {
    const hidden = tf.tanh(tf.add(tf.matMul(x as tf.Tensor2D, w1 as unknown as tf.Tensor2D), b1));
    const out = tf.matMul(hidden as tf.Tensor2D, w2 as unknown as tf.Tensor2D);
    return tf.mean(tf.square(tf.sub(out, y))) as tf.Scalar;
  };
  for (let step = 0; step < STEPS; step++) optimizer.minimize(loss, false, [w1, b1, w2]);
  say({ weights: [w1, b1, w2].map((one) => [...one.dataSync()]) });
  optimizer.dispose();

  const second = await distributed(tf.train.momentum(RATE / 10, 0.9), communicator);
  const model = layers.sequential({
    layers: [
      layers.layers.dense({ units: HIDDEN, activation: 'tanh', inputShape: [1] }),
      layers.layers.dense({ units: 1, useBias: false }),
    ],
  });
  model.setWeights([own(start.w1, [1, HIDDEN]), own(start.b1, [HIDDEN]), own(start.w2, [HIDDEN, 1])]);
  second.broadcast(model.trainableWeights.map((one) => one.read() as unknown as tf.Variable));
  model.compile({ optimizer: second, loss: 'meanSquaredError' });
  await model.fit(x, y, { epochs: STEPS, batchSize: inputs.length, shuffle: false, verbose: 0 });
  say({ weights: model.getWeights().map((one) => [...one.dataSync()]) });
  second.dispose();
  communicator.close();
});
