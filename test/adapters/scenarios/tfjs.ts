/** A rank that fits the curve with TensorFlow.js, alone or with others: by hand, and as a model of tfjs-layers. */
import '@tensorflow/tfjs-backend-cpu';
import * as tf from '@tensorflow/tfjs-core';
import * as layers from '@tensorflow/tfjs-layers';
import { distributed } from '../../../src/adapters/tfjs/index.js';
import { Communicator } from '../../../src/collectives/index.js';
import { asRank, say } from '../../collectives/rank.js';
import { HIDDEN, pieces, points, RATE, STEPS, TURNS, weights } from './regression.js';

asRank(async ({ rank, size, exchange }) => {
  const communicator = await Communicator.create({ rank, size, exchange });
  const { inputs, targets } = points(rank, size);
  const column = (values: Float32Array) => tf.tensor2d(values, [values.length, 1]);
  const [x, y] = [column(inputs), column(targets)];
  const start = weights();
  const own = (values: Float32Array, shape: number[]) =>
    tf.tensor(
      values.map((value) => value + rank),
      shape,
    );

  for (const options of TURNS) {
    const optimizer = await distributed(tf.train.momentum(RATE / 10, 0.9), communicator, options);
    const [w1, b1, w2] = [own(start.w1, [1, HIDDEN]), own(start.b1, [HIDDEN]), own(start.w2, [HIDDEN, 1])].map((one) =>
      tf.variable(one),
    );
    optimizer.broadcast([w1, b1, w2]);
    const batches = pieces(rank, size, options.accumulate).map((piece) => ({
      x: column(piece.inputs),
      y: column(piece.targets),
    }));
    const loss = ({ x, y }: (typeof batches)[number]) => {
      const hidden = tf.tanh(tf.add(tf.matMul(x, w1 as unknown as tf.Tensor2D), b1));
      const out = tf.matMul(hidden as tf.Tensor2D, w2 as unknown as tf.Tensor2D);
      return tf.mean(tf.square(tf.sub(out, y))) as tf.Scalar;
    };
    for (let step = 0; step < STEPS; step++) {
      for (const batch of batches) optimizer.minimize(() => loss(batch), false, [w1, b1, w2]);
    }
    say({ weights: [w1, b1, w2].map((one) => [...one.dataSync()]) });
    optimizer.dispose();
  }

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
