/** Columns and records, against loops over the same arrays. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tableFromArrays, tableToIPC } from 'apache-arrow';
import { count, max, mean, min, type Session, sum } from '../../../src/dataset/index.js';
import { errorOf, say } from './say.js';

export async function columnsScenario(data: Session, [folder]: readonly string[]): Promise<void> {
  const n = 50_000;
  const key = Int32Array.from({ length: n }, (_, i) => (Math.imul(i, 0x9e3779b1) >>> 8) % 997);
  const value = Float64Array.from({ length: n }, (_, i) => (i * 31) % 1000);
  const set = data.columns({ key, value }, 5);

  const groups = new Map<number, number[]>();
  for (let i = 0; i < n; i++) {
    const list = groups.get(key[i]);
    if (list) list.push(value[i]);
    else groups.set(key[i], [value[i]]);
  }
  const got = await set
    .groupBy('key', { total: sum('value'), rows: count(), least: min('value'), most: max('value'), average: mean('value') })
    .collect();
  assert.equal(got.key.length, groups.size);
  for (let i = 0; i < got.key.length; i++) {
    const values = groups.get(got.key[i]) as number[];
    const total = values.reduce((a, b) => a + b);
    assert.deepEqual(
      [got.total[i], got.rows[i], got.least[i], got.most[i], got.average[i]],
      [total, values.length, Math.min(...values), Math.max(...values), total / values.length],
    );
  }

  const weights = data.columns({
    key: Int32Array.from({ length: 500 }, (_, i) => i * 2),
    weight: Float64Array.from({ length: 500 }, (_, i) => i),
  });
  const joined = set.join(weights, 'key');
  let expected = 0;
  for (const k of key) if (k % 2 === 0 && k < 1000) expected += k / 2;
  assert.equal(await joined.sum('weight'), expected);
  assert.equal(await joined.count(), key.filter((k) => k % 2 === 0).length);

  const sorted = await set.sortBy('value', { descending: true }).collect();
  assert.deepEqual(sorted.value, Float64Array.from(value).sort().reverse());
  const some = Float64Array.of(3, Number.NaN, -1, Number.POSITIVE_INFINITY, 2);
  const down = await data.columns({ some }).sortBy('some', { descending: true }).collect();
  assert.deepEqual([...down.some], [Number.POSITIVE_INFINITY, 3, 2, -1, Number.NaN], 'what is no number comes last');
  const filtered = set
    .filter(({ value: values }, row) => values[row] > 990)
    .withColumn('twice', 'f64', ({ value: values }) => values.map((v) => v * 2));
  assert.equal(
    await filtered.sum('twice'),
    value.filter((v) => v > 990).reduce((a, b) => a + 2 * b, 0),
  );
  assert.deepEqual(await set.select('value').rows().take(2), [{ value: value[0] }, { value: value[1] }]);
  const back = data
    .range(100)
    .map((i) => ({ id: i, big: BigInt(i) }))
    .columns({ id: 'u32', big: 'i64' });
  assert.equal(await back.sum('big'), 4950);

  await set.saveAsArrow(join(folder, 'arrow'));
  assert.equal(
    await data.arrow(join(folder, 'arrow')).sum('value'),
    value.reduce((a, b) => a + b),
  );

  const parquet = join(folder, 'parquet');
  const people = [
    { id: 1, name: 'Ann' },
    { id: 2, name: 'Bob' },
  ];
  await data.parallelize(people, 2).saveAsParquet(parquet);
  assert.deepEqual(await data.parquet(parquet).collect(), people);
  assert.deepEqual(readdirSync(parquet).sort(), ['_SUCCESS', 'part-00000.parquet', 'part-00001.parquet']);
  const other = await errorOf(() => data.parquetColumns(parquet, { id: 'i32' }).count());
  assert.equal(other.code, 'DATASET_SCHEMA', other.message);

  const stream = join(folder, 'stream.arrow');
  if (data.isDriver)
    writeFileSync(stream, tableToIPC(tableFromArrays({ a: Int32Array.of(1, 2, 3), b: ['x', 'y', 'x'] }), 'stream'));
  await data.world.barrier();
  assert.equal(await data.arrow(stream, { columns: ['a'] }).sum('a'), 6, 'a stream has no footer');
  assert.deepEqual(
    (await data.arrowRows<{ b: string }>(stream).collect()).map(({ b }) => b),
    ['x', 'y', 'x'],
  );
  if (data.isDriver) writeFileSync(join(folder, 'broken.arrow'), 'ARROW1\0\0 and then nothing of the kind');
  await data.world.barrier();
  const broken = await errorOf(async () => data.arrow(join(folder, 'broken.arrow')).count());
  assert.equal(broken.code, 'DATASET_INPUT', broken.message);

  // Schemas that do not fit.
  const wrong = await errorOf(async () =>
    set.join(data.columns({ key: Float64Array.of(1), weight: Float64Array.of(1) }) as never, 'key' as never),
  );
  assert.equal(wrong.code, 'DATASET_SCHEMA');
  const text = await errorOf(() =>
    data
      .parallelize([{ id: 'x' }] as never[])
      .columns({ id: 'f64' })
      .count(),
  );
  assert.equal(text.code, 'DATASET_SCHEMA');

  // Records.
  const records = 20_000;
  const bytes = new Uint8Array(records * 20);
  for (let i = 0; i < bytes.length; i++) bytes[i] = (Math.imul(i + 1, 0x9e3779b1) >>> 13) & 0xff;
  if (data.isDriver) writeFileSync(join(folder, 'records'), bytes);
  await data.world.barrier();
  const out = join(folder, 'sorted');
  await data
    .binaryRecords(join(folder, 'records'), { width: 20, key: 6, splitBytes: 65_600 })
    .sortByKey({ partitions: 5 })
    .saveAsBinary(out);
  const result = Buffer.concat(
    readdirSync(out)
      .filter((name) => name.startsWith('part'))
      .sort()
      .map((name) => readFileSync(join(out, name))),
  );
  const list = Array.from({ length: records }, (_, i) => Buffer.from(bytes.subarray(i * 20, i * 20 + 20)));
  list.sort((a, b) => Buffer.compare(a.subarray(0, 6), b.subarray(0, 6)));
  assert.ok(result.equals(Buffer.concat(list)), 'records are in the order of their keys, equal ones as they were');
  const odd = await errorOf(() => data.binaryRecords(join(folder, 'records'), { width: 23 }).count());
  assert.match(odd.message, /no multiple of the 23 bytes/);
  say(data, 'passed', { usage: data.usage.shuffle });
}
