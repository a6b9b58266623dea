/** One rank of `verbena bench train --metric sync`: exchanges a gradient in buckets, with nothing computed beside it. Rank 0 prints the times. */

import { writeSync } from 'node:fs';
import { join } from 'node:path';
import { Communicator } from '../../../collectives/communicator.js';
import { FileStore } from '../../../launch/store/file-store.js';
import { allReduceExchange } from '../../../train/all-reduce-exchange.js';
import { arenaMemory } from '../../../train/distribute.js';
import { openDevice } from '../../../verbs/open-device.js';

/** What a rank gets as its argument; its number comes from the launcher. */
export interface SyncTask {
  readonly meeting: string;
  readonly bytes: number;
  readonly buckets: number;
  readonly repeats: number;
}

async function run({ meeting, bytes, buckets: count, repeats }: SyncTask): Promise<void> {
  const rank = Number(process.env['VERBENA_RANK']);
  const size = Number(process.env['VERBENA_SIZE']);
  const exchange = new FileStore({ directory: join(meeting, 'sync'), size });
  const device = await openDevice('shm');
  const communicator = await Communicator.create({ rank, size, exchange });
  const floats = bytes / 4;
  const memory = arenaMemory(device);
  const [parameters, gradients] = [memory(floats), memory(floats)];
  const buckets = Array.from({ length: count }, (_, index) => {
    const [from, to] = [count - 1 - index, count - index].map((part) => Math.floor((floats * part) / count));
    return { index, from, to };
  });
  // The optimizer is asked for nothing here.
  const optimizer = { kind: 'none', steps: 0, state: new Float32Array(0), step: () => {} };
  const context = { communicator, world: undefined, device, parameters, gradients, ranges: [], buckets, optimizer };
  const gradientExchange = await allReduceExchange()(context);
  const times: number[] = [];
  // From 1 and 2 and so on every exchange multiplies the sum by the number of ranks: exact in f32 where that is a power of two, so the last result tells of all.
  gradients.fill(rank + 1);
  for (let step = 0; step < repeats; step++) {
    communicator.barrierSync();
    const began = performance.now();
    gradientExchange.start({ step, ownSamples: 1, globalSamples: size, learningRate: 0 });
    for (const bucket of buckets) gradientExchange.begin(bucket);
    await gradientExchange.finish();
    times.push(performance.now() - began);
  }
  const expected = ((size * (size + 1)) / 2) * size ** (repeats - 1);
  const wrong = gradients.reduce((count, value) => count + (Math.abs(value - expected) > 1e-5 * expected ? 1 : 0), 0);
  if (rank === 0) writeSync(1, `${JSON.stringify({ times, wrong })}\n`);
  await gradientExchange.close();
  communicator.close();
  exchange.close();
  device.close();
}

run(JSON.parse(process.argv[2]) as SyncTask).then(
  () => process.exit(0),
  (error: unknown) => {
    console.error(error);
    process.exit(1);
  },
);
