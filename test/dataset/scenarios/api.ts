/** Every operator on rows, against plain JavaScript on the same values. */

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dag, mapReduce, type Session } from '../../../src/dataset/index.js';
import { say } from './say.js';

/** Rows as a sorted list of JSON, so that order does not matter. */
function sorted(rows: readonly unknown[]): string[] {
  return rows.map((row) => JSON.stringify(row)).sort();
}

export async function apiScenario(data: Session, [folder]: readonly string[]): Promise<void> {
  const text = join(folder, 'text');
  const lines = Array.from({ length: 3000 }, (_, i) => `line ${i} ${'x'.repeat(i % 50)} ünï ${i % 13}`);
  if (data.isDriver) {
    mkdirSync(text);
    writeFileSync(join(text, 'a.txt'), `${lines.slice(0, 1000).join('\n')}\n`);
    writeFileSync(join(text, 'b.txt'), lines.slice(1000).join('\r\n'));
    writeFileSync(join(folder, 'people.csv'), 'name,age,note\nAnn,41,"likes ""quotes"", commas"\nBob,,plain\n');
    writeFileSync(join(folder, 'rows.ndjson'), '{"a":1}\n\n{"a":[2]}\n"text"\n');
  }
  await data.world.barrier();
  const numbers = Array.from({ length: 5000 }, (_, i) => (i * 7919) % 1009);
  const set = data.parallelize(numbers, 7);

  // Sources.
  assert.deepEqual(await data.textFile(text, { splitBytes: 65_536, partitions: 9 }).collect(), lines);
  assert.deepEqual(await data.csv(join(folder, 'people.csv'), { types: { age: 'number' } }).collect(), [
    { name: 'Ann', age: 41, note: 'likes "quotes", commas' },
    { name: 'Bob', age: Number.NaN, note: 'plain' },
  ]);
  assert.deepEqual(await data.ndjson(join(folder, 'rows.ndjson')).collect(), [{ a: 1 }, { a: [2] }, 'text']);
  assert.deepEqual(await data.range(5, 12, 2).collect(), [5, 7, 9, 11]);
  assert.deepEqual(await data.parallelize([], 3).collect(), []);

  // Narrow operators.
  assert.deepEqual(
    await set
      .map((n) => n * 2)
      .filter((n) => n % 3 === 0)
      .flatMap((n) => [n, -n])
      .collect(),
    numbers
      .map((n) => n * 2)
      .filter((n) => n % 3 === 0)
      .flatMap((n) => [n, -n]),
  );
  const perPartition = await set
    .mapPartitions(async function* (rows) {
      let sum = 0;
      for await (const n of rows) sum += n;
      yield sum;
    })
    .collect();
  assert.equal(perPartition.length, 7);
  assert.equal(
    perPartition.reduce((a, b) => a + b),
    numbers.reduce((a, b) => a + b),
  );
  const sample = await set.sample(0.2, 42).collect();
  assert.ok(sample.length > 800 && sample.length < 1200, `a fifth of 5000 is about 1000, got ${sample.length}`);
  assert.deepEqual(await set.sample(0.2, 42).collect(), sample, 'the same seed gives the same sample');
  assert.deepEqual(await set.coalesce(2).collect(), numbers);
  assert.deepEqual(await set.union(data.parallelize([1, 2])).collect(), [...numbers, 1, 2]);
  assert.deepEqual(sorted(await set.repartition(5).collect()), sorted(numbers));

  // Shuffles.
  const pairs = set.map((n): [number, number] => [n % 10, n]);
  const groups = new Map<number, number[]>();
  for (const n of numbers) groups.set(n % 10, [...(groups.get(n % 10) ?? []), n]);
  assert.deepEqual(
    sorted(await pairs.reduceByKey((a, b) => a + b).collect()),
    sorted([...groups].map(([key, values]) => [key, values.reduce((a, b) => a + b)])),
  );
  assert.deepEqual(sorted(await pairs.groupByKey(3).collect()), sorted([...groups]), 'values of a key come in their order');
  assert.deepEqual(
    sorted(
      await pairs
        .aggregateByKey(
          () => ({ n: 0, most: 0 }),
          (a, n) => ({ n: a.n + 1, most: Math.max(a.most, n) }),
          (a, b) => ({ n: a.n + b.n, most: Math.max(a.most, b.most) }),
        )
        .collect(),
    ),
    sorted([...groups].map(([key, values]) => [key, { n: values.length, most: Math.max(...values) }])),
  );
  assert.deepEqual(sorted(await set.distinct().collect()), sorted([...new Set(numbers)]));
  assert.deepEqual(
    sorted(
      await data
        .parallelize([
          { a: 1, b: 2 },
          { b: 2, a: 1 },
          { a: 1, b: 3 },
        ])
        .distinct()
        .collect(),
    ).length,
    2,
  );
  const ordered = [...numbers].sort((a, b) => a - b);
  assert.deepEqual(await set.sortBy((n) => n).collect(), ordered);
  assert.deepEqual(await set.sortBy((n) => n, { descending: true, partitions: 3 }).collect(), [...ordered].reverse());
  assert.deepEqual(
    (await pairs.sortByKey().collect()).map(([key]) => key),
    numbers.map((n) => n % 10).sort((a, b) => a - b),
  );
  const left = data.parallelize<[string, number]>([
    ['a', 1],
    ['b', 2],
    ['b', 3],
    ['c', 4],
  ]);
  const right = data.parallelize<[string, string]>([
    ['b', 'x'],
    ['b', 'y'],
    ['c', 'z'],
    ['d', 'w'],
  ]);
  const inner = [
    ['b', [2, 'x']],
    ['b', [2, 'y']],
    ['b', [3, 'x']],
    ['b', [3, 'y']],
    ['c', [4, 'z']],
  ];
  assert.deepEqual(sorted(await left.join(right).collect()), sorted(inner));
  assert.deepEqual(sorted(await left.leftJoin(right).collect()), sorted([...inner, ['a', [1, undefined]]]));
  assert.deepEqual(sorted(await left.rightJoin(right).collect()), sorted([...inner, ['d', [undefined, 'w']]]));
  assert.deepEqual(
    sorted(await left.fullJoin(right).collect()),
    sorted([...inner, ['a', [1, undefined]], ['d', [undefined, 'w']]]),
  );
  assert.deepEqual(
    sorted(await left.cogroup(right).collect()),
    sorted([
      ['a', [[1], []]],
      [
        'b',
        [
          [2, 3],
          ['x', 'y'],
        ],
      ],
      ['c', [[4], ['z']]],
      ['d', [[], ['w']]],
    ]),
  );

  // Actions.
  assert.equal(await set.count(), numbers.length);
  assert.deepEqual(await set.take(10), numbers.slice(0, 10));
  assert.deepEqual(await set.top(5), [...ordered].reverse().slice(0, 5));
  assert.equal(
    await set.reduce((a, b) => a + b),
    numbers.reduce((a, b) => a + b),
  );
  assert.equal((await set.countByValue()).get(0), numbers.filter((n) => n === 0).length);
  const words = await data.textFile(text, { partitions: 5, splitBytes: 65_536 }).countWords().collect();
  const counted = new Map<string, number>();
  for (const word of lines.join('\n').split(/\s+/)) counted.set(word, (counted.get(word) ?? 0) + 1);
  assert.deepEqual(sorted(words), sorted([...counted]));

  // Accumulators, broadcast values, caches.
  const odd = data.accumulator('odd');
  const list = data.accumulator<number[]>('large', [], (a, b) => [...a, ...b]);
  await set.forEach((n) => {
    if (n % 2 === 1) odd.add(1);
    if (n > 1006) list.add([n]);
  });
  assert.equal(odd.value, numbers.filter((n) => n % 2 === 1).length);
  assert.deepEqual([...list.value].sort(), numbers.filter((n) => n > 1006).sort());
  const table = await data.broadcast(() => ({ made: 'once', pid: process.pid }));
  assert.equal(table.value.pid, data.world.members[0].pid, 'the driver made it');
  let computed = 0;
  const cached = set
    .map((n) => {
      computed++;
      return n + 1;
    })
    .cache();
  await cached.count();
  const once = computed;
  assert.equal(await cached.count(), numbers.length);
  assert.equal(computed, once, 'a cached partition is not computed again');
  assert.ok((data.lastReport?.stages[0].local ?? 0) > 0, 'and its tasks run where it is');

  // Output.
  const out = join(folder, 'out');
  await set.saveAsText(out);
  const files = readdirSync(out).sort();
  assert.deepEqual(files, ['_SUCCESS', ...Array.from({ length: 7 }, (_, i) => `part-0000${i}`)]);
  assert.equal(files.map((name) => readFileSync(join(out, name), 'utf8')).join(''), numbers.map((n) => `${n}\n`).join(''));
  await data
    .parallelize(
      [
        { a: 1, b: 'x,"y"' },
        { a: 2, b: 'z' },
      ],
      1,
    )
    .saveAsCsv(join(folder, 'csv'));
  assert.equal(readFileSync(join(folder, 'csv', 'part-00000.csv'), 'utf8'), 'a,b\n1,"x,""y"""\n2,z\n');
  const objects = Array.from({ length: 100 }, (_, i) => ({ id: i, name: `n${i}`, half: i / 2 }));
  await data.parallelize(objects, 3).saveAsArrow(join(folder, 'arrow'));
  assert.deepEqual(await data.arrowRows(join(folder, 'arrow')).collect(), objects);
  assert.deepEqual(await data.arrow(join(folder, 'arrow'), { columns: ['half'] }).sum('half'), 99 * 25);

  // The classic form, and a graph.
  const reduced = await mapReduce({
    input: set,
    map: (n, emit: (key: string, value: number) => void) => emit(n % 2 === 0 ? 'even' : 'odd', 1),
    combine: (_, ones) => ones.reduce((a, b) => a + b),
    reduce: (_, ones) => ones.reduce((a, b) => a + b),
  });
  assert.deepEqual(
    sorted(await reduced.collect()),
    sorted([
      ['even', numbers.length - odd.value],
      ['odd', odd.value],
    ]),
  );
  const graph = dag({
    vertices: {
      numbers: { source: set },
      split: {
        async *run({ inputs, emit }) {
          for await (const n of inputs['in']) yield emit((n as number) % 2 ? 'odd' : 'even', n);
        },
      },
      join: {
        tasks: 3,
        async *run({ inputs, emit, partition }) {
          let evens = 0;
          for await (const _ of inputs['evens']) evens++;
          for await (const n of inputs['odds']) yield emit('out', [n, evens]);
          if (partition === 0) yield emit('count', evens);
        },
      },
    },
    edges: [
      { from: 'numbers', to: 'split' },
      { from: 'split', output: 'odd', to: 'join', input: 'odds', by: 'hash', key: (n: number) => n },
      { from: 'split', output: 'even', to: 'join', input: 'evens', by: 'broadcast' },
    ],
  });
  const evens = numbers.filter((n) => n % 2 === 0).length;
  assert.deepEqual(await graph.output('join', 'count').collect(), [evens]);
  assert.deepEqual(
    sorted(await graph.output('join').collect()),
    sorted(numbers.filter((n) => n % 2 === 1).map((n) => [n, evens])),
  );

  // The plan as data.
  const totals = pairs.reduceByKey((a, b) => a + b);
  await totals.count();
  const explained = await totals.explain();
  assert.deepEqual(
    explained.stages.map(({ operators }) => operators.map(({ name }) => name)),
    [['parallelize', 'map'], ['reduceByKey']],
  );
  assert.equal(explained.stages[1].report?.tasks, data.size * 2);
  assert.match(String(explained), /shuffle: /);
  assert.match(await totals.draw(), /^<svg .*<\/svg>\n$/s);
  const usage = data.usage.shuffle;
  assert.ok(usage.bytesWritten > 0);
  say(data, 'passed', { shuffle: explained.shuffle.name, usage });
}
