/** Four ranks: the first two hold the parameters of a network, half each, the other two train it. */

import { init } from 'verbena/launch';
import { linear, Model, Random, relu, softmaxCrossEntropy } from 'verbena/nn';
import { arenaMemory, ParameterServerGroup, shareOver } from 'verbena/train';
import { openDevice } from 'verbena/verbs';

const BATCH = 64;
const STEPS = 300;

const world = await init();
const { rank, size } = world;
const device = await openDevice('shm');

// Gradients lie where the servers can map them: a push moves no bytes.
const model = new Model({ input: [2], layers: [linear(32), relu(), linear(2)], maxBatch: BATCH, memory: arenaMemory(device) });

const group = await ParameterServerGroup.join({
  world,
  rank,
  size,
  share: shareOver(world.store, rank, size),
  servers: [0, 1],
  workers: [2, 3],
  mode: 'ssp', // nobody waits, but nobody gets more than 3 steps ahead of the slowest
  staleness: 3,
  optimizer: { kind: 'adam' },
  device,
  parameters: model.parameters,
  gradients: model.gradients,
  ranges: model.ranges,
});

/** Two rings of points: the inner one is class 0. */
function rings(random: Random): { points: Float32Array; labels: Int32Array } {
  const points = new Float32Array(2 * BATCH);
  const labels = Int32Array.from({ length: BATCH }, (_, i) => i % 2);
  for (let i = 0; i < BATCH; i++) {
    const [radius, angle] = [0.5 + labels[i] + 0.15 * random.normal(), 2 * Math.PI * random.uniform()];
    points.set([radius * Math.cos(angle), radius * Math.sin(angle)], 2 * i);
  }
  return { points, labels };
}

if (group.client !== undefined) {
  const random = new Random(1, rank);
  const gradient = new Float32Array(2 * BATCH);
  for (let step = 0; step < STEPS; step++) {
    const { points, labels } = rings(random);
    const outputs = model.forward(points, BATCH, { training: true, step });
    softmaxCrossEntropy(outputs, labels, BATCH, gradient, 1 / BATCH);
    group.client.start(BATCH, 0.02);
    // What is final is pushed while the layers before it still compute.
    model.backward(gradient, { onGradient: (from) => group.client?.pushFrom(from) });
    await group.client.finish();
  }
  const { points, labels } = rings(new Random(99));
  const { correct } = softmaxCrossEntropy(model.forward(points, BATCH), labels, BATCH);
  console.log(`worker: ${correct >= 0.95 * BATCH ? 'learned the rings' : `only ${correct} of ${BATCH} right`}`);
}

const served = await group.close();
if (served !== undefined) {
  console.log(`server: ${served.applied} pushes applied, ${served.readBytes} bytes of gradients copied`);
}
device.close();
await world.finalize();
