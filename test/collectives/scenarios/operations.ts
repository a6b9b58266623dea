/** The forms beside the algorithms: types and reductions, v-forms, shards, split, calls of one's own, errors that leave the communicator whole. */

import assert from 'node:assert/strict';
import {
  groups,
  shardedMean,
  typesAndReductions,
  variableForms,
  wideAndHalf,
} from '../../../conformance/collectives/rank-cases.js';
import { type CollectiveError, Communicator } from '../../../src/collectives/index.js';
import { asRank, say } from '../rank.js';

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

  await typesAndReductions(world, 3, (data, op) => world.allreduceSync(data, op));
  await typesAndReductions(world, 5000, (data, op) => world.allreduce(data, op));
  await wideAndHalf(world);
  assert.equal(await code(() => world.allreduce(new Uint16Array(1))), 'COLL_INVALID');
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

  await variableForms(world);

  // Shards: the same bits however many ranks carry them.
  const shards = 12;
  if (shards % size === 0) {
    const output = await shardedMean(world, 5, shards);
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

  await groups(world);

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
