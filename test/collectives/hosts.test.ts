/** One collective, two ways: shared memory among the ranks of a host, a simulated network between hosts. What the network carried is counted. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryExchange } from '../../conformance/collectives/stage.js';
import { ALGORITHMS, Communicator } from '../../src/collectives/index.js';
import { Context, openContext } from '../../src/messaging/index.js';
import { evenSplit } from '../../src/schedule/split.js';
import { regularTopology } from '../../src/schedule/topology.js';
import { SimFabric } from '../../src/verbs/providers/sim/fabric.js';

const HOSTS = 2;
const SIZE = 4;
const N = 40_000;

/** Elements that the program of every rank sends to ranks of other hosts. */
function betweenHosts(algorithm: string): number {
  const topology = regularTopology({ hosts: HOSTS, ranksPerHost: SIZE / HOSTS });
  const found = ALGORITHMS.allreduce.find(({ name }) => name === algorithm);
  assert.ok(found);
  const schedule = found.schedule({ size: SIZE, bytes: 8 * N, topology, segments: 1 });
  const split = evenSplit(N, schedule.chunks);
  let elements = 0;
  for (let rank = 0; rank < SIZE; rank++) {
    for (const i of schedule.program(rank)) {
      if (i.op !== 'send' || topology.placement(i.peer).host === topology.placement(rank).host) continue;
      for (let c = i.first; c < i.first + i.count; c++)
        elements += split.offset((c % split.chunks) + 1) - split.offset(c % split.chunks);
    }
  }
  return elements;
}

test('lanes inside a host go over shared memory, and the network carries only what goes between hosts', {
  timeout: 30_000,
}, async () => {
  const fabric = new SimFabric({ mtu: 4096 });
  const exchange = new MemoryExchange();
  const contexts: Context[] = [];
  const topology = regularTopology({ hosts: HOSTS, ranksPerHost: SIZE / HOSTS });
  const make = async (rank: number): Promise<Communicator> => {
    const [far, near] = [new Context(fabric.open(), {}, true), await openContext({ device: 'shm' })];
    contexts.push(far, near);
    return Communicator.create({
      rank,
      size: SIZE,
      exchange,
      topology,
      worker: await far.createWorker({ ring: 'immediate' }),
      near: { worker: await near.createWorker(), home: `host ${topology.placement(rank).host}` },
      algorithms: 'allreduce:hierarchical;broadcast:hierarchical',
      timeoutMs: 20_000,
    });
  };
  try {
    const ranks = await Promise.all(Array.from({ length: SIZE }, (_, rank) => make(rank)));
    assert.deepEqual(ranks[0].executor.providers, ['shm', 'sim']);
    await Promise.all(ranks.map((comm) => comm.barrier()));
    const before = fabric.counters().bytes;
    const data = ranks.map(({ rank }) => new Float64Array(N).fill(rank));
    await Promise.all(ranks.map((comm) => comm.allreduce(data[comm.rank])));
    for (const vector of data) assert.ok(vector.every((value) => value === 6));
    const carried = fabric.counters().bytes - before;
    const wanted = 8 * betweenHosts('hierarchical');
    const all = ranks.reduce((sum, comm) => sum + comm.counters().bytesSent, 0);
    assert.ok(all > 1.5 * wanted, 'there is traffic inside the hosts');
    assert.ok(carried >= wanted && carried < 1.3 * wanted, `the network carried ${carried} bytes for ${wanted} of ${all}`);
    for (const comm of ranks) comm.close();
  } finally {
    for (const context of contexts) await context.close();
  }
});
