/** More data than the bound of the memory: it goes to disk, and the results are the same. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Session } from '../../../src/dataset/index.js';
import { say } from './say.js';

export async function memoryScenario(data: Session, [folder]: readonly string[]): Promise<void> {
  const n = 60_000;
  const wide = (i: number): [string, { id: number; text: string }] => [
    `key ${(i * 7919) % n}`,
    { id: i, text: 'some text that takes room '.repeat(6) },
  ];
  const rows = data.range(0, n, 1, 4).map(wide);

  // One key has a third of all values: the partition is much larger than the others.
  const skewed = data.range(0, n, 1, 4).map((i): [string, string] => [i % 3 === 0 ? 'hot' : `k${i}`, `${'v'.repeat(40)}${i}`]);
  const spilled = { sort: 0, group: 0 };
  const sorted = await rows
    .sortByKey({ partitions: 2 })
    .map(([key]) => key)
    .collect();
  spilled.sort = data.lastReport?.stages.reduce((sum, stage) => sum + stage.spilledBytes, 0) ?? 0;
  const expected = Array.from({ length: n }, (_, i) => `key ${i}`).sort();
  assert.deepEqual(sorted, expected);
  const counts = await skewed
    .groupByKey(2)
    .map(([key, values]): [string, number] => [key, values.length])
    .collect();
  spilled.group = data.lastReport?.stages.reduce((sum, stage) => sum + stage.spilledBytes, 0) ?? 0;
  assert.equal(counts.length, 1 + (n * 2) / 3);
  assert.equal(counts.find(([key]) => key === 'hot')?.[1], n / 3);
  assert.ok(spilled.sort > 0 && spilled.group > 0, `both went to disk: ${JSON.stringify(spilled)}`);

  // Words: more different ones than a table may hold are counted in passes.
  const words = 250_000;
  if (data.isDriver)
    writeFileSync(join(folder, 'words'), Array.from({ length: 2 * words }, (_, i) => `word-${i % words}`).join(' '));
  await data.world.barrier();
  const counted = await data
    .textFile(join(folder, 'words'))
    .countWords(1)
    .map(([, count]): [number, number] => [count, 1])
    .reduceByKey((a, b) => a + b)
    .collect();
  assert.deepEqual(counted, [[2, words]]);

  // Records: 30 MB under a bound of 16 MiB a rank, in one partition, so that sorted pieces are merged from disk.
  const records = 300_000;
  if (data.isDriver) {
    const bytes = Buffer.alloc(records * 100);
    for (let i = 0; i < records; i++) bytes.writeUInt32BE(Math.imul(i, 0x9e3779b1) >>> 0, i * 100);
    writeFileSync(join(folder, 'records'), bytes);
  }
  await data.world.barrier();
  const out = join(folder, 'sorted');
  await data.binaryRecords(join(folder, 'records'), { width: 100, key: 10 }).sortByKey({ partitions: 1 }).saveAsBinary(out);
  if (data.isDriver) {
    const [part] = readdirSync(out).filter((name) => name.startsWith('part'));
    const result = readFileSync(join(out, part));
    assert.equal(result.length, records * 100);
    for (let i = 1; i < records; i++) assert.ok(result.readUInt32BE((i - 1) * 100) < result.readUInt32BE(i * 100));
  }
  const files = data.usage.shuffle.bytesInFiles;
  say(data, 'passed', { spilled, files, peakMemory: data.usage.peakMemory, peakDisk: data.usage.peakDisk });
}
