/** Runs in the guest, four times: ranks of four virtual hosts sum a vector over rdma_rxe and train a small model together. */

import assert from 'node:assert/strict';
import { Communicator } from '../../../src/collectives/index.js';
import { init } from '../../../src/launch/index.js';
import { constantRate, Sampler, Sgd } from '../../../src/nn/index.js';
import { arenaMemory, distribute, fit } from '../../../src/train/index.js';
import { openDevice } from '../../../src/verbs/index.js';
import { bars, smallModel } from '../../train/scenarios/digits.js';

await using world = await init();
const { rank, size } = world;
const communicator = await Communicator.of(world);
assert.deepEqual(communicator.executor.providers, ['ibverbs'], 'the ranks chose the NIC by themselves');
const vector = Float64Array.from({ length: 20_000 }, (_, i) => i + rank);
await communicator.allreduce(vector);
for (const i of [0, 1, 7777, 19_999]) assert.equal(vector[i], size * i + (size * (size - 1)) / 2);
if (rank === 0) console.log(`PASS all-reduce of ${size} ranks by ${communicator.executor.kind}`);

const device = await openDevice('shm');
const data = bars(96, 11);
const model = smallModel('plain', 24, arenaMemory(device));
const training = await distribute(model, new Sgd(model, { momentum: 0.9 }), communicator, { device });
const losses: number[] = [];
await fit(training, {
  data,
  sampler: new Sampler({ count: 96, globalBatch: 24, seed: 3 }),
  epochs: 4,
  learningRate: constantRate(0.05),
  reportEvery: 4,
  onReport: ({ loss }) => losses.push(loss),
});
const sum = Float64Array.of(model.parameters.reduce((total, value) => total + value, 0));
const [own] = sum;
await communicator.allreduce(sum, 'avg');
assert.ok(Math.abs(own - sum[0]) < 1e-9, 'all ranks have the same parameters');
assert.ok((losses.at(-1) as number) < losses[0], `the loss fell: ${losses.join(', ')}`);
if (rank === 0) console.log(`PASS training of ${size} ranks, loss ${losses.map((loss) => loss.toFixed(3)).join(', ')}`);
device.close();
