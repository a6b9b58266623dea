/**
 * Joining pairs by key. The smaller side is held in a table and the other one streams past it, so a key with most of the rows costs no memory on that side.
 *
 *   too large for memory     both sides go to files by a part of the hash, and each pair of files is joined by itself
 *   still too large          one key has most of it: the table holds a chunk at a time, and the other side streams past each
 *
 * How it is done depends on the bound and on the bytes of the two sides alone, so another attempt gives the same rows in the same order.
 */

import { SpillFile } from '../memory/spill-file.js';
import { estimateBytes, PlanNode } from '../plan/node.js';
import { BATCH_ROWS, type Batch, type Task } from '../plan/task.js';
import { decodeRows, encodeRows } from './codec.js';
import { hashIdentity, identityOf } from './hash.js';
import { KeyTable } from './key-table.js';
import { type Count, hashShuffle, type Pair, shuffledRows } from './shuffled.js';

/** Which sides keep rows that have no partner. */
export interface Keeps {
  readonly left: boolean;
  readonly right: boolean;
}

/** One side: its rows can be read as often as needed. */
interface Side {
  /** As they travelled. */
  readonly bytes: number;
  readonly isKept: boolean;
  readonly isLeft: boolean;
  rows(): AsyncIterable<readonly unknown[]>;
}

/** Rows take so many times the memory that they take as bytes. */
const EXPANSION = 4;
const MOST_FILES = 128;
const FRAME_ROWS = 512;

export function joinNode(left: PlanNode, right: PlanNode, partitions: Count, keeps: Keeps, name: string): PlanNode {
  const shuffles = [left, right].map((side) => hashShuffle(side, partitions, () => node));
  const node: PlanNode = new PlanNode({
    name,
    dependencies: shuffles,
    partitions: ({ defaultPartitions }) => {
      for (const shuffle of shuffles) shuffle.decide(defaultPartitions);
      return shuffles[0].partitions;
    },
    compute(partition, task): AsyncIterable<Batch> {
      const sides = shuffles.map((shuffle, i) => ({
        bytes: task.services.sizeOf(shuffle),
        isKept: i === 0 ? keeps.left : keeps.right,
        isLeft: i === 0,
        rows: () => shuffledRows(task, shuffle, partition),
      }));
      const [held, streamed] = sides[0].bytes < sides[1].bytes ? sides : [sides[1], sides[0]];
      const parts = Math.min(MOST_FILES, Math.ceil((held.bytes * EXPANSION) / task.services.memory.share));
      return parts > 1 ? joinInParts(held, streamed, parts, task) : joinSides(held, streamed, task);
    },
  });
  return node;
}

async function* joinInParts(held: Side, streamed: Side, parts: number, task: Task): AsyncGenerator<Batch> {
  const files: SpillFile[][] = [];
  try {
    for (const side of [held, streamed]) {
      const list: SpillFile[] = [];
      files.push(list);
      for (let part = 0; part < parts; part++) list.push(new SpillFile(task.services.disk));
      await spread(side, list, task);
    }
    for (let part = 0; part < parts; part++) {
      const [a, b] = [held, streamed].map((side, i) => ({ ...side, rows: () => rowsOf(files[i][part], task) }));
      yield* joinSides(a, b, task);
      for (const list of files) list[part].close();
    }
  } finally {
    for (const file of files.flat()) file.close();
  }
}

/** Rows of a side into files, by a part of the hash that partitions do not use. */
async function spread(side: Side, files: readonly SpillFile[], task: Task): Promise<void> {
  const pending: unknown[][] = files.map(() => []);
  const write = (part: number) => {
    files[part].append(encodeRows(pending[part]));
    pending[part] = [];
  };
  for await (const batch of side.rows()) {
    for (const row of batch) {
      const part = (Math.imul(hashIdentity(identityOf((row as Pair)[0])), 0x9e3779b1) >>> 8) % files.length;
      if (pending[part].push(row) >= FRAME_ROWS) write(part);
    }
  }
  for (let part = 0; part < files.length; part++) if (pending[part].length > 0) write(part);
  task.stats.spills++;
  for (const { length } of files) task.stats.spilledBytes += length;
}

async function* rowsOf(file: SpillFile, task: Task): AsyncGenerator<readonly unknown[]> {
  for (const frame of file.frames()) {
    yield* decodeRows(frame);
    await task.breathe();
  }
}

/** Rows of the held side with one key. */
interface Group {
  readonly key: unknown;
  readonly values: unknown[];
  isMatched: boolean;
}

class Table {
  readonly #keys = new KeyTable();
  readonly groups: Group[] = [];

  add(key: unknown, value: unknown): void {
    const at = this.#keys.entryOf(identityOf(key));
    if (at < this.groups.length) this.groups[at].values.push(value);
    else this.groups.push({ key, values: [value], isMatched: false });
  }

  find(key: unknown): Group | undefined {
    const at = this.#keys.find(identityOf(key));
    return at < 0 ? undefined : this.groups[at];
  }
}

/** The held side as tables of what memory allows: one, unless it is large. */
async function* tablesOf(side: Side, task: Task): AsyncGenerator<{ table: Table; isFirst: boolean; isLast: boolean }> {
  const { memory } = task.services;
  let table = new Table();
  let bytes = 0;
  let isFirst = true;
  try {
    for await (const batch of side.rows()) {
      const more = estimateBytes(batch);
      if (bytes + more > memory.share && bytes > 0) {
        yield { table, isFirst, isLast: false };
        isFirst = false;
        table = new Table();
        memory.give(bytes);
        bytes = 0;
      }
      memory.take(more);
      bytes += more;
      for (const row of batch) table.add((row as Pair)[0], (row as Pair)[1]);
    }
    yield { table, isFirst, isLast: true };
  } finally {
    memory.give(bytes);
  }
}

async function* joinSides(held: Side, streamed: Side, task: Task): AsyncGenerator<Batch> {
  const pair = held.isLeft
    ? (key: unknown, value: unknown, other: unknown) => [key, [value, other]]
    : (key: unknown, value: unknown, other: unknown) => [key, [other, value]];
  /** Streamed rows that a table before has matched; needed where there are several. */
  let matched = new Uint8Array(0);
  let out: unknown[] = [];
  for await (const { table, isFirst, isLast } of tablesOf(held, task)) {
    let at = 0;
    for await (const batch of streamed.rows()) {
      if (!(isFirst && isLast) && matched.length < at + batch.length) matched = grown(matched, at + batch.length);
      for (const row of batch) {
        const key = (row as Pair)[0];
        const other = (row as Pair)[1];
        const group = table.find(key);
        const i = at++;
        if (!group) {
          if (streamed.isKept && isLast && matched[i] !== 1) out.push(pair(key, undefined, other));
          continue;
        }
        group.isMatched = true;
        if (!(isFirst && isLast)) matched[i] = 1;
        for (const value of group.values) {
          if (out.push(pair(key, value, other)) < BATCH_ROWS) continue;
          yield out;
          out = [];
        }
      }
      await task.breathe();
    }
    if (!held.isKept) continue;
    for (const { key, values, isMatched } of table.groups) {
      if (isMatched) continue;
      for (const value of values) {
        if (out.push(pair(key, value, undefined)) < BATCH_ROWS) continue;
        yield out;
        out = [];
      }
    }
  }
  if (out.length > 0) yield out;
}

function grown(flags: Uint8Array, length: number): Uint8Array<ArrayBuffer> {
  const more = new Uint8Array(Math.max(length, 2 * flags.length));
  more.set(flags);
  return more;
}
