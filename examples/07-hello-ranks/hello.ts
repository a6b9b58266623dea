/** Every rank says where it is, sends its number to the next one, and adds to a counter that all share. */

import { init } from 'verbena/launch';

const world = await init();
const { rank, size, localRank, localSize, host } = world;

// Messages: each rank to the next, in a ring. Connections are made here, at the first use.
const next = (rank + 1) % size;
const received = new Uint8Array(1);
const arrival = (await world.worker).recv(1, received);
await (await world.endpoint(next)).send(1, new Uint8Array([rank]));
await arrival;

// The store: keys and counters for the control path.
await world.store.add('ranks', 1);
await world.barrier();
const count = Buffer.from((await world.store.get('ranks')) ?? []).toString();

console.log(
  `rank ${rank} of ${size} (${localRank} of ${localSize} on host ${host.index}) heard from rank ${received[0]}; ${count} ranks counted`,
);
await world.finalize();
