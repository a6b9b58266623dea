import assert from 'node:assert/strict';
import { test } from 'node:test';
import { windowOf } from '../schedule/contract.js';
import { interpret, type NodeMemory } from '../schedule/interpreter.js';
import type { Schedule } from '../schedule/schedule.js';
import { countsSplit, evenSplit, rangeLength, windowLength } from '../schedule/split.js';
import { findAlgorithm } from './registry.js';
import { canonicalCut } from './sharded-allreduce/canonical-tree.js';

const ELEMENTS = 53;
const SEED = Number(process.env['VERBENA_SEED'] ?? 7);

/** Numbers of very different size, so that almost every order of additions gives other bits. */
function shardValues(shards: number): Float32Array[] {
  let state = SEED;
  const next = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  return Array.from({ length: shards }, () =>
    Float32Array.from({ length: ELEMENTS }, () => (next() - 0.5) * 10 ** Math.floor(next() * 9)),
  );
}

/** The sum along the canonical tree, in plain f32. */
function canonicalSum(values: readonly Float32Array[], lo = 0, hi = values.length): Float32Array {
  if (hi - lo === 1) return values[lo].slice();
  const mid = canonicalCut(lo, hi);
  const [left, right] = [canonicalSum(values, lo, mid), canonicalSum(values, mid, hi)];
  return left.map((x, k) => x + right[k]);
}

function run(schedule: Schedule, values: readonly Float32Array[], choose: (n: number) => number): Float32Array[] {
  const { size, contributions: shards } = schedule;
  const part = evenSplit(ELEMENTS, size);
  const split = countsSplit(Array.from({ length: shards * size }, (_, chunk) => rangeLength(part, chunk % size, 1)));
  const memory: NodeMemory[] = Array.from({ length: size }, (_, rank) => ({
    buffers: schedule.buffers.map((_, id) => new Float32Array(windowLength(split, windowOf(schedule, id, rank)))),
    splits: schedule.buffers.map(() => split),
  }));
  const share = shards / size;
  memory.forEach(({ buffers }, rank) => {
    for (let k = 0; k < share; k++) buffers[0].set(values[rank * share + k], k * ELEMENTS);
  });
  interpret(schedule, memory, { choose });
  return memory.map(({ buffers }) => buffers[1] as Float32Array);
}

for (const shards of [1, 8, 12, 60]) {
  test(`${shards} shards: the bits are those of the canonical tree for every number of ranks that divides them (seed ${SEED})`, () => {
    const values = shardValues(shards);
    const wanted = new Uint8Array(canonicalSum(values).buffer);
    for (let size = 1; size <= shards; size++) {
      if (shards % size !== 0) continue;
      const schedule = findAlgorithm('sharded-allreduce', 'canonical-tree').schedule({ size, shards, bytes: 0 });
      for (const choose of [(n: number) => n - 1, () => 0]) {
        for (const result of run(schedule, values, choose)) {
          const bits = new Uint8Array(result.buffer, result.byteOffset, result.byteLength);
          assert.deepEqual(bits, wanted, `p=${size}`);
        }
      }
    }
  });
}

test('adding shard after shard gives other bits: the data is able to tell', () => {
  const values = shardValues(12);
  const naive = values.reduce((sum, v) => sum.map((x, k) => x + v[k]), new Float32Array(ELEMENTS));
  assert.notDeepEqual(new Uint8Array(naive.buffer), new Uint8Array(canonicalSum(values).buffer));
});

test('a number of ranks that does not divide the shards is refused', () => {
  const algorithm = findAlgorithm('sharded-allreduce', 'canonical-tree');
  assert.throws(
    () => algorithm.schedule({ size: 5, shards: 12, bytes: 0 }),
    /shards \(12\) must be a multiple of the ranks \(5\)/,
  );
});
