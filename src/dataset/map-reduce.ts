/**
 * The classic form: map, combine, reduce. It is made of the same operators as everything else.
 *
 * ```ts
 * const counts = await mapReduce({
 *   input: data.textFile('notes/'),
 *   map: (line, emit) => { for (const word of line.split(' ')) emit(word, 1); },
 *   combine: (word, ones) => ones.reduce((a, b) => a + b),
 *   reduce: (word, ones) => ones.reduce((a, b) => a + b),
 * });
 * ```
 */

import type { Dataset } from './dataset.js';
import { identityOf } from './rows/hash.js';

export interface MapReduceInit<T, K, V, R> {
  /** The records. */
  readonly input: Dataset<T>;
  /** Emits any number of pairs for a record. */
  map(record: T, emit: (key: K, value: V) => void): void;
  /** Values of a key in one map task become one; may run any number of times. Default: values travel as they are. */
  combine?(key: K, values: V[]): V;
  /** All values of a key become one result. */
  reduce(key: K, values: V[]): R;
  /** A folder: the result is saved there as one JSON line per [key, result]. Default: nothing is saved. */
  readonly output?: string;
  /** Reduce tasks. Default: as the session. */
  readonly partitions?: number;
}

/** Values of a key that are held before they are combined. */
const AT_ONCE = 64;
/** Keys that a map task holds before it passes on what it has. */
const MOST_KEYS = 1 << 16;

function pairsOf<T, K, V, R>({ input, map, combine }: MapReduceInit<T, K, V, R>): Dataset<[K, V]> {
  if (!combine) {
    return input.flatMap((record) => {
      const out: [K, V][] = [];
      map(record, (key, value) => out.push([key, value]));
      return out;
    });
  }
  return input.mapPartitions(async function* (records) {
    let held = new Map<unknown, { key: K; values: V[] }>();
    const emit = (key: K, value: V) => {
      const identity = identityOf(key);
      const entry = held.get(identity);
      if (!entry) {
        held.set(identity, { key, values: [value] });
        return;
      }
      if (entry.values.push(value) >= AT_ONCE) entry.values = [combine(key, entry.values)];
    };
    for await (const record of records) {
      map(record, emit);
      if (held.size < MOST_KEYS) continue;
      for (const { key, values } of held.values()) yield [key, combine(key, values)] as [K, V];
      held = new Map();
    }
    for (const { key, values } of held.values()) yield [key, combine(key, values)] as [K, V];
  });
}

/** The result as a dataset; with `output`, it has been saved when the promise resolves. All ranks call it. */
export async function mapReduce<T, K, V, R>(init: MapReduceInit<T, K, V, R>): Promise<Dataset<[K, R]>> {
  const result = pairsOf(init)
    .groupByKey(init.partitions)
    .map(([key, values]): [K, R] => [key, init.reduce(key, values)]);
  if (init.output !== undefined) await result.saveAsNdjson(init.output);
  return result;
}
