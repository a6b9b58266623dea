/** One rank of `verbena bench sort | shuffle | groupby | join | wordcount | rows`: runs the job that a line names and says how long it took. */

import { rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { sum } from '../../../dataset/columns/group.js';
import type { Session } from '../../../dataset/index.js';
import { openDatasets } from '../../../dataset/session.js';
import { watchPeak } from './peak.js';
import { ROW_WORK } from './row-work.js';
import { shuffleBytes } from './shuffle-load.js';

export interface BenchArgument {
  readonly shuffle: 'rdma' | 'sort-tcp';
  /** Folders of the input, by name. */
  readonly input: Readonly<Record<string, string>>;
  /** A folder for output, emptied before each round. */
  readonly output: string;
  /** Of the shuffle load. */
  readonly bytes: number;
  readonly memoryBytes: number;
}

export interface BenchRound {
  readonly ms: number;
  /** How many rows or bytes came of it. */
  readonly answer: number;
  readonly stagesMs: readonly number[];
  /** Of the rank that had most. */
  readonly peakBytes: number;
}

const WORK: Readonly<Record<string, (data: Session, argument: BenchArgument) => Promise<number>>> = {
  async sort(data, { input, output }) {
    await data.binaryRecords(input['records'], { width: 100, key: 10 }).sortByKey().saveAsBinary(output);
    return data.lastReport?.stages.at(-1)?.rowsOut ?? 0;
  },
  shuffle: (data, { bytes }) => shuffleBytes(data, bytes),
  groupby: (data, { input }) =>
    data
      .arrow(input['rows'])
      .groupBy('key', { total: sum('value') })
      .count(),
  join: (data, { input }) => data.arrow(input['rows']).join(data.arrow(input['small']), 'key').count(),
  wordcount: (data, { input }) => data.textFile(input['text']).countWords().count(),
  'wordcount-js': (data, { input }) =>
    data
      .textFile(input['text'])
      .flatMap((line) => line.split(' '))
      .map((word): [string, number] => [word, 1])
      .reduceByKey((a, b) => a + b)
      .count(),
  ...Object.fromEntries(Object.entries(ROW_WORK).map(([name, { run }]) => [name, run])),
};

const peakBytes = watchPeak();
const argument = JSON.parse(process.argv[2]) as BenchArgument;
const data = await openDatasets({ shuffle: argument.shuffle, memoryBytes: argument.memoryBytes });
const lines = data.isDriver ? createInterface({ input: process.stdin })[Symbol.asyncIterator]() : undefined;
const peaks = data.accumulator('peak', 0, Math.max);
for (;;) {
  const { value: name } = await data.broadcast(async () => (await lines?.next())?.value as string | undefined);
  if (name === undefined) break;
  if (data.isDriver) rmSync(argument.output, { recursive: true, force: true });
  await data.world.barrier();
  const started = performance.now();
  const answer = await WORK[name](data, argument);
  const ms = performance.now() - started;
  const stagesMs = data.lastReport?.stages.map((stage) => stage.ms) ?? [];
  await data.range(0, data.size, 1, data.size).forEach(() => {
    peaks.add(peakBytes());
  });
  const result: BenchRound = { ms, answer, stagesMs, peakBytes: Math.max(peakBytes(), peaks.value) };
  if (data.isDriver) process.stdout.write(`${JSON.stringify(result)}\n`);
}
await data.close();
