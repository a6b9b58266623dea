/** Ranks of a job that `verbena run` starts: the first argument says what they do. */

import assert from 'node:assert/strict';
import { Communicator } from '../../../src/collectives/index.js';
import { init } from '../../../src/launch/world.js';

const role = process.argv[2];
const say = (type: string, more: object = {}) => console.log(JSON.stringify({ type, ...more }));

const roles: Record<string, () => Promise<void>> = {
  /** Two communicators of one world, and a group of one of them. */
  async sums() {
    await using world = await init();
    const { rank, size } = world;
    const first = await Communicator.of(world);
    const second = await Communicator.of(world, { algorithms: 'allreduce:ring' });
    const gradient = new Float32Array(5000).fill(rank);
    await first.allreduce(gradient, 'avg');
    assert.equal(gradient[4999], (size - 1) / 2);
    const one = Float64Array.of(1);
    second.allreduceSync(one);
    assert.equal(one[0], size);
    const half = await first.split(rank % 2);
    assert.ok(half);
    const sum = Float64Array.of(1);
    await half.allreduce(sum);
    assert.equal(sum[0], half.size);
    await first.barrier();
    say('done', { rank });
  },

  /** Two hosts of two ranks: messages between them, hierarchical forms, shared memory for those of one host alone. */
  async hosts() {
    await using world = await init();
    const { rank, size } = world;
    const comm = await Communicator.of(world);
    assert.equal(comm.executor.kind, 'messaging');
    assert.match(comm.executor.why, /2 hosts/);
    const chosen: Record<string, string | undefined> = {};
    for (const collective of ['allreduce', 'broadcast', 'reduce', 'all-gather', 'all-to-all', 'barrier'] as const) {
      chosen[collective] = comm.explain(collective, 1 << 20).selection?.algorithm.name;
    }
    const n = 1 << 17;
    const data = new Float64Array(n).fill(rank);
    await comm.allreduce(data, 'avg');
    assert.ok(data.every((value) => value === (size - 1) / 2));
    comm.part(data).fill(rank);
    comm.allgatherSync(data);
    for (let r = 0; r < size; r++) assert.equal(data[(r * n) / size], r);
    if (rank === 3) data.fill(7);
    comm.broadcastSync(data, 3);
    assert.equal(data[n - 1], 7);
    await comm.reduce(data, 'sum', 1);
    if (rank === 1) assert.equal(data[n - 1], 7 * size);
    const [out, into] = [new Float64Array(n).fill(rank), new Float64Array(n)];
    await comm.alltoall(out, into);
    for (let r = 0; r < size; r++) assert.equal(into[(r * n) / size], r);
    const home = await comm.split(world.host.index);
    assert.equal(home?.executor.kind, 'shared-memory');
    const one = Float64Array.of(1);
    home?.allreduceSync(one);
    assert.equal(one[0], 2);
    await assert.rejects(Communicator.of(world, { executor: 'shared-memory' }), { code: 'COLL_INVALID' });
    await comm.barrier();
    say('done', { rank, chosen, providers: comm.executor.providers });
  },

  /** Rank 2 is killed; the others go on without it. */
  async killed() {
    const world = await init();
    const { rank } = world;
    const executor = process.argv[3] as 'messaging' | undefined;
    const comm = await Communicator.of(world, executor === undefined ? {} : { executor });
    assert.equal(comm.executor.kind, 'messaging');
    const data = new Float32Array(200_000).fill(1);
    const dieSoon = () => {
      say('killed', { at: Date.now() });
      setTimeout(() => process.kill(process.pid, 'SIGKILL'), 5);
    };
    await assert.rejects(
      async () => {
        for (let calls = 0; ; calls++) {
          await comm.allreduce(data, 'max');
          if (rank === 2 && calls === 0) dieSoon();
        }
      },
      { code: 'COLL_PEER_LOST', rank: 2 },
    );
    const at = Date.now();
    const smaller = await comm.shrink();
    assert.deepEqual(smaller.members, [0, 1, 3]);
    const sum = Float64Array.of(1);
    await smaller.allreduce(sum);
    assert.equal(sum[0], 3);
    await smaller.barrier();
    say('heard', { rank, at });
    await world.finalize();
  },

  /** The first two ranks begin, the others join. */
  async grow() {
    await using world = await init();
    const { rank, size, store: exchange } = world;
    const comm = await Communicator.of(world);
    const half = await comm.split(rank < 2 ? 0 : undefined);
    const key = half?.key ?? new TextDecoder().decode(await exchange.wait('grown'));
    if (half?.rank === 0) await exchange.set('grown', key);
    const grown = half === undefined ? await Communicator.join({ exchange, key, world }) : await half.grow(size - 2);
    const sum = Float64Array.of(1);
    await grown.allreduce(sum);
    assert.equal(sum[0], size);
    assert.equal(grown.executor.kind, 'shared-memory');
    await grown.barrier();
    say('done', { rank: grown.rank });
  },

  /** Rank 0 does not come to the second call. */
  async stall() {
    const world = await init({ stallMs: 300 });
    const comm = await Communicator.of(world);
    await comm.barrier();
    if (world.rank === 0) {
      world.liveness.onStall((report) => {
        say('stall', { report });
        process.exit(0);
      });
      setInterval(() => {}, 1000);
      return;
    }
    if (world.rank === 1) comm.allreduceSync(new Float32Array(3));
    else await comm.allreduce(new Float32Array(3));
  },

  /** Rank 1 dies before the others make a communicator. */
  async absent() {
    const world = await init();
    await world.barrier();
    if (world.rank === 1) process.kill(process.pid, 'SIGKILL');
    await assert.rejects(Communicator.of(world), { code: 'COLL_PEER_LOST', rank: 1 });
    say('heard', { rank: world.rank });
  },
};

await roles[role]();
