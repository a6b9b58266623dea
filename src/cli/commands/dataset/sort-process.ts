/** One rank of `verbena sort run`. */

import type { SessionOptions } from '../../../dataset/index.js';
import { openDatasets } from '../../../dataset/session.js';
import { tellFailures } from '../../system-error.js';
import { watchPeak } from './peak.js';

export interface SortArgument {
  readonly from: string;
  readonly to: string;
  readonly session: SessionOptions;
}

export interface SortResult {
  readonly records: number;
  readonly bytes: number;
  readonly ms: number;
  /** Own and shared memory of the rank that had most. */
  readonly peakBytes: number;
  /** What the ranks held of what is bounded, at most. */
  readonly boundedBytes: number;
  readonly spilledBytes: number;
  readonly stages: readonly { readonly name: string; readonly ms: number }[];
}

const PHASES = ['read and partition', 'fetch, sort and write'];

tellFailures();
const peakBytes = watchPeak();
const argument = JSON.parse(process.argv[2]) as SortArgument;
const data = await openDatasets(argument.session);
let shown = 0;
data.onProgress(({ stage, stages, done, tasks, bytes, ms }) => {
  if (stages < 2 || (done < tasks && performance.now() - shown < 500)) return;
  shown = performance.now();
  process.stdout.write(
    `${PHASES[stage]}: ${done} of ${tasks} tasks, ${(bytes / 1e6).toFixed(0)} MB, ${(bytes / ms / 1e3).toFixed(0)} MB/s\n`,
  );
});
const started = performance.now();
await data.binaryRecords(argument.from, { width: 100, key: 10 }).sortByKey().saveAsBinary(argument.to);
const ms = performance.now() - started;
const report = data.lastReport;
const peaks = data.accumulator<number[]>('peaks', [], (a, b) => [...a, ...b]);
await data.range(0, data.size, 1, data.size).forEach(() => {
  peaks.add([peakBytes(), data.usage.peakMemory]);
});
if (data.isDriver) {
  const stages = report?.stages ?? [];
  const result: SortResult = {
    records: stages.at(-1)?.rowsOut ?? 0,
    bytes: stages.at(-1)?.bytesOut ?? 0,
    ms,
    peakBytes: Math.max(peakBytes(), ...peaks.value.filter((_, i) => i % 2 === 0)),
    boundedBytes: Math.max(data.usage.peakMemory, ...peaks.value.filter((_, i) => i % 2 === 1)),
    spilledBytes: data.usage.shuffle.bytesInFiles + stages.reduce((sum, stage) => sum + stage.spilledBytes, 0),
    stages: stages.map(({ ms: took }, i) => ({ name: PHASES[i], ms: took })),
  };
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
await data.close();
