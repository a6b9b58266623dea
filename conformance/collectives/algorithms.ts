/** Every algorithm, on odd and even vectors, against the interpreter: results, and bytes and messages as the schedule says. */

import assert from 'node:assert/strict';
import { ALGORITHMS, type Algorithm, type Communicator, type Vector } from '../../src/collectives/index.js';
import { allocateMemory, interpret } from '../../src/schedule/interpreter.js';
import { fillMemory, findMismatch } from '../../src/schedule/reference.js';
import type { Collective } from '../../src/schedule/schedule.js';
import { regularTopology, type Topology } from '../../src/schedule/topology.js';
import { all, type Case, type Stage } from './stage.js';

const ROOTED: readonly Collective[] = ['broadcast', 'reduce', 'gather', 'scatter'];
/** Chunks that must be equal. */
const BLOCKS: readonly Collective[] = ['gather', 'scatter', 'all-to-all'];

function call(world: Communicator, collective: Collective, buffers: (Vector | undefined)[], root: number): Promise<unknown> {
  const [first, second] = buffers as [Vector, Vector];
  switch (collective) {
    case 'allreduce':
      return world.allreduce(first);
    case 'reduce-scatter':
      return world.reduceScatter(first);
    case 'all-gather':
      return world.allgather(first);
    case 'broadcast':
      return world.broadcast(first, root);
    case 'reduce':
      return world.reduce(first, 'sum', root);
    case 'gather':
      return world.gather(first, second, root);
    case 'scatter':
      return world.scatter(first, second, root);
    case 'all-to-all':
      return world.alltoall(first, second);
    case 'barrier':
      return world.barrier();
    case 'scan':
      return world.scan(first);
    case 'send-receive':
      return world.sendrecv(first, second, root);
    case 'sharded-allreduce':
      return world.allreduceShards(first, second, 2 * world.size);
  }
}

/** Two hosts where the ranks can be shared out evenly; the hierarchical forms need some. */
function topologyFor(size: number): Topology | undefined {
  return size % 2 === 0 ? regularTopology({ hosts: 2, ranksPerHost: size / 2 }) : undefined;
}

function runnable({ needs, supports }: Algorithm, size: number, topology: Topology | undefined): boolean {
  return (needs === undefined || needs === 'shards') && supports({ size, bytes: 64, topology, shards: 2 * size }) === true;
}

async function tryAlgorithm(stage: Stage, algorithm: Algorithm, size: number): Promise<number> {
  const { collective, name } = algorithm;
  const topology = name.includes('hierarchical') || name === 'multi-ring' ? topologyFor(size) : undefined;
  if (!runnable(algorithm, size, topology)) return 0;
  const ranks = await stage.ranks(size, { algorithms: `${collective}:${name}`, topology });
  const isSharded = collective === 'sharded-allreduce';
  let cases = 0;
  const roots = collective === 'send-receive' ? [1 % size] : ROOTED.includes(collective) ? [0, size - 1] : [0];
  for (const root of roots) {
    for (const odd of [0, 1, 4 * size + 3, 5000]) {
      const count = BLOCKS.includes(collective) ? odd * size : isSharded ? 2 * size * size * odd : odd;
      const { selection } = isSharded ? { selection: undefined } : ranks[0].explain(collective, 8 * count);
      const shape = { size, bytes: 8 * count, root, topology, segments: selection?.shape.segments, shards: 2 * size };
      const schedule = algorithm.schedule(shape);
      const memory = allocateMemory(schedule, count);
      fillMemory(schedule, memory);
      const users = schedule.buffers.flatMap(({ kind }, id) => (kind === 'user' ? [id] : []));
      const real = memory.map(({ buffers }) => users.map((id) => buffers[id].slice()));
      const before = ranks.map((rank) => rank.counters());
      await all(ranks, (rank) => call(rank, collective, real[rank.rank], root));
      const counted = interpret(schedule, memory);
      const what: string = `${collective}:${name} of ${count} among ${size}, root ${root}`;
      for (const { rank } of ranks) {
        for (const [at, id] of users.entries()) memory[rank].buffers[id] = real[rank][at];
      }
      assert.equal(findMismatch(schedule, memory), undefined, what);
      for (const rank of ranks) {
        const [was, is] = [before[rank.rank], rank.counters()];
        const { elementsSent, messagesSent } = counted[rank.rank];
        assert.equal(is.bytesSent - was.bytesSent, 8 * elementsSent, `bytes of rank ${rank.rank}, ${what}`);
        assert.equal(is.messages - was.messages, messagesSent, `messages of rank ${rank.rank}, ${what}`);
      }
      cases++;
    }
  }
  for (const rank of ranks) rank.close();
  return cases;
}

/** One case per collective. */
export const algorithmCases: Readonly<Record<string, Case>> = Object.fromEntries(
  Object.entries(ALGORITHMS).map(([collective, algorithms]) => [
    `every algorithm of ${collective} gives what the interpreter gives and moves what it moves`,
    async (stage, { sizes }) => {
      let cases = 0;
      for (const size of sizes) for (const algorithm of algorithms) cases += await tryAlgorithm(stage, algorithm, size);
      assert.ok(cases >= 4);
    },
  ]),
);
