/** The forms beside the algorithms: types and reductions, v-forms, shards, split, calls of one's own, errors that leave the communicator whole. */

import assert from 'node:assert/strict';
import {
  type CollectiveError,
  Communicator,
  type ElementType,
  type Reduction,
  type Vector,
} from '../../../src/collectives/index.js';
import { asRank, say } from '../rank.js';

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

async function code(run: () => unknown): Promise<string> {
  try {
    await run();
    return 'none';
  } catch (error) {
    return (error as CollectiveError).code;
  }
}

asRank(async ({ rank, size, exchange }) => {
  const world = await Communicator.create({ rank, size, exchange, timeoutMs: 30_000 });
  const ranks = Array.from({ length: size }, (_, r) => r);

  for (const [type, make] of Object.entries(VECTORS)) {
    for (const op of Object.keys(FOLD) as Reduction[]) {
      if (type.startsWith('f') && op.startsWith('b')) continue;
      for (const n of [3, 5000]) {
        const data = make(n) as Float64Array;
        for (let i = 0; i < n; i++) data[i] = value(rank, i);
        if (n === 3) world.allreduceSync(data, op);
        else await world.allreduce(data, op);
        for (let i = 0; i < n; i++) {
          let wanted = ranks.map((r) => value(r, i)).reduce(FOLD[op]);
          if (op === 'avg') wanted = type.startsWith('f') ? wanted / size : Math.trunc(wanted / size);
          const exact = make(1) as Float64Array;
          exact[0] = wanted;
          if (op === 'prod' && wanted > 127) continue;
          assert.ok(Math.abs(data[i] - exact[0]) < 1e-6, `${type} ${op} [${i}]: ${data[i]}, not ${exact[0]}`);
        }
      }
    }
  }
  const wide = BigInt64Array.from([2n ** 40n + BigInt(rank)]);
  world.allreduceSync(wide, 'max');
  assert.equal(wide[0], 2n ** 40n + BigInt(size - 1));
  const half = Uint16Array.from([0x3c00, 0x4000]); // 1 and 2
  world.allreduceSync(half, 'avg', { type: 'f16' });
  assert.deepEqual([...half], [0x3c00, 0x4000]);
  assert.equal(await code(() => world.allreduce(half)), 'COLL_INVALID');
  assert.equal(await code(() => world.allreduce(new Float32Array(1), 'bor')), 'COLL_INVALID');

  // A reduction of one's own: the longest of all.
  const own = Float64Array.of(rank, rank);
  await world.allreduce(own, (a, b) => {
    for (let i = 0; i < a.length; i++) a[i] = Math.max(Math.abs(Number(a[i])), Math.abs(Number(b[i])));
  });
  assert.deepEqual([...own], [size - 1, size - 1]);

  // Even forms, in the entry slots and beyond them.
  for (const n of [1, 5, 30_000]) {
    const mine = Int32Array.from({ length: n }, (_, i) => 1000 * rank + (i % 1000));
    const expected = (r: number) => Int32Array.from({ length: n }, (_, i) => 1000 * r + (i % 1000));
    const root = size - 1;
    const whole = rank === root ? new Int32Array(n * size) : undefined;
    await world.gather(mine, whole, root);
    if (whole !== undefined) for (const r of ranks) assert.deepEqual(whole.subarray(r * n, (r + 1) * n), expected(r));
    const back = new Int32Array(n);
    world.scatterSync(whole, back, root);
    assert.deepEqual(back, expected(rank));
    const input = Int32Array.from({ length: n * size }, (_, i) => 10_000 * rank + 1000 * Math.floor(i / n) + (i % n));
    for (let round = 0; round < 2; round++) {
      const output = new Int32Array(n * size);
      world.alltoallSync(input, output);
      const wanted = Int32Array.from({ length: n * size }, (_, i) => 10_000 * Math.floor(i / n) + 1000 * rank + (i % n));
      assert.deepEqual(output, wanted);
    }
    const running = Int32Array.from({ length: n }, (_, i) => rank + (i % 3));
    world.scanSync(running);
    const upTo = (rank * (rank + 1)) / 2;
    assert.deepEqual(
      running,
      Int32Array.from({ length: n }, (_, i) => upTo + (rank + 1) * (i % 3)),
    );
  }

  // v-forms: rank r has r + 1 elements.
  const counts = ranks.map((r) => r + 1);
  const total = counts.reduce((a, b) => a + b);
  const all = new Int32Array(total);
  world.part(all, counts).fill(rank + 1);
  await world.allgather(all, { counts });
  assert.deepEqual(
    [...all],
    ranks.flatMap((r) => Array(r + 1).fill(r + 1)),
  );
  const gathered = rank === 0 ? new Int32Array(total) : undefined;
  await world.gather(new Int32Array(rank + 1).fill(rank), gathered, 0, { counts });
  if (gathered !== undefined)
    assert.deepEqual(
      [...gathered],
      ranks.flatMap((r) => Array(r + 1).fill(r)),
    );
  const part = new Int32Array(rank + 1);
  await world.scatter(gathered, part, 0, { counts });
  assert.deepEqual([...part], Array(rank + 1).fill(rank));
  const reduced = await world.reduceScatter(new Int32Array(total).fill(1), 'sum', { counts });
  assert.deepEqual([...reduced], Array(rank + 1).fill(size));
  // Rank s sends d + 1 elements to rank d.
  const received = new Int32Array(size * (rank + 1));
  await world.alltoall(Int32Array.from(ranks.flatMap((d) => Array(d + 1).fill(10 * rank + d))), received, {
    sendCounts: counts,
    receiveCounts: ranks.map(() => rank + 1),
  });
  assert.deepEqual(
    [...received],
    ranks.flatMap((s) => Array(rank + 1).fill(10 * s + rank)),
  );

  // Shards: the same bits however many ranks carry them.
  const shards = 12;
  if (shards % size === 0) {
    const n = 5;
    const mine = new Float32Array((n * shards) / size);
    for (let i = 0; i < mine.length; i++) mine[i] = 1 / (1 + rank * mine.length + i);
    const output = new Float32Array(n);
    await world.allreduceShards(mine, output, shards, 'avg');
    say({ shards: [...output] });
  }

  // Persistent form.
  const again = new Float32Array(2000).fill(rank);
  const prepared = world.prepareAllreduce(again, 'max');
  prepared.runSync();
  await prepared.run();
  assert.equal(again[1999], size - 1);

  // Several in flight end in order.
  const many = ranks.map(() => new Float64Array(3000).fill(1));
  await Promise.all(many.map((data) => world.allreduce(data)));
  for (const data of many) assert.equal(data[2999], size);

  // Groups: even and odd ranks, the highest first.
  const group = await world.split(rank % 2, -rank);
  const members = ranks.filter((r) => r % 2 === rank % 2).reverse();
  assert.deepEqual(group?.members, members);
  const sum = Int32Array.of(rank);
  group?.allreduceSync(sum);
  assert.equal(
    sum[0],
    members.reduce((a, b) => a + b),
  );
  await world.barrier();
  group?.close();
  assert.equal(await world.split(undefined), undefined);

  // Ranks that call different things all hear of it, and go on.
  if (size > 1) {
    const message = await world.allreduce(new Float32Array(rank === 1 ? 4 : 3)).then(
      () => 'nothing happened',
      (error: CollectiveError) => `${error.code} ${error.message}`,
    );
    assert.match(message, /^COLL_MISMATCH rank \d called allreduce\(\d x f32, sum.*rank \d called allreduce\(\d x f32, sum/);
    assert.match(message, rank === 1 ? /rank 0 called allreduce\(3 x f32/ : /rank 1 called allreduce\(4 x f32/);
    assert.equal(message.split(/operations\.js:\d+:\d+/).length, 3, `both places are named: ${message}`);
    // In the synchronous form too.
    try {
      world.allreduceSync(new Float32Array(rank === 1 ? 4 : 3));
      assert.fail('nothing happened');
    } catch (error) {
      assert.equal((error as CollectiveError).code, 'COLL_MISMATCH', String(error));
      assert.equal(String(error).split(/operations\.js:\d+:\d+/).length, 3, String(error));
      assert.match(String(error), /differ in elements/);
    }
    const other = await code(() => (rank === 0 ? world.broadcast(new Int32Array(9000)) : world.allreduce(new Int32Array(9000))));
    assert.equal(other, 'COLL_MISMATCH');
  }
  await world.barrier();
  world.close();
  assert.equal(await code(() => world.barrier()), 'COLL_CLOSED');
  say({ done: true });
});
