/** Every algorithm that can run here, on odd and even vectors, in arena and private memory, against the interpreter: results and counted bytes. */

import assert from 'node:assert/strict';
import { ALGORITHMS, type Algorithm, Communicator, type Vector } from '../../../src/collectives/index.js';
import { allocateMemory, interpret } from '../../../src/schedule/interpreter.js';
import { fillMemory, findMismatch } from '../../../src/schedule/reference.js';
import type { Collective } from '../../../src/schedule/schedule.js';
import { listedTopology, regularTopology, type Topology } from '../../../src/schedule/topology.js';
import { openDevice } from '../../../src/verbs/open-device.js';
import { asRank, say } from '../rank.js';

const ROOTED: readonly Collective[] = ['broadcast', 'reduce', 'gather', 'scatter'];
/** Chunks that must be equal. */
const BLOCKS: readonly Collective[] = ['gather', 'scatter', 'all-to-all'];

function runnable(algorithm: Algorithm, size: number, topology: Topology | undefined): boolean {
  if (algorithm.needs !== undefined && algorithm.needs !== 'shared-memory') return false;
  return algorithm.supports({ size, bytes: 64, topology }) === true;
}

/** Algorithms of several hosts run here too: on hosts that are only said. */
function inventedHosts(size: number): Topology | undefined {
  if (size < 3) return undefined;
  if (size % 2 === 0) return regularTopology({ hosts: 2, ranksPerHost: size / 2, nicsPerHost: 2 });
  return listedTopology(
    Array.from({ length: size }, (_, rank) => ({ host: rank % 2, numa: 0, nic: 0 })),
    1,
  );
}

async function call(world: Communicator, collective: Collective, buffers: (Vector | undefined)[], root: number, sync: boolean) {
  const [first, second] = buffers as [Vector, Vector];
  switch (collective) {
    case 'allreduce':
      return sync ? world.allreduceSync(first) : world.allreduce(first);
    case 'reduce-scatter':
      return sync ? void world.reduceScatterSync(first) : void (await world.reduceScatter(first));
    case 'all-gather':
      return sync ? world.allgatherSync(first) : world.allgather(first);
    case 'broadcast':
      return sync ? world.broadcastSync(first, root) : world.broadcast(first, root);
    case 'reduce':
      return sync ? world.reduceSync(first, 'sum', root) : world.reduce(first, 'sum', root);
    case 'gather':
      return sync ? world.gatherSync(first, second, root) : world.gather(first, second, root);
    case 'scatter':
      return sync ? world.scatterSync(first, second, root) : world.scatter(first, second, root);
    case 'all-to-all':
      return sync ? world.alltoallSync(first, second) : world.alltoall(first, second);
    case 'barrier':
      return sync ? world.barrierSync() : world.barrier();
    case 'scan':
      return sync ? world.scanSync(first) : world.scan(first);
    case 'send-receive':
      return sync ? world.sendrecvSync(first, second, root) : world.sendrecv(first, second, root);
    default:
      throw new Error(`no call for ${collective}`);
  }
}

asRank(async ({ rank, size, exchange }) => {
  const device = await openDevice('shm');
  const arena = (n: number): Float64Array => (n === 0 ? new Float64Array(0) : new Float64Array(device.alloc(8 * n), 0, n));
  let cases = 0;
  for (const [name, algorithms] of Object.entries(ALGORITHMS)) {
    const collective = name as Collective;
    if (collective === 'sharded-allreduce') continue;
    for (const algorithm of algorithms) {
      const topology = runnable(algorithm, size, undefined) ? undefined : inventedHosts(size);
      if (!runnable(algorithm, size, topology)) continue;
      const world = await Communicator.create({
        rank,
        size,
        exchange,
        key: `${collective}:${algorithm.name}`,
        algorithms: `${collective}:${algorithm.name}`,
        timeoutMs: 30_000,
        ...(topology === undefined ? {} : { topology }),
      });
      const roots = collective === 'send-receive' ? [1 % size] : ROOTED.includes(collective) ? [0, size - 1] : [0];
      for (const root of roots) {
        for (const odd of [0, 1, 7, 4 * size + 3, 700]) {
          const count = BLOCKS.includes(collective) ? odd * size : odd;
          const { selection } = world.explain(collective, 8 * count);
          if (collective !== 'barrier') assert.equal(selection?.algorithm.name, algorithm.name);
          const schedule = algorithm.schedule({ size, bytes: 8 * count, root, segments: selection?.shape.segments, topology });
          const memory = allocateMemory(schedule, count);
          fillMemory(schedule, memory);
          const user = memory[rank].buffers.filter((_, id) => schedule.buffers[id].kind === 'user');
          const mixed = rank % 2 === cases % 2; // some ranks in the arena, some not
          const real = user.map((buffer) => {
            const copy = mixed ? arena(buffer.length) : new Float64Array(buffer.length);
            copy.set(buffer as Float64Array);
            return copy;
          });
          const before = world.counters();
          await call(world, collective, real, root, cases % 2 === 0);
          const after = world.counters();
          const counted = interpret(schedule, memory)[rank];
          real.forEach((buffer, id) => {
            memory[rank].buffers[id] = buffer;
          });
          const what: string = `${collective}:${algorithm.name} of ${count} among ${size}, root ${root}, ${mixed ? 'arena' : 'private'}`;
          assert.equal(findMismatch(schedule, memory), undefined, what);
          if (algorithm.name !== 'shared-direct' && collective !== 'barrier') {
            assert.equal(after.bytesSent - before.bytesSent, 8 * counted.elementsSent, `bytes sent, ${what}`);
            assert.equal(after.bytesAccessed - before.bytesAccessed, 8 * counted.elementsAccessed, `bytes accessed, ${what}`);
            assert.equal(after.messages - before.messages, counted.messagesSent, `messages, ${what}`);
          }
          cases++;
        }
      }
      world.barrierSync();
      world.close();
    }
  }
  device.close();
  say({ cases });
});
