/**
 * A rank of a world that trains over parameter servers; the last one computes for so many seconds in the middle, with no turn of its event loop. Samples of a worker that a
 * server takes for dead are missing in the end.
 */

import { init } from '../../../src/launch/world.js';
import { Adam, Sampler } from '../../../src/nn/index.js';
import { arenaMemory, distribute, fit, parameterServerExchange } from '../../../src/train/index.js';
import { openDevice } from '../../../src/verbs/open-device.js';
import { say } from '../../collectives/rank.js';
import { bars, smallModel } from './digits.js';

const [provider, seconds, onLoss] = process.argv.slice(2);

const world = await init();
const device = await openDevice(provider === 'ucx' ? 'shm' : provider);
const model = smallModel('plain', 24, arenaMemory(device));
const exchange = parameterServerExchange({ optimizer: { kind: 'adam' }, provider });
const training = await distribute(model, new Adam(model), world, { device, exchange });
const ended = await fit(training, {
  data: bars(96, 11),
  sampler: new Sampler({ count: 96, globalBatch: 24 }),
  epochs: 1,
  learningRate: 0.01,
  beforeStep(step) {
    if (step !== 2) return;
    say({ type: 'ready' });
    if (world.rank < world.size - 1) return;
    for (const until = performance.now() + 1000 * Number(seconds); performance.now() < until; );
  },
  onLoss: onLoss as 'shrink' | 'throw',
}).then(
  ({ samples }) => ({ samples, ranks: training.size, parameters: [...model.parameters] }),
  ({ message }: Error) => ({ message }),
);
say({ type: 'ended', ...ended, lost: world.liveness.lost });
await training.close().catch(() => undefined);
await world.finalize();
device.close();
