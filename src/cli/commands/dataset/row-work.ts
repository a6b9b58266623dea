/** Jobs of `verbena bench rows`: functions in JavaScript over values in JavaScript. bench/peers/spark-datasets.py has each of them, by name, in Spark's own operators. */

import type { Session } from '../../../dataset/index.js';

interface RowWork {
  readonly words: string;
  /** Rows that must come of it. */
  readonly answer: number;
  /** Does it, and returns how many came. */
  run(data: Session): Promise<number>;
}

const add = (a: number, b: number) => a + b;

export const ROW_WORK: Readonly<Record<string, RowWork>> = {
  numbers: {
    words: 'map, filter, map of 10 M numbers',
    answer: 5e6,
    run: (data) =>
      data
        .range(10e6)
        .map((i) => 3 * i)
        .filter((x) => x % 2 === 0)
        .map((x) => x + 1)
        .count(),
  },
  'few-keys': {
    words: 'reduceByKey, 5 M rows, 1,000 keys',
    answer: 1000,
    run: (data) =>
      data
        .range(5e6)
        .map((i): [number, number] => [i % 1000, i])
        .reduceByKey(add)
        .count(),
  },
  'text-keys': {
    words: 'reduceByKey, 2 M rows, 500,000 keys of text',
    answer: 500_000,
    run: (data) =>
      data
        .range(2e6)
        .map((i): [string, number] => [`key-${i % 500_000}`, 1])
        .reduceByKey(add)
        .count(),
  },
  'group-numbers': {
    words: 'groupByKey, 1 M numbers, 100,000 keys',
    answer: 100_000,
    run: (data) =>
      data
        .range(1e6)
        .map((i): [number, number] => [i % 100_000, i])
        .groupByKey()
        .count(),
  },
  'group-objects': {
    words: 'groupByKey, 500,000 objects, 100,000 keys of text',
    answer: 100_000,
    run: (data) =>
      data
        .range(500_000)
        .map((i): [string, { id: number; name: string }] => [`key-${i % 100_000}`, { id: i, name: `name-${i}` }])
        .groupByKey()
        .count(),
  },
  'join-rows': {
    words: 'join, 1 M with 100,000 pairs',
    answer: 1e6,
    run: (data) =>
      data
        .range(1e6)
        .map((i): [number, number] => [i % 100_000, i])
        .join(data.range(100_000).map((i): [number, number] => [i, 2 * i]))
        .count(),
  },
  'sort-rows': {
    words: 'sortBy, 500,000 numbers',
    answer: 500_000,
    run: (data) =>
      data
        .range(500_000)
        .map((i) => Math.imul(i, 0x9e3779b1) >>> 0)
        .sortBy((x) => x)
        .count(),
  },
  distinct: {
    words: 'distinct, 1 M texts, 50,000 different',
    answer: 50_000,
    run: (data) =>
      data
        .range(1e6)
        .map((i) => `word-${i % 50_000}`)
        .distinct()
        .count(),
  },
};
