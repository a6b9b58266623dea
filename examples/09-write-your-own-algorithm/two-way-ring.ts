/** An all-reduce that is not in the library: one half of the vector travels round the ring to the right, the other to the left. Proved, drawn, run. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { Communicator } from 'verbena/collectives';
import { init } from 'verbena/launch';
import {
  after,
  DATA,
  defineSchedule,
  drawSchedule,
  evenSplit,
  type Instruction,
  proveSchedule,
  receive,
  receiveReduce,
  type Schedule,
  send,
  walkSchedule,
} from 'verbena/schedule';

// ---- the algorithm ----

/** What a rank does for one half: partial sums travel round and grow, then finished chunks travel round. */
function* half(rank: number, size: number, way: 1 | -1): Generator<Instruction> {
  const [out, into, channel, base] = way === 1 ? [0, 1, 0, 0] : [2, 3, 1, size];
  const [to, from] = [(rank + way + size) % size, (rank - way + size) % size];
  const chunk = (back: number): number => base + ((((rank - way * back) % size) + size) % size);
  for (let step = 0; step < 2 * (size - 1); step++) {
    if (step > 0) yield after({ lane: out, step, on: into, count: step });
    yield send({ lane: out, step, channel, to, first: chunk(step + 1) });
    if (step < size - 1) {
      yield receiveReduce({ lane: into, step, channel, from, first: chunk(step + 2), finish: step === size - 2 });
    } else {
      yield after({ lane: into, step, on: out, count: step - size + 2 }); // what comes in must not overwrite what still goes out
      yield receive({ lane: into, step, channel, from, first: chunk(step + 2) });
    }
  }
}

const twoWayRing = (size: number): Schedule =>
  defineSchedule({
    collective: 'allreduce',
    algorithm: 'two-way-ring',
    size,
    chunks: 2 * size,
    buffers: [DATA],
    lanes: ['right out', 'right in', 'left out', 'left in'].map((name) => ({ name, reach: 'any' })),
    steps: 2 * (size - 1),
    *program(rank) {
      yield* half(rank, size, 1);
      yield* half(rank, size, -1);
    },
  });

// ---- proved, drawn, run ----

const world = await init();
const comm = await Communicator.of(world);
const { rank, size } = comm;

if (rank === 0) {
  for (let p = 1; p <= 17; p++) {
    const { flaws } = proveSchedule(twoWayRing(p));
    if (flaws.length > 0) throw new Error(`${p} ranks: ${flaws[0].text}`);
  }
  console.log('proved for 1 to 17 ranks');
  const { busiest, rounds } = walkSchedule(twoWayRing(size), evenSplit(1024, 2 * size));
  console.log(`${size} ranks: ${rounds} rounds, each rank sends ${busiest.sent / 1024} n`);
  const folder = process.argv[2];
  if (folder !== undefined) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(`${folder}/two-way-ring.svg`, drawSchedule(twoWayRing(size)));
  }
}

const data = new Float32Array(100_003).fill(rank + 1);
await comm.prepareSchedule(twoWayRing(size), [data], 'avg').run();
if (!data.every((value) => value === (size + 1) / 2)) throw new Error(`rank ${rank} has ${data[0]}`);
if (rank === 0) console.log(`averaged on ${comm.executor.kind}: ${data[0]}`);
await comm.barrier();
comm.close();
await world.finalize();
