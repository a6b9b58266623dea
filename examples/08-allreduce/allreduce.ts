/** Every rank has a gradient; all end with the average. Runs alone, under `verbena run`, and over several hosts. */

import { Communicator } from 'verbena/collectives';
import { init } from 'verbena/launch';
import { openDevice } from 'verbena/verbs';

const PARAMETERS = 1_000_000;

const world = await init();
const comm = await Communicator.of(world);
const { rank, size } = comm;

// In memory that peers map, an all-reduce inside a host copies nothing. Any other typed array will do too.
const device = await openDevice('shm');
const gradient = new Float32Array(device.alloc(4 * PARAMETERS), 0, PARAMETERS);
gradient.fill(rank);
await comm.allreduce(gradient, 'avg'); // the event loop stays free

const right = Int32Array.of(gradient.every((value) => value === (size - 1) / 2) ? 1 : 0);
const loss = Float64Array.of(1 / (rank + 1));
comm.allreduceSync(right, 'min'); // on this thread: the fastest for small vectors
comm.allreduceSync(loss, 'min');

if (rank === 0) {
  const { kind, why } = comm.executor;
  const { selection } = comm.explain('allreduce', gradient.byteLength);
  console.log(`${kind}: ${why}`);
  console.log(
    `${size} ranks averaged ${PARAMETERS} values with ${selection?.algorithm.name}: ${right[0] ? 'right' : 'wrong'} everywhere`,
  );
  console.log(`smallest loss ${loss[0]}`);
}
await comm.barrier();
comm.close();
device.close();
await world.finalize();
