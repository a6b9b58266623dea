/** What users run into: functions that throw, inputs that are not there, plans that differ, slow tasks. */

import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ActionOptions, Session } from '../../../src/dataset/index.js';
import { errorOf, say } from './say.js';

export async function failuresScenario(data: Session, [folder]: readonly string[]): Promise<void> {
  const path = join(folder, 'lines.txt');
  const lines = Array.from({ length: 5000 }, (_, i) => (i === 3210 ? 'broken' : `${i}`));
  if (data.isDriver) writeFileSync(path, `${lines.join('\n')}\n`);
  await data.world.barrier();

  const thrown = await errorOf(() =>
    data
      .textFile(path)
      .map((line) => {
        if (line === 'broken') throw new TypeError('cannot read this line');
        return Number(line);
      })
      .reduce((a, b) => a + b),
  );
  assert.equal(thrown.code, 'DATASET_USER');
  const byte = lines.slice(0, 3210).reduce((sum, line) => sum + line.length + 1, 0);
  assert.ok(thrown.message.includes(`${path}, byte ${byte}: 'broken'`), `the record's place: ${thrown.message}`);
  assert.match(thrown.message, /failed 3 times/);
  assert.match(thrown.message, /given to map at .*failures\.(ts|js):\d+/);
  assert.match(thrown.message, /TypeError: cannot read this line\n +at .*failures\.(ts|js):\d+/, 'the stack of the user');

  // In the middle of a chain that runs as one loop: the record is the one that this function was given.
  const chained = await errorOf(() =>
    data
      .range(0, 100, 1, 1)
      .filter((n) => n % 2 === 0)
      .flatMap(function* (n) {
        yield* [n, n + 1];
      })
      .map((n) => {
        if (n === 41) throw new Error('not forty-one');
        return [n % 3, n] as const;
      })
      .reduceByKey((a, b) => a + b)
      .collect(),
  );
  assert.match(chained.message, /given to map at .*failures\.(ts|js):\d+\S* threw in partition 0, at its record 41, .*: 41\n/);
  assert.match(chained.message, /last on rank \d.*Error: not forty-one\n +at .*failures\.(ts|js):\d+/s);

  const combined = await errorOf(() =>
    data
      .range(100)
      .map((n): [number, number] => [n % 3, n])
      .reduceByKey(() => {
        throw new Error('no combining today');
      })
      .collect(),
  );
  assert.match(combined.message, /given to reduceByKey .*no combining today/s);

  const acted = await errorOf(() =>
    data.textFile(path).forEach((line) => {
      if (line === 'broken') throw new RangeError('not this one');
    }),
  );
  assert.match(acted.message, /given to forEach at .*failures\.(ts|js):\d+.* byte \d+: 'broken'\nRangeError: not this one/s);
  const unsortable = await errorOf(() =>
    data
      .textFile(path)
      .sortBy((line) => {
        if (line === 'broken') throw new Error('no key');
        return line;
      })
      .count(),
  );
  assert.match(unsortable.message, /given to sortBy .*'broken'\nError: no key/s);
  const odd = await errorOf(() => data.parallelize([{ a: 1 }, { a: 2, b: 3 }], 1).saveAsCsv(join(folder, 'odd')));
  assert.equal(odd.code, 'DATASET_SCHEMA');
  assert.match(odd.message, /a field b/);
  assert.deepEqual(readdirSync(join(folder, 'odd')), [], 'nothing is left');
  const notNumbers = await errorOf(() => data.csv(path, { header: false, columns: ['n'], types: { n: 'number' } }).count());
  assert.match(notNumbers.message, /has no number as n: broken/);

  const missing = await errorOf(() => data.textFile(join(folder, 'nowhere.txt')).count());
  assert.equal(missing.code, 'DATASET_INPUT');
  assert.match(missing.message, /nowhere\.txt/);
  const taken = await errorOf(() => data.range(3).saveAsText(folder));
  assert.equal(taken.code, 'DATASET_OUTPUT');
  assert.match(taken.message, /not empty/);
  const impossible = await errorOf(() => data.range(3).saveAsText('/proc/verbena-output'));
  assert.equal(impossible.code, 'DATASET_OUTPUT', impossible.message);
  assert.match(impossible.message, /the output folder \/proc\/verbena-output/);
  const bad = await errorOf(() => data.csv(path, { header: false, columns: ['a', 'b'] }).count());
  assert.equal(bad.code, 'DATASET_SCHEMA');

  // Ranks that build different plans.
  const differ = await errorOf(() =>
    (data.rank === 1
      ? data
          .range(10)
          .map((n) => n)
          .filter((n) => n > 1)
      : data.range(10).map((n) => n)
    ).collect(),
  );
  assert.equal(differ.code, data.size > 1 ? 'DATASET_PLAN' : 'none', differ.message);

  // A failure that passes: the second attempt succeeds, and what the first added does not count.
  const seen = data.accumulator('seen');
  let isFirst = true;
  const n = await data
    .range(0, 1000, 1, 4)
    .map((i) => {
      seen.add(1);
      if (isFirst && i % 250 === 249) {
        isFirst = false;
        throw new Error('once only');
      }
      return i;
    })
    .count();
  assert.equal(n, 1000);
  assert.equal(seen.value, 1000, 'failed attempts add nothing');

  await abortedActions(data, folder);

  // The first attempt of one task hangs: another rank runs it too, and its result counts.
  const slow = await data
    .range(0, 8, 1, 8)
    .mapPartitions(async function* (rows, partition) {
      if (partition === 3 && isFirstHere(join(folder, 'stuck')))
        await new Promise((resolve) => setTimeout(resolve, 60_000).unref());
      yield* rows;
    })
    .collect();
  assert.deepEqual(slow, [0, 1, 2, 3, 4, 5, 6, 7]);
  assert.ok((data.lastReport?.stages[0].speculative ?? 0) >= 1, 'it was started twice');
  assert.equal(await data.range(100).count(), 100, 'and the rank that hung takes tasks again');
  say(data, 'passed', { report: data.lastReport });
}

/** The signal of rank 1 ends actions of all ranks, whatever they are at: a stage, the sample of a sort, output; or before they began. */
async function abortedActions(data: Session, folder: string): Promise<void> {
  const endless = () => data.range(0, 1e12, 1, data.size);
  const output = join(folder, 'aborted');
  const actions: ((options: ActionOptions) => Promise<unknown>)[] = [
    (options) => endless().count(options),
    (options) =>
      endless()
        .sortBy((n) => -n)
        .take(3, options),
    (options) => endless().saveAsText(output, options),
  ];
  for (const action of actions) {
    for (const delayMs of [0, 30]) {
      const signal = delayMs === 0 ? AbortSignal.abort(new Error('enough')) : AbortSignal.timeout(delayMs);
      const ended = await errorOf(() => action(data.rank === 1 ? { signal } : {}));
      if (data.rank === 1) assert.equal(ended.message, signal.reason.message);
      else
        assert.match(
          `${ended.code} ${ended.message}`,
          /^DATASET_ABORTED rank 1 ended the action: (Error: enough|TimeoutError: )/,
        );
    }
  }
  assert.deepEqual(readdirSync(output), [], 'nothing is left');
  const { signal } = new AbortController();
  assert.equal(await data.range(100).count({ signal }), 100, 'and ranks are still in step');
}

/** True for the first caller of all ranks. */
function isFirstHere(path: string): boolean {
  try {
    writeFileSync(path, '', { flag: 'wx' });
    return true;
  } catch {
    return false;
  }
}
