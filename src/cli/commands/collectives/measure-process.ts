/** One rank of a measurement: runs calls one after the other, each for a while; rank 0 prints their times as one JSON line. */

import { writeSync } from 'node:fs';
import { Communicator } from '../../../collectives/communicator.js';
import type { Machine, MeasuredCall, PreparedCall } from '../../../collectives/index.js';
import { FileStore } from '../../../launch/store/file-store.js';
import { openDevice } from '../../../verbs/open-device.js';

/** What a rank gets as its argument. */
export interface MeasureTask {
  readonly rank: number;
  readonly size: number;
  readonly directory: string;
  readonly memory: 'arena' | 'private';
  readonly calls: readonly MeasuredCall[];
  /** Milliseconds for each call. */
  readonly durationMs: number;
  /** Constants by which pipelined forms choose their segments. Default: what was tuned. */
  readonly machine?: Machine;
}

const BATCHES = 9;
/** Up to this many bytes calls are timed in batches: the clock is too coarse for one. */
const TOGETHER = 4096;

async function run({ rank, size, directory, memory, calls, durationMs, machine }: MeasureTask): Promise<void> {
  const exchange = new FileStore({ directory, size });
  const device = await openDevice('shm');
  const world = await Communicator.create({ rank, size, exchange });
  const most = Math.max(4 * size, ...calls.map(({ bytes }) => bytes));
  const [first, second] = [0, 1].map(() => (memory === 'arena' ? device.alloc(most) : new ArrayBuffer(most)));
  const communicators = new Map<string, Communicator>();
  const seconds: number[] = [];
  for (const { collective, algorithm, bytes } of calls) {
    const key = algorithm === undefined ? '' : `${collective}:${algorithm}`;
    let comm = key === '' ? world : communicators.get(key);
    if (comm === undefined) {
      comm = await Communicator.create({
        rank,
        size,
        exchange,
        key,
        algorithms: key,
        ...(machine === undefined ? {} : { machine }),
      });
      communicators.set(key, comm);
    }
    const n = bytes / 4;
    const data = new Float32Array(first, 0, n).fill(0);
    const call = prepare(comm, collective, data, new Float32Array(second, 0, n).fill(0));
    seconds.push(bytes <= TOGETHER ? inBatches(world, call, durationMs) : oneByOne(world, call, data, durationMs));
  }
  world.barrierSync();
  if (rank === 0) writeSync(1, `${JSON.stringify(seconds)}\n`);
  for (const comm of communicators.values()) comm.close();
  world.close();
  device.close();
  exchange.close();
}

/** Seconds of a call, of many that follow each other. */
function inBatches(world: Communicator, call: PreparedCall, durationMs: number): number {
  const batch = (count: number): number => {
    world.barrierSync();
    const start = process.hrtime.bigint();
    for (let i = 0; i < count; i++) call.runSync();
    return Number(process.hrtime.bigint() - start) / 1e9 / count;
  };
  const plan = Float64Array.of(Math.min(batch(100), batch(100)));
  world.broadcastSync(plan);
  const each = Math.max(1, Math.min(20_000, Math.round(durationMs / 1e3 / BATCHES / plan[0])));
  batch(each);
  return quartile(Array.from({ length: BATCHES }, () => batch(each)));
}

/** Seconds of a call whose vector was written just before, as programs do: it is in the cache of the rank that wrote it, and nowhere else. */
function oneByOne(world: Communicator, call: PreparedCall, data: Float32Array, durationMs: number): number {
  const once = (): number => {
    data.fill(0);
    world.barrierSync();
    const start = process.hrtime.bigint();
    call.runSync();
    return Number(process.hrtime.bigint() - start) / 1e9;
  };
  const start = performance.now();
  for (let i = 0; i < 4; i++) once();
  const plan = Float64Array.of((performance.now() - start) / 4);
  world.broadcastSync(plan);
  const calls = Math.max(7, Math.min(2000, Math.round(durationMs / plan[0])));
  return quartile(Array.from({ length: calls }, once));
}

/** The lower quartile: other work on the machine only adds. */
function quartile(times: number[]): number {
  return times.sort((a, b) => a - b)[Math.floor(times.length / 4)];
}

function prepare(
  comm: Communicator,
  collective: MeasuredCall['collective'],
  data: Float32Array,
  output: Float32Array,
): PreparedCall {
  const part = () => comm.part(output);
  switch (collective) {
    case 'allreduce':
      return comm.prepareAllreduce(data, 'avg');
    case 'reduce-scatter':
      return comm.prepareReduceScatter(data);
    case 'all-gather':
      return comm.prepareAllgather(data);
    case 'broadcast':
      return comm.prepareBroadcast(data);
    case 'reduce':
      return comm.prepareReduce(data);
    case 'gather':
      return comm.prepareGather(part(), comm.rank === 0 ? data : undefined);
    case 'scatter':
      return comm.prepareScatter(comm.rank === 0 ? data : undefined, part());
    case 'all-to-all':
      return comm.prepareAlltoall(data, output);
    case 'scan':
      return comm.prepareScan(data);
    case 'send-receive':
      return comm.prepareSendrecv(data, output);
    case 'barrier':
      return comm.prepareBarrier();
    default:
      throw new RangeError(`${collective} is not measured`);
  }
}

run(JSON.parse(process.argv[2]) as MeasureTask).catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
