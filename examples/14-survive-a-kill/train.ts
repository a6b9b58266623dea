/** One rank of a training that loses a rank in the middle: with --keep-going the others go on, with --restart all start again from the last checkpoint. */

import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { init } from 'verbena/launch';
import { Adam, constantRate, digitMlp, loadMnist, Model, Sampler } from 'verbena/nn';
import { arenaMemory, CheckpointWriter, distribute, evaluate, fit, listCheckpoints, restoreCheckpoint } from 'verbena/train';
import { openDevice } from 'verbena/verbs';

const KILL_AT = 120;
const [onLoss = 'shrink', directory = join(tmpdir(), `verbena-14-${process.ppid}`)] = process.argv.slice(2);

const world = await init();
const device = await openDevice('shm');
const model = new Model({ input: [1, 28, 28], layers: digitMlp(), maxBatch: 128, memory: arenaMemory(device) });
const optimizer = new Adam(model);
const say = (text: string) => console.log(text);

// One rank reads the checkpoint; distribute gives its state to the others.
const restored = world.rank === 0 && world.restart > 0 ? restoreCheckpoint(directory, model, optimizer) : undefined;
if (restored) say(`restart ${world.restart}: going on after step ${restored.step}`);
const training = await distribute(model, optimizer, world, { device, stepsDone: restored?.step ?? 0 });
const checkpoints = onLoss === 'restart' ? new CheckpointWriter({ directory, everySteps: 20 }) : undefined;

const { train, test } = loadMnist();
const { steps } = await fit(training, {
  data: train,
  sampler: new Sampler({ count: train.count, globalBatch: 128 }),
  epochs: 1,
  steps: 300,
  learningRate: constantRate(1e-3),
  onLoss: onLoss === 'restart' ? 'throw' : 'shrink',
  ...(checkpoints ? { checkpoints } : {}),
  beforeStep(step) {
    // No farewell, no cleanup: as if the machine had lost it. It waits for a checkpoint only so that there is one to see.
    const ready = onLoss === 'shrink' || listCheckpoints(directory).length > 0;
    if (step >= KILL_AT && ready && world.rank === 1 && world.restart === 0) process.kill(process.pid, 'SIGKILL');
  },
  onMembers({ ranks, step, tookMs }) {
    if (training.rank === 0) say(`step ${step}: a rank was lost, ${ranks} go on after ${tookMs.toFixed(0)} ms`);
  },
});

const { accuracy } = await evaluate(model, test, training.communicator);
if (training.rank === 0) say(`${steps} steps done, test accuracy ${(100 * accuracy).toFixed(1)} %`);
await checkpoints?.close();
await training.close();
await world.finalize();
