/** What one rank does and expects, for any number of ranks: the cases that hold inside one process and among processes alike. */

import assert from 'node:assert/strict';
import type { Communicator, ElementType, Reduction, Vector } from '../../src/collectives/index.js';

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

const ranksOf = (comm: Communicator): number[] => Array.from({ length: comm.size }, (_, r) => r);

/** Vectors of `n` elements of every type come out of `reduce`, an all-reduce of some form, as arithmetic says. Products that wrap are not looked at. */
export async function typesAndReductions(
  comm: Communicator,
  n: number,
  reduce: (data: Vector, op: Reduction) => unknown,
): Promise<void> {
  const ranks = ranksOf(comm);
  for (const [type, make] of Object.entries(VECTORS)) {
    for (const op of Object.keys(FOLD) as Reduction[]) {
      if (type.startsWith('f') && op.startsWith('b')) continue;
      const data = make(n) as Float64Array;
      for (let i = 0; i < n; i++) data[i] = value(comm.rank, i);
      await reduce(data, op);
      for (let i = 0; i < n; i++) {
        let wanted = ranks.map((r) => value(r, i)).reduce(FOLD[op]);
        if (op === 'prod' && wanted > 127) continue;
        if (op === 'avg') wanted = type.startsWith('f') ? wanted / comm.size : Math.trunc(wanted / comm.size);
        assert.ok(Math.abs(data[i] - wanted) < 1e-6, `${type} ${op} [${i}]: ${data[i]}, not ${wanted}`);
      }
    }
  }
}

/** 64-bit integers, and 16-bit floats whose type is said. */
export async function wideAndHalf(comm: Communicator): Promise<void> {
  const wide = BigInt64Array.from([2n ** 40n + BigInt(comm.rank)]);
  await comm.allreduce(wide, 'max');
  assert.equal(wide[0], 2n ** 40n + BigInt(comm.size - 1));
  const half = Uint16Array.from([0x3c00, 0x4000]); // 1 and 2
  await comm.allreduce(half, 'avg', { type: 'f16' });
  assert.deepEqual([...half], [0x3c00, 0x4000]);
}

/** v-forms: rank r has r + 1 elements. */
export async function variableForms(comm: Communicator): Promise<void> {
  const { rank, size } = comm;
  const ranks = ranksOf(comm);
  const counts = ranks.map((r) => r + 1);
  const total = counts.reduce((a, b) => a + b);
  const parts = (of: (r: number) => number): number[] => ranks.flatMap((r) => Array(r + 1).fill(of(r)));
  const whole = new Int32Array(total);
  comm.part(whole, counts).fill(rank + 1);
  await comm.allgather(whole, { counts });
  assert.deepEqual(
    [...whole],
    parts((r) => r + 1),
  );
  const gathered = rank === 0 ? new Int32Array(total) : undefined;
  await comm.gather(new Int32Array(rank + 1).fill(rank), gathered, 0, { counts });
  if (gathered !== undefined)
    assert.deepEqual(
      [...gathered],
      parts((r) => r),
    );
  const part = new Int32Array(rank + 1);
  await comm.scatter(gathered, part, 0, { counts });
  assert.deepEqual([...part], Array(rank + 1).fill(rank));
  const reduced = await comm.reduceScatter(new Int32Array(total).fill(1), 'sum', { counts });
  assert.deepEqual([...reduced], Array(rank + 1).fill(size));
  // Rank s sends d + 1 elements to rank d.
  const received = new Int32Array(size * (rank + 1));
  await comm.alltoall(Int32Array.from(parts((d) => 10 * rank + d)), received, {
    sendCounts: counts,
    receiveCounts: ranks.map(() => rank + 1),
  });
  assert.deepEqual(
    [...received],
    ranks.flatMap((s) => Array(rank + 1).fill(10 * s + rank)),
  );
}

/** The reduced shards of rank-independent values: the same bits for every number of ranks that divides `shards`. */
export async function shardedMean(comm: Communicator, n: number, shards: number): Promise<Float32Array> {
  const mine = new Float32Array((n * shards) / comm.size);
  for (let i = 0; i < mine.length; i++) mine[i] = 1 / (1 + comm.rank * mine.length + i);
  const output = new Float32Array(n);
  await comm.allreduceShards(mine, output, shards, 'avg');
  return output;
}

/** Groups of even and odd ranks, the highest first; and no group for who gives no colour. */
export async function groups(comm: Communicator): Promise<void> {
  const group = (await comm.split(comm.rank % 2, -comm.rank)) as Communicator;
  const members = ranksOf(comm)
    .filter((r) => r % 2 === comm.rank % 2)
    .reverse();
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
}
