/** One key has nine tenths of the data, and the bound of the memory is small: partitions that are much larger than the others are streamed or cut, never held. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type Session, sum } from '../../../src/dataset/index.js';
import { errorOf, say } from './say.js';

const HOT = 7;

/** Nine of ten rows have the hot key, the others every key once. */
function keyOf(i: number): number {
  return i % 10 === 0 ? 1000 + i : HOT;
}

export async function skewScenario(data: Session, [folder]: readonly string[]): Promise<void> {
  const spilled = () => data.lastReport?.stages.reduce((total, stage) => total + stage.spilledBytes, 0) ?? 0;
  const n = 50_000;
  const wide = 'x'.repeat(150);

  // Rows: the side with the hot key streams past a small table.
  const facts = data.range(0, n, 1, 4).map((i): [number, [number, string]] => [keyOf(i), [i, wide]]);
  const names = data.range(0, n, 1, 2).map((i): [number, string] => [i, `name ${i}`]);
  const total = await facts
    .join(names, 2)
    .map(([, [[i]]]) => i)
    .reduce((a, b) => a + b);
  const joined = Array.from({ length: n }, (_, i) => i).filter((i) => keyOf(i) < n);
  assert.equal(
    total,
    joined.reduce((a, b) => a + b),
  );

  // The hot key is on the side that is held, which is larger than memory: by parts, and a table at a time.
  const many = data.range(0, n, 1, 4).map((i): [number, string] => [keyOf(i), `${wide.slice(0, 60)}${i}`]);
  const few = data.range(0, n, 1, 4).map((i): [number, string] => [i < 2 ? HOT : 1_000_000 + i, wide]);
  const full = many.fullJoin(few, 2);
  assert.equal(await full.filter(([, [a, b]]) => a !== undefined && b !== undefined).count(), 2 * (n - n / 10));
  assert.ok(spilled() > 0, 'it went to disk by parts');
  assert.equal(await full.filter(([, [, b]]) => b === undefined).count(), n / 10, 'what only the left has');
  assert.equal(await full.filter(([, [a]]) => a === undefined).count(), n - 2, 'what only the right has');

  // Combining, sorting.
  const counts = await facts
    .map(([key]): [number, number] => [key, 1])
    .reduceByKey((a, b) => a + b, 2)
    .collect();
  assert.equal(counts.find(([key]) => key === HOT)?.[1], n - n / 10);
  const order = await facts
    .sortByKey({ partitions: 3 })
    .map(([key, [i]]) => key * n + i)
    .collect();
  assert.equal(order.length, n);
  assert.ok(
    order.every((one, i) => i === 0 || order[i - 1] < one),
    'in order, and equal keys as they were',
  );

  // Columns.
  const rows = 400_000;
  const key = Int32Array.from({ length: rows }, (_, i) => keyOf(i));
  const value = Float64Array.from({ length: rows }, (_, i) => i);
  const set = data.columns({ key, value }, 4);
  const weights = data.columns({ key: Int32Array.of(HOT, HOT, 1000, 1010), weight: Float64Array.of(1, 10, 100, 1000) });
  assert.equal(await set.join(weights, 'key', { partitions: 2 }).sum('weight'), 11 * (rows - rows / 10) + 1100);
  const pairs = data.columns({ key: new Int32Array(3000).fill(HOT), left: new Float64Array(3000).fill(1) });
  const others = data.columns({ key: new Int32Array(2000).fill(HOT), right: new Float64Array(2000).fill(1) });
  assert.equal(await pairs.join(others, 'key').count(), 3000 * 2000, 'more pairs than fit are yielded a part at a time');
  const groups = data
    .columns({ key: Int32Array.from({ length: rows }, (_, i) => (i * 7) % 300_000), value }, 4)
    .groupBy('key', { total: sum('value') }, { partitions: 1 });
  assert.equal(await groups.count(), 300_000);
  assert.equal(await groups.sum('total'), (rows * (rows - 1)) / 2);
  const sorted = await set.sortBy('key', { descending: true, partitions: 2 }).collect();
  assert.ok(sorted.key.every((one, i) => i === 0 || sorted.key[i - 1] >= one));
  assert.ok(
    sorted.value.every((one, i) => i === 0 || sorted.key[i - 1] !== sorted.key[i] || sorted.value[i - 1] < one),
    'stable',
  );

  const arrow = join(folder, 'arrow');
  await set.sortBy('key', { partitions: 2 }).saveAsArrow(arrow);
  assert.equal(await data.arrow(arrow).sum('value'), (rows * (rows - 1)) / 2, 'a partition is saved batch by batch');

  const { peakMemory, memoryLimit } = data.usage;
  assert.ok(peakMemory <= memoryLimit, `${peakMemory} bytes were held under a bound of ${memoryLimit}`);

  // The values of one key together are one value, which cannot be split: that is said.
  const huge = await errorOf(() =>
    facts
      .groupByKey(2)
      .map(([key]) => key)
      .count(),
  );
  assert.equal(huge.code, 'DATASET_MEMORY', huge.message);
  assert.match(huge.message, /the values of the key 7 take more than half of the 16777216 bytes/);
  say(data, 'passed', { peakMemory, peakDisk: data.usage.peakDisk });
}
