/** A rank that fits the curve with jax-js, alone or with others. */
import { grad, type numpy as Numpy, numpy as np, tree } from '@jax-js/jax';
import { type ArrayTree, distributed, type GradientTransformation } from '../../../src/adapters/jax/index.js';
import { Communicator } from '../../../src/collectives/index.js';
import { asRank, say } from '../../collectives/rank.js';
import { HIDDEN, pieces, RATE, STEPS, TURNS, weights } from './regression.js';

type Params = { w1: Numpy.Array; b1: Numpy.Array; w2: Numpy.Array };

/** Gradient descent with momentum, as optax writes it. */
const momentum: GradientTransformation<ArrayTree> = {
  init: (params) => tree.map((one: Numpy.Array) => np.zerosLike(one), params) as ArrayTree,
  update(updates, state) {
    const next = tree.map((v: Numpy.Array, g: Numpy.Array) => v.mul(0.9).add(g), state as Params, updates as Params);
    return [tree.map((v: Numpy.Array) => v.mul(-RATE / 10), tree.ref(next)), next];
  },
};

function loss(params: Params, x: Numpy.Array, y: Numpy.Array): Numpy.Array {
  const hidden = np.tanh(np.matmul(x, params.w1).add(params.b1));
  return np.square(np.matmul(hidden, params.w2).sub(y)).mean();
}

asRank(async ({ rank, size, exchange }) => {
  const communicator = await Communicator.create({ rank, size, exchange });
  const start = weights();
  // Ranks begin apart: `broadcast` makes them equal.
  const own = (values: Float32Array, shape: number[]) =>
    np.array(
      values.map((value) => value + rank),
      { shape },
    );
  const column = (values: Float32Array) => np.array(values, { shape: [values.length, 1] });
  const gradient = grad(loss);
  for (const options of TURNS) {
    const optimizer = await distributed(momentum, communicator, options);
    let params: Params = optimizer.broadcast({
      w1: own(start.w1, [1, HIDDEN]),
      b1: own(start.b1, [HIDDEN]),
      w2: own(start.w2, [HIDDEN, 1]),
    });
    let state = optimizer.init(tree.ref(params));
    const batches = pieces(rank, size, options.accumulate).map(({ inputs, targets }) => ({
      x: column(inputs),
      y: column(targets),
    }));
    for (let step = 0; step < STEPS; step++) {
      for (const { x, y } of batches) {
        const grads = gradient(tree.ref(params), x.ref, y.ref) as ArrayTree;
        const [updates, next] = optimizer.update(grads, state, tree.ref(params));
        state = next;
        params = tree.map((p: Numpy.Array, u: Numpy.Array) => p.add(u), params, updates as Params);
      }
    }
    const { w1, b1, w2 } = params;
    say({ weights: [w1, b1, w2].map((one) => [...(one.dataSync() as Float32Array)]) });
    optimizer.close();
  }
  communicator.close();
});
