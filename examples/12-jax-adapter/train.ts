/** One rank: a network in jax-js, trained together with the other ranks. */

import { grad, type JsTree, numpy as np, random, tree } from '@jax-js/jax';
import { distributed, type GradientTransformation } from 'verbena/adapters/jax';
import { init } from 'verbena/launch';

const POINTS = 64;
const HIDDEN = 16;

type Params = { w1: np.Array; b1: np.Array; w2: np.Array };

/** Plain gradient descent, as optax writes it. */
const sgd = (rate: number): GradientTransformation<null> => ({
  init: () => null,
  update: (updates) => [tree.map((g: np.Array) => g.mul(-rate), updates) as JsTree<np.Array>, null],
});

function loss({ w1, b1, w2 }: Params, x: np.Array, y: np.Array): np.Array {
  return np.square(np.matmul(np.tanh(np.matmul(x, w1).add(b1)), w2).sub(y)).mean();
}

const world = await init();
const { rank, size } = world;
const optimizer = await distributed(sgd(0.1), world); // the one line: gradients are averaged over the ranks

// Every rank draws its own; `broadcast` gives all of them those of rank 0.
const [k1, k2] = random.split(random.key(rank)) as unknown as [np.Array, np.Array];
let params: Params = optimizer.broadcast({
  w1: random.normal(k1, [1, HIDDEN]),
  b1: np.zeros([HIDDEN]),
  w2: random.normal(k2, [HIDDEN, 1]).mul(0.3),
});

// This rank's share of the points.
const own = Array.from({ length: POINTS / size }, (_, i) => (2 * (i * size + rank)) / POINTS - 1);
const x = np.array(Float32Array.from(own), { shape: [own.length, 1] });
const y = np.array(
  Float32Array.from(own, (one) => Math.sin(3 * one)),
  { shape: [own.length, 1] },
);

const gradient = grad(loss);
let state = optimizer.init(tree.ref(params));
for (let step = 0; step < 200; step++) {
  const grads = gradient(tree.ref(params), x.ref, y.ref) as JsTree<np.Array>;
  const [updates, next] = optimizer.update(grads, state);
  state = next;
  params = tree.map((p: np.Array, u: np.Array) => p.add(u), params, updates as Params);
}

const left = Number(loss(tree.ref(params), x, y).dataSync()[0]);
const sum = Number(params.w1.sum().dataSync()[0]);
await world.store.set(`weights/${rank}`, String(sum));
await world.barrier();
const theirs = Buffer.from((await world.store.get(`weights/${(rank + 1) % size}`)) ?? []).toString();
console.log(
  `rank ${rank}: loss ${left < 0.05 ? 'below 0.05' : left}, ${theirs === String(sum) ? 'the same weights as' : 'other weights than'} its neighbour`,
);
optimizer.close();
await world.finalize();
