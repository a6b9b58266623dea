/** Ranks of a job that `verbena run` starts: the first argument says what they do. */

import assert from 'node:assert/strict';
import { Communicator } from '../../../src/collectives/index.js';
import { init } from '../../../src/launch/index.js';

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
