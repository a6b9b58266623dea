/** One rank of `verbena bench allreduce` and its kin: warms up, checks the results, runs batches; rank 0 prints the times as one JSON line. */

import { writeSync } from 'node:fs';
import { Communicator } from '../../../collectives/communicator.js';
import type { PreparedCall } from '../../../collectives/index.js';
import { FileStore } from '../../../launch/store/file-store.js';
import { openDevice } from '../../../verbs/open-device.js';

/** What a rank gets as its argument. */
export interface RankTask {
  readonly rank: number;
  readonly size: number;
  readonly directory: string;
  readonly collective: 'allreduce' | 'allgather' | 'broadcast' | 'alltoall';
  readonly bytes: number;
  readonly memory: 'arena' | 'private';
  readonly durationMs: number;
  /** Override string, or none. */
  readonly algorithms?: string;
}

/** What rank 0 prints. */
export interface RankReport {
  /** Microseconds of one call, a value for each batch. */
  readonly times: readonly number[];
  /** Elements that were wrong, over all ranks. */
  readonly wrong: number;
  readonly algorithm: string;
}

/** Small whole numbers, so that sums and averages over up to 64 ranks are exact. */
const contribution = (rank: number, i: number): number => (rank + 1) * (1 + (i % 7));

async function run(task: RankTask): Promise<void> {
  const { rank, size, collective, memory, durationMs, algorithms } = task;
  const exchange = new FileStore({ directory: task.directory, size });
  const device = await openDevice('shm');
  const world = await Communicator.create({ rank, size, exchange, ...(algorithms === undefined ? {} : { algorithms }) });
  const n = task.bytes / 4;
  const vector = () => (memory === 'arena' ? new Float32Array(device.alloc(4 * n), 0, n) : new Float32Array(n));
  const data = vector();
  const output = collective === 'alltoall' ? vector() : data;
  const call = prepare(world, collective, data, output);

  const fill = (at: (i: number) => number) => {
    for (let i = 0; i < n; i++) data[i] = at(i);
  };
  const part = (i: number) => Math.min(size - 1, Math.floor(i / Math.max(1, n / size)));
  if (collective === 'allreduce') fill((i) => contribution(rank, i));
  else if (collective === 'broadcast') fill((i) => (rank === 0 ? contribution(0, i) : -1));
  else if (collective === 'allgather') {
    data.fill(-1);
    const own = world.part(data);
    for (let i = 0; i < own.length; i++) own[i] = contribution(rank, i);
  } else fill((i) => 100 * rank + part(i));
  call.runSync();
  const wrong = Int32Array.of(0);
  for (let i = 0; i < n; i++) if (Math.abs(output[i] - expected(task, n, i)) > 1e-4 * Math.abs(output[i])) wrong[0]++;
  world.allreduceSync(wrong);
  data.fill(0);

  const batch = (calls: number): number => {
    world.barrierSync();
    const start = process.hrtime.bigint();
    for (let i = 0; i < calls; i++) call.runSync();
    return Number(process.hrtime.bigint() - start) / 1e3;
  };
  // Long enough for the compiler to have done its work.
  let once = batch(4) / 4;
  const warm = Int32Array.of(Math.max(4, Math.min(20_000, Math.round((durationMs * 100) / once))));
  world.broadcastSync(warm);
  once = batch(warm[0]) / warm[0];
  const plan = Int32Array.of(Math.max(1, Math.floor((durationMs * 50) / once)), 0);
  plan[1] = Math.max(3, Math.floor((durationMs * 1e3) / (once * plan[0])));
  world.broadcastSync(plan);
  const times = Array.from({ length: plan[1] }, () => batch(plan[0]) / plan[0]);
  world.barrierSync();
  const report: RankReport = { times, wrong: wrong[0], algorithm: call.selection?.algorithm.name ?? call.method };
  if (rank === 0) writeSync(1, `${JSON.stringify(report)}\n`);
  world.close();
  device.close();
  exchange.close();
}

function prepare(
  world: Communicator,
  collective: RankTask['collective'],
  data: Float32Array,
  output: Float32Array,
): PreparedCall {
  if (collective === 'allreduce') return world.prepareAllreduce(data, 'avg');
  if (collective === 'allgather') return world.prepareAllgather(data);
  if (collective === 'broadcast') return world.prepareBroadcast(data);
  return world.prepareAlltoall(data, output);
}

function expected({ collective, rank, size }: RankTask, n: number, i: number): number {
  if (collective === 'allreduce') return contribution(0, i) * ((size + 1) / 2);
  if (collective === 'broadcast') return contribution(0, i);
  const base = Math.floor(n / size);
  const longer = n % size;
  const owner = i < longer * (base + 1) ? Math.floor(i / (base + 1)) : longer + Math.floor((i - longer * (base + 1)) / base);
  const first = owner * base + Math.min(owner, longer);
  return collective === 'allgather' ? contribution(owner, i - first) : 100 * owner + rank;
}

run(JSON.parse(process.argv[2]) as RankTask).catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
