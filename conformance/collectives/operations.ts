/** The forms beside the algorithms: types and reductions, v-forms, shards, persistent calls, several in flight, groups. */

import assert from 'node:assert/strict';
import { startAll, type Vector } from '../../src/collectives/index.js';
import { groups, shardedMean, typesAndReductions, variableForms, wideAndHalf } from './rank-cases.js';
import { all, type Case } from './stage.js';

const SIZE = 3;
const RANKS = Array.from({ length: SIZE }, (_, r) => r);

/** own[i] = the one of the greater magnitude. */
function greater(own: Vector, other: Vector): void {
  for (let i = 0; i < own.length; i++) if (Math.abs(Number(other[i])) > Math.abs(Number(own[i]))) own[i] = other[i];
}

export const operationCases: Readonly<Record<string, Case>> = {
  async 'every type and reduction gives what arithmetic gives'(stage) {
    await all(await stage.ranks(SIZE), async (rank) => {
      await typesAndReductions(rank, 1001, (data, op) => rank.allreduce(data, op));
      await wideAndHalf(rank);
    });
  },

  async 'a reduction of one’s own runs in allreduce, reduce, reduceScatter and scan'(stage) {
    await all(await stage.ranks(SIZE), async (rank) => {
      const mine = (): Float64Array => Float64Array.of(rank.rank, -rank.rank, 1);
      const everywhere = mine();
      await rank.allreduce(everywhere, greater);
      assert.deepEqual([...everywhere], [SIZE - 1, 1 - SIZE, 1]);
      const rooted = mine();
      await rank.reduce(rooted, greater, 1);
      if (rank.rank === 1) assert.deepEqual([...rooted], [SIZE - 1, 1 - SIZE, 1]);
      const part = await rank.reduceScatter(mine(), greater);
      assert.equal(part[0], [SIZE - 1, 1 - SIZE, 1][rank.rank]);
      const running = mine();
      await rank.scan(running, greater);
      assert.equal(Math.abs(running[1]), rank.rank);
    });
  },

  async 'the v-forms take parts of different lengths'(stage) {
    await all(await stage.ranks(SIZE), variableForms);
  },

  async 'shards give the same bits among 1, 2 and 4 ranks'(stage) {
    const bits = new Set<string>();
    for (const size of [1, 2, 4]) {
      await all(await stage.ranks(size), async (comm) => {
        const output = await shardedMean(comm, 37, 8);
        bits.add(Buffer.from(output.buffer).toString('hex'));
      });
    }
    assert.equal(bits.size, 1);
  },

  async 'every prepared call runs again and again'(stage) {
    await all(await stage.ranks(SIZE), async (comm) => {
      const { rank } = comm;
      const data = new Float32Array(30).fill(rank + 1);
      const [one, three] = [Float32Array.of(rank), new Float32Array(SIZE)];
      const [blocks, swapped] = [new Float32Array(SIZE).fill(rank), new Float32Array(SIZE)];
      const calls = [
        comm.prepareAllreduce(data, 'max'),
        comm.prepareReduceScatter(data, 'max'),
        comm.prepareReduce(data, 'max', 1),
        comm.prepareScan(data, 'max'),
        comm.prepareBroadcast(data, 2),
        comm.prepareAllgather(data),
        comm.prepareGather(one, rank === 0 ? three : undefined),
        comm.prepareScatter(rank === 0 ? three : undefined, one),
        comm.prepareAlltoall(blocks, swapped),
        comm.prepareSendrecv(one, Float32Array.of(0)),
        comm.prepareBarrier(),
      ];
      for (let turn = 0; turn < 3; turn++) for (const call of calls) await call.run();
      assert.deepEqual([...swapped], RANKS);
      assert.equal(one[0], rank);
      assert.equal(data[0], SIZE);
    });
  },

  async 'several calls are in flight, a group starts together, also of two communicators'(stage) {
    const [first, second] = [await stage.ranks(SIZE), await stage.ranks(SIZE)];
    await all(first, async (comm) => {
      const many = Array.from({ length: 6 }, (_, k) => new Float64Array(3000).fill(k));
      await Promise.all(many.map((data) => comm.allreduce(data)));
      for (const [k, data] of many.entries()) assert.equal(data[2999], k * SIZE);
      const other = second[comm.rank];
      const [a, b] = [Float64Array.of(1), Float64Array.of(2)];
      const group = [comm.prepareAllreduce(a), other.prepareAllreduce(b), comm.prepareBarrier()];
      await startAll(group);
      assert.deepEqual([a[0], b[0]], [SIZE, 2 * SIZE]);
      assert.ok(group.every(({ running }) => !running));
      await Promise.all([comm.barrier(), comm.barrier()]);
    });
  },

  async 'split makes groups, ordered by key'(stage) {
    await all(await stage.ranks(SIZE), groups);
  },

  async 'calls note when they began, met and ended'(stage) {
    await all(await stage.ranks(2), async (comm) => {
      const call = comm.prepareAllreduce(new Float32Array(5000));
      call.measure();
      await call.run();
      const { beganMs, metMs, endedMs } = call.times;
      assert.ok(beganMs > 0 && beganMs <= metMs && metMs <= endedMs, `${beganMs} ${metMs} ${endedMs}`);
    });
  },
};
