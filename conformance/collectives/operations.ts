/** The forms beside the algorithms: types and reductions, v-forms, shards, persistent calls, several in flight, groups. */

import assert from 'node:assert/strict';
import { type Communicator, type ElementType, type Reduction, startAll, type Vector } from '../../src/collectives/index.js';
import { all, type Case } from './stage.js';

const SIZE = 3;
const RANKS = Array.from({ length: SIZE }, (_, r) => r);

const VECTORS: Readonly<Partial<Record<ElementType, (n: number) => Vector>>> = {
  f32: (n) => new Float32Array(n),
  f64: (n) => new Float64Array(n),
  i8: (n) => new Int8Array(n),
  i32: (n) => new Int32Array(n),
  u8: (n) => new Uint8Array(n),
};

const FOLD: Readonly<Record<Reduction, (a: number, b: number) => number>> = {
  sum: (a, b) => a + b,
  avg: (a, b) => a + b,
  prod: (a, b) => a * b,
  min: (a, b) => Math.min(a, b),
  max: (a, b) => Math.max(a, b),
  band: (a, b) => a & b,
  bor: (a, b) => a | b,
};

const value = (rank: number, i: number): number => 1 + ((rank + 3 * i) % 3);

/** own[i] = the one of the greater magnitude. */
function greater(own: Vector, other: Vector): void {
  for (let i = 0; i < own.length; i++) if (Math.abs(Number(other[i])) > Math.abs(Number(own[i]))) own[i] = other[i];
}

export const operationCases: Readonly<Record<string, Case>> = {
  async 'every type and reduction gives what arithmetic gives'(stage) {
    const ranks = await stage.ranks(SIZE);
    for (const [type, make] of Object.entries(VECTORS)) {
      for (const op of Object.keys(FOLD) as Reduction[]) {
        if (type.startsWith('f') && op.startsWith('b')) continue;
        const n = 1001;
        await all(ranks, async (rank) => {
          const data = make(n) as Float64Array;
          for (let i = 0; i < n; i++) data[i] = value(rank.rank, i);
          await rank.allreduce(data, op);
          for (let i = 0; i < n; i++) {
            let wanted = RANKS.map((r) => value(r, i)).reduce(FOLD[op]);
            if (op === 'avg') wanted = type.startsWith('f') ? wanted / SIZE : Math.trunc(wanted / SIZE);
            assert.ok(Math.abs(data[i] - wanted) < 1e-6, `${type} ${op} [${i}]: ${data[i]}, not ${wanted}`);
          }
        });
      }
    }
    await all(ranks, async (rank) => {
      const wide = BigInt64Array.from([2n ** 40n + BigInt(rank.rank)]);
      await rank.allreduce(wide, 'max');
      assert.equal(wide[0], 2n ** 40n + BigInt(SIZE - 1));
      const half = Uint16Array.from([0x3c00, 0x4000]); // 1 and 2
      await rank.allreduce(half, 'avg', { type: 'f16' });
      assert.deepEqual([...half], [0x3c00, 0x4000]);
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
    const counts = RANKS.map((r) => r + 1);
    const total = counts.reduce((a, b) => a + b);
    await all(await stage.ranks(SIZE), async (comm) => {
      const { rank } = comm;
      const whole = new Int32Array(total);
      comm.part(whole, counts).fill(rank + 1);
      await comm.allgather(whole, { counts });
      assert.deepEqual(
        [...whole],
        RANKS.flatMap((r) => Array(r + 1).fill(r + 1)),
      );
      const gathered = rank === 0 ? new Int32Array(total) : undefined;
      await comm.gather(new Int32Array(rank + 1).fill(rank), gathered, 0, { counts });
      const part = new Int32Array(rank + 1);
      await comm.scatter(gathered, part, 0, { counts });
      assert.deepEqual([...part], Array(rank + 1).fill(rank));
      const reduced = await comm.reduceScatter(new Int32Array(total).fill(1), 'sum', { counts });
      assert.deepEqual([...reduced], Array(rank + 1).fill(SIZE));
      const received = new Int32Array(SIZE * (rank + 1));
      await comm.alltoall(Int32Array.from(RANKS.flatMap((d) => Array(d + 1).fill(10 * rank + d))), received, {
        sendCounts: counts,
        receiveCounts: RANKS.map(() => rank + 1),
      });
      assert.deepEqual(
        [...received],
        RANKS.flatMap((s) => Array(rank + 1).fill(10 * s + rank)),
      );
    });
  },

  async 'shards give the same bits among 1, 2 and 4 ranks'(stage) {
    const bits = new Set<string>();
    const [n, shards] = [37, 8];
    for (const size of [1, 2, 4]) {
      await all(await stage.ranks(size), async (comm) => {
        const mine = new Float32Array((n * shards) / size);
        for (let i = 0; i < mine.length; i++) mine[i] = 1 / (1 + comm.rank * mine.length + i);
        const output = new Float32Array(n);
        await comm.allreduceShards(mine, output, shards, 'avg');
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
    await all(await stage.ranks(SIZE), async (comm) => {
      const group = (await comm.split(comm.rank % 2, -comm.rank)) as Communicator;
      const members = RANKS.filter((r) => r % 2 === comm.rank % 2).reverse();
      assert.deepEqual(group.members, members);
      const sum = Int32Array.of(comm.rank);
      await group.allreduce(sum);
      assert.equal(
        sum[0],
        members.reduce((a, b) => a + b),
      );
      await comm.barrier();
      group.close();
      assert.equal(await comm.split(undefined), undefined);
    });
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
